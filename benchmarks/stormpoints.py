"""Points of the storm's validation: imports on mounts that stand for nodes; their errors."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median

from dlcontainer.lab.filesystem.counting import run_ranks
from dlcontainer.lab.storm.measure import Runnable
from dlcontainer.system.process import ProcessRunner

CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A point: what was predicted before, what was measured after, s."""

    name: str
    predicted: float
    measured: tuple[float, ...]

    @property
    def error(self) -> float:
        """Relative error of the prediction against the median of the launches."""
        return self.predicted / median(self.measured) - 1


def frozen(body: Mapping[str, object]) -> str:
    """Return the digest of what was settled before the first held-out point was measured."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def last_rank(what: Runnable, points: Sequence[Path], ranks: int, runner: ProcessRunner) -> float:
    """Start the ranks of all nodes (mounts) at once; return the seconds of the last."""
    own = replace(runner, environ=what.environ)
    with folders(len(points)) as insides:
        # Each node mounts its image at a place of its own.
        commands = [
            [
                word.replace(str(what.under), str(point)).replace(str(inside_of(what)), str(inside))
                for word in what.argv
            ]
            for point, inside in zip(points, insides, strict=True)
            for _ in range(ranks)
        ]
        return max(run_ranks(commands, [own] * len(commands), 600.0))


def inside_of(what: Runnable) -> Path:
    """Return the place where an import from an image mounts it; see `measure.packed`."""
    return what.under.parent / "inside"


@contextmanager
def folders(count: int) -> Iterator[list[Path]]:
    """Yield empty folders to mount on."""
    with ExitStack() as stack:
        yield [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dlcontainer-node-")))
            for _ in range(count)
        ]


def make_prefix(folder: Path, runner: ProcessRunner, *modules: str) -> Path:
    """Make a virtual environment with this Python's own copies of some packages, compiled."""
    prefix = folder / "prefix"
    runner([sys.executable, "-m", "venv", "--copies", "--without-pip", str(prefix)])
    site = next(prefix.glob("lib/python3*/site-packages"))
    for module in modules:
        found = find_spec(module)
        if found is None or found.origin is None:
            raise SystemExit(f"no {module} here\n  next: pip install {module}")
        package = Path(found.origin).parent
        shutil.copytree(package, site / package.name)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, site / libraries.name)
    runner([str(prefix / "bin/python"), "-m", "compileall", "-q", str(site)])
    return prefix


def table(outcomes: Sequence[Outcome]) -> str:
    """Set the points in columns, mean and worst error below."""
    lines = [
        f"{one.name:<58} {one.predicted:7.2f} s  {median(one.measured):7.2f} s "
        f"[{min(one.measured):.2f}, {max(one.measured):.2f}]  {one.error:+.1%}"
        for one in outcomes
    ]
    errors = [abs(one.error) for one in outcomes]
    return "\n".join([*lines, f"mean error {mean(errors):.1%}, worst {max(errors):.1%}"])


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, object]]:
    """Return the points as plain data."""
    return [{**asdict(one), "error": one.error} for one in outcomes]
