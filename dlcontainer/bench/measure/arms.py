"""The arms of a comparison: how each side's command line looks. Pure, but for the unpacking."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dlcontainer.bench.measure import ranks
from dlcontainer.bench.measure.bench_image import Subject
from dlcontainer.bench.measure.context import Lab
from dlcontainer.bench.measure.launch import Launch, inside, stamped
from dlcontainer.bench.measure.ranks import Gathering
from dlcontainer.bench.measure.shared_mount import Instance
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.engines import apptainer
from dlcontainer.engines.base import RunSpec
from dlcontainer.errors import BuildError, ChecksFailedError
from dlcontainer.image import layout
from dlcontainer.system.process import CommandFailedError

Mount = Literal["none", "first", "joiner"]

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What every arm runs: the probe's arguments, and the environment declared for all arms.

    With a gathering each launch is that of its ranks.
    """

    flags: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    gathering: Gathering | None = None

    def argv(self, python: str, probe: str) -> tuple[str, ...]:
        """Give the command that runs the probe with a Python."""
        return (python, *self.flags, probe, *self.arguments)


class Arm(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> ArmName:
        """Its name in the results."""

    @property
    def mount(self) -> Mount:
        """Whether a launch mounts the image, joins a mount, or needs none."""

    def launch(self, workload: Workload) -> Launch:
        """Give the command that starts a workload on this side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Native:
    """A Python on the host, started in an environment that holds nothing of the caller's."""

    prefix: Path
    probe: Path
    home: Path
    name: ArmName = "native"
    mount: Mount = "none"

    def launch(self, workload: Workload) -> Launch:
        """Give the command that starts a workload on this side."""
        own = {"PATH": f"{self.prefix}/bin:{_SYSTEM_PATH}", "HOME": str(self.home)}
        own |= workload.environment
        argv = workload.argv(f"{self.prefix}/bin/python", str(self.probe))
        gathered = workload.gathering
        if gathered is None:
            return Launch(argv=tuple(stamped(inside(argv))), environment=own)
        handed = own | gathered.handed(gathered.folder)
        command = gathered.launched(ranks.rank(argv, handed, cleared=True))
        return Launch(argv=tuple(stamped(command)), environment=gathered.team.environment)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contained:
    """The image through its engine; `image` is a folder for the unpacked arm."""

    lab: Lab
    image: Path
    python: str
    name: ArmName = "container"
    mount: Mount = "first"
    instance: Instance | None = None

    def launch(self, workload: Workload) -> Launch:
        """Give the command that starts a workload on this side."""
        argv, gathered = workload.argv(self.python, layout.PROBE), workload.gathering
        if gathered is None:
            argv = tuple(inside(argv))
        else:
            argv = tuple(ranks.rank(argv, gathered.handed(gathered.inside), cleared=False))
        spec = RunSpec(
            image=self.image,
            argv=argv,
            mode=_mode(self.lab, self.image),
            environment=workload.environment,
            binds=gathered.binds if gathered else (),
            together=gathered is not None,
            accelerators=self.lab.accelerators,
        )
        engine, joined = self.lab.engine, self.instance
        command = engine.join_argv(spec, joined.name) if joined else engine.run_argv(spec)
        state = joined.state if joined else None
        environment = apptainer.environment(
            self.lab.host.environ, tmpdir=self.lab.work, state=state
        )
        if gathered is not None:
            command = gathered.launched(command)
            environment = {**gathered.team.environment, **environment}
        return Launch(argv=tuple(stamped(command)), environment=environment)


def _mode(lab: Lab, image: Path) -> str:
    mode = lab.trial.run_mode or "plain"
    # A folder is unpacked already.
    return "userns" if mode == "unpacked" and image.is_dir() else mode


def probe_copy(files: tuple[Path, ...], lab: Lab) -> Path:
    """Copy the probe for the native side: a folder without byte code, as in the image."""
    folder = lab.work / "probe"
    folder.mkdir()
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def container(lab: Lab, subject: Subject) -> Contained:
    """Give the container arm: each launch mounts the image, as users' wrappers do.

    Raises ChecksFailedError where the image does not run, or carries no probe.
    """
    look = RunSpec(
        image=subject.image,
        argv=("/bin/sh", "-c", f"test -r {layout.PROBE}/__main__.py || echo dlc-no-probe"),
        mode=_mode(lab, subject.image),
    )
    try:
        answer = lab.runner(
            lab.engine.run_argv(look), env=apptainer.environment(lab.host.environ), timeout=120
        )
    except CommandFailedError as error:
        raise ChecksFailedError(
            f"{subject.image} does not run here",
            why=" ".join(error.completed.stderr.split())[-400:] or str(error),
            next_step="`dlcontainer doctor` tells what the engine lacks",
        ) from None
    if "dlc-no-probe" in answer.stdout:
        raise ChecksFailedError(
            f"{subject.image} carries no probe",
            why=f"there is no {layout.PROBE} in it: it was built before images had one",
            next_step=f"build it again: dlcontainer build {subject.recipe}",
        )
    return Contained(lab=lab, image=subject.image, python=subject.python)


def unpacked(lab: Lab, subject: Subject, name: str = "unpacked") -> Contained:
    """Give the unpacked arm: the image's tree in a folder of the session's, no image mount."""
    folder = lab.work / name
    lab.progress.step("unpack the image into a folder of this session's")
    argv = lab.engine.unpack_argv(subject.image, folder, lab.trial.build_mode or "plain")
    tmp = lab.work / f"{name}-tmp"
    tmp.mkdir()
    env = apptainer.environment(lab.host.environ, tmpdir=tmp)
    try:
        lab.runner(argv, env=env, on_line=lab.progress.line)
    except CommandFailedError as error:
        raise BuildError(
            f"{subject.image} can't be unpacked", why=error.completed.stdout[-600:]
        ) from None
    return Contained(lab=lab, image=folder, python=subject.python, name="unpacked", mount="none")
