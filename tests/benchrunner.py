"""A bench whose runner runs nothing: sessions as fast as their files are written."""

import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Unpack

from dlcontainer.bench.measure import session
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings
from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ParameterContext, Value
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.schedule import Schedule
from dlcontainer.bench.samples.series import Series
from dlcontainer.config.resources import probe_files
from dlcontainer.planning.launch.here import HostSurroundings
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CompletedCommand, Runner, RunOptions
from tests.fakes import Quiet, completed
from tests.values import HOST, execution_of, folder_of, plan_of

Answer = Callable[[int], CompletedCommand | Exception | None]


def said(wall: float, train: bool) -> str:
    start = 1_700_000_000_000_000_000
    stamps = {"inside": start + 1000, "python": start + 2000, "site": start + 3000}
    stamps["import"] = start + int(wall * 1e9)
    body: dict[str, Any] = {
        "schema": "dlcontainer/probe/1",
        "probe": "train" if train else "import",
        "error": None,
        "module": "torch",
        "stamps_ns": {"inside": start, "python": start} if train else stamps,
        "values": {"wall_s": wall, "step_p50_s": 0.05} if train else {"import_cpu_s": wall},
        "counts": {"modules": 3},
        "stack": {"python": "3.11.2", "threads": 8},
    }
    if train:
        body |= {"losses": [2.0, 1.0], "steps_s": [0.05, 0.05], "workload": {"batch": 16}}
    return f"dlc-start {start}\n{json.dumps(body)}\n"


@dataclass(slots=True)
class ProbeRunner:
    """Answers launches of the probe; `odd` may answer one of them otherwise, by its number."""

    odd: Answer = lambda _: None
    # Seconds of a launch, by whether it is in the container.
    wall: Callable[[bool], float] = lambda _: 1.0
    stdout: str = ""
    launches: list[tuple[str, ...]] = field(default_factory=list)
    others: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        if not any("dlc-start" in word for word in argv):
            self.others.append(tuple(argv))
            return completed(*argv, stdout=self.stdout)
        odd = self.odd(len(self.launches))
        self.launches.append(tuple(argv))
        if isinstance(odd, Exception):
            raise odd
        contained = any("apptainer" in word for word in argv)
        # No two launches of a machine take the same time to the last digit.
        wall = self.wall(contained) * (1 + 1e-4 * random.Random(f"{len(self.launches)}").random())
        done = completed(*argv, stdout=said(wall, "train" in argv))
        return odd or replace(done, elapsed=wall + 0.01)


@dataclass(slots=True)
class Bench:
    """A session's surroundings."""

    folder: Path
    modules: tuple[str, ...] = ("torch",)
    host: HostMachine = HOST
    # The image is somebody else's; nobody trusted it.
    adopted: bool = False
    # The image was built from the very plan of the session.
    planned: bool = False
    # Of the recipe, what is not as usual.
    changes: Mapping[str, Any] = field(default_factory=dict)
    surroundings: HostSurroundings = field(default_factory=HostSurroundings)
    unit: str | None = "launches"
    group: int | None = None
    progress: Quiet = field(default_factory=Quiet)

    def run(
        self, runner: Runner, probe: str = "import", native_as: str = "tree", **changes: Any
    ) -> Path:
        recipe = folder_of(Path(tempfile.mkdtemp(dir=self.folder)), **self.changes)
        native = self.folder / "native"
        wanted: dict[str, Any] = {
            "question": "overhead",
            "looks": (2,),
            "controls": 1,
            "joiners": 0,
            "seed": 5,
            "output": self.folder / "samples.jsonl",
            "site": "demo",
            "threads": 8,
            "timeout_s": 60.0,
            "native": native,
            "probe_files": probe_files(),
            "gap_s": 0.0,
        }
        if changes.get("cut"):
            wanted["output"] = changes["cut"].path
        subject, plan = self.subject(), plan_of(recipe)
        if self.planned:
            subject = replace(subject, digest=plan.digest)
        work = Path(tempfile.mkdtemp(prefix="work", dir=self.folder))
        context = BenchContext(
            execution=execution_of(self.folder, runner, host=self.host, progress=self.progress),
            templates=(),
            work=work,
            surroundings=self.surroundings,
        )
        typed: dict[str, Value] = {"native_as": native_as}
        if probe == "train":
            typed = {"device": "cpu", "unit": self.unit, "group": self.group}
        values = PROBES[probe].values(typed, ParameterContext(contents=subject.contents))
        wanted |= {"probe": PROBES[probe], "values": values, **changes}
        numbers = {one.name: wanted.pop(one.name) for one in fields(Schedule) if one.name in wanted}
        settings = SessionSettings(schedule=Schedule(**numbers), **wanted)
        return session.run(settings, plan, subject, context)

    def subject(self) -> BenchImage:
        image = self.folder / "demo.sif"
        image.touch()
        return BenchImage(
            image=image,
            recipe="demo",
            sha256="ab" * 32,
            digest="cd" * 32,
            prefix="/opt/demo",
            python="/opt/demo/bin/python",
            modules=self.modules,
            environment={"LANG": "C.UTF-8"},
            is_adopted=self.adopted,
            is_contained=self.adopted,
        )

    def read(self) -> Series:
        return reader.read(self.folder / "samples.jsonl")
