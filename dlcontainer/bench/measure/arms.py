"""The arms of a comparison: how each side's command line looks. Pure, but for the unpacking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dlcontainer.bench.measure import ranks
from dlcontainer.bench.measure.bare.tree import BareTree
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.launch import LaunchCommand, inside, stamped
from dlcontainer.bench.measure.ranks import RankLaunch
from dlcontainer.bench.measure.shared_mount import Instance
from dlcontainer.bench.measure.units import baton
from dlcontainer.bench.measure.units.baton import GroupSeat
from dlcontainer.bench.probes.lending import SharedFolder
from dlcontainer.bench.probes.probe import Probe, ProbeCell
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import Binds, Containment, RunSpec
from dlcontainer.errors import BuildError, ChecksFailedError
from dlcontainer.image import layout
from dlcontainer.system import digests
from dlcontainer.system.process import CommandFailedError

Mount = Literal["none", "first", "joiner"]

_NO_PROBE = "dlc-no-probe"
# Says which files the probe of an image is, each with its checksum.
_LOOK = (
    f'cd "$1" 2>/dev/null && test -r __main__.py || {{ echo {_NO_PROBE}; exit; }}; '
    "sha256sum *.py || :"
)
# On a busy machine an image that is unpacked for each run takes minutes.
_LONGEST_LOOK_S = 900
_SHA256_LENGTH = 64

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """What every arm runs: one cell of a probe, and the environment declared for all arms.

    With a gathering each launch is that of its ranks, with a seat that of a group's process.
    """

    probe: Probe
    cell: ProbeCell
    environment: Mapping[str, str]
    gathering: RankLaunch | None = None
    seat: GroupSeat | None = None
    lent: tuple[SharedFolder, ...] = ()

    def argv(self, python: str, folder: str, *, contained: bool = False) -> tuple[str, ...]:
        """Return the command that runs the probe, which lies in a folder, with a Python."""
        # -S: the probe runs the site module itself, and times it.
        argv = (python, "-S", folder, *self.probe.words(self.cell))
        for shared in self.lent:
            argv += (f"--{shared.option}", self._seen(shared) if contained else str(shared.source))
        if self.seat is None:
            return argv
        return (*argv, *self.seat.words(baton.INSIDE if contained else str(self.seat.folder)))

    @property
    def binds(self) -> Binds:
        """What a container sees of the host for it."""
        lent = tuple((shared.source, self._seen(shared)) for shared in self.lent)
        first = self.seat or self.gathering
        return (first.binds if first else ()) + lent

    def _seen(self, shared: SharedFolder) -> str:
        return shared.below if self.seat or self.gathering else shared.inside


@dataclass(frozen=True, kw_only=True, slots=True)
class Native:
    """A Python on the host, started in an environment that holds nothing of the caller's."""

    prefix: Path
    probe: Path
    home: Path
    name: ArmName = "native"
    mount: Mount = "none"

    @property
    def here(self) -> Path:
        """Where its files are."""
        return self.prefix

    def launch(self, workload: Workload) -> LaunchCommand:
        """Return the command that starts a workload on this side."""
        environment = {"PATH": f"{self.prefix}/bin:{_SYSTEM_PATH}", "HOME": str(self.home)}
        environment |= workload.environment
        argv = workload.argv(f"{self.prefix}/bin/python", str(self.probe))
        gathered = workload.gathering
        if gathered is None:
            return _launch(stamped(inside(argv)), environment, workload)
        handed = environment | gathered.handed(gathered.folder)
        command = gathered.launched(ranks.rank(argv, handed, cleared=True))
        return _launch(stamped(command), gathered.rank_group.environment, workload)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerArm:
    """The image through its engine; `image` is a folder for the unpacked arm."""

    context: BenchContext
    image: Path
    python: str
    name: ArmName = "container"
    mount: Mount = "first"
    instance: Instance | None = None
    contained: Containment = ""
    # The checksums of the image's probe by its files' names; empty where the image can't tell.
    probe_files: Mapping[str, str] = field(default_factory=dict)

    def launch(self, workload: Workload) -> LaunchCommand:
        """Return the command that starts a workload on this side."""
        argv = workload.argv(self.python, layout.PROBE, contained=True)
        gathered = workload.gathering
        if gathered is None:
            argv = tuple(inside(argv))
        else:
            argv = tuple(ranks.rank(argv, gathered.handed(gathered.inside), cleared=False))
        surroundings = self.context.surroundings
        spec = RunSpec(
            image=self.image,
            argv=argv,
            mode=_mode(self.context, self.image),
            environment={**workload.environment, **surroundings.image_paths},
            binds=workload.binds,
            together=gathered is not None,
            contained=self.contained,
            accelerators=self.context.accelerators,
            site_words=surroundings.words,
        )
        engine, joined = self.context.execution.engine, self.instance
        command = engine.join_argv(spec, joined.name) if joined else engine.run_argv(spec)
        state = joined.state if joined else None
        environment = apptainer.environment(
            self.context.execution.host.environ, tmpdir=self.context.work, state=state
        )
        environment |= surroundings.environment
        if gathered is not None:
            command = gathered.launched(command, surroundings.environment)
            environment = {**gathered.rank_group.environment, **environment}
        return _launch(stamped(command), environment, workload)


@dataclass(frozen=True, kw_only=True, slots=True)
class BareArm:
    """The image's own Python, started by its own loader on the host: no engine is around it."""

    context: BenchContext
    tree: BareTree
    name: ArmName = "bare"
    mount: Mount = "none"
    # As the container's: it runs the probe that the image carries.
    probe_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def here(self) -> Path:
        """Where its files are."""
        return self.tree.here

    def environment(self, declared: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a launch."""
        home = str(self.context.execution.host.home)
        environment = {"PATH": f"{self.tree.here}/bin:{_SYSTEM_PATH}", "HOME": home}
        return environment | self.tree.environment(declared)

    def launch(self, workload: Workload) -> LaunchCommand:
        """Return the command that starts a workload on this side."""
        probe = self.tree.root / layout.PROBE.lstrip("/")
        argv = workload.argv(str(self.tree.python), str(probe))
        words = (*self.tree.started(workload.environment), *argv)
        return _launch(stamped(inside(words)), self.environment(workload.environment), workload)


# What stands for the image in a session.
OfImage = ContainerArm | BareArm
Arm = Native | OfImage


def _launch(
    argv: Sequence[str], environment: Mapping[str, str], workload: Workload
) -> LaunchCommand:
    return LaunchCommand(argv=tuple(argv), environment=environment, probe=workload.probe)


def _mode(context: BenchContext, image: Path) -> str:
    mode = context.execution.run_mode
    # A folder is unpacked already.
    return "userns" if mode == "unpacked" and image.is_dir() else mode


def probe_copy(files: tuple[Path, ...], work: Path) -> Path:
    """Copy the probe for the native side: a folder without byte code, as in the image."""
    folder = work / "probe"
    folder.mkdir()
    for file in files:
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def container(context: BenchContext, subject: BenchImage, probe: Probe) -> ContainerArm:
    """Return the container arm: each launch mounts the image, as users' wrappers do.

    Raises ChecksFailedError where the image does not run, or does not carry the probe.
    """
    answer, contained = _looked(context, subject)
    again = f"rebuild the image: dlcontainer build {subject.recipe}"
    if _NO_PROBE in answer:
        raise ChecksFailedError(
            f"{subject.image} contains no probe",
            why=f"{layout.PROBE} is missing: the image was built before images had a probe",
            next_step=again,
        )
    files = _listed(answer)
    if files and not files.keys() & {probe.file, probe.earlier_file}:
        raise ChecksFailedError(
            f"{subject.image} does not contain the probe {probe.name!r}",
            why=f"{layout.PROBE}/{probe.file} is missing: the image was built before this probe "
            "existed",
            next_step=again,
        )
    return ContainerArm(
        context=context,
        image=subject.image,
        python=subject.python,
        contained=contained,
        probe_files=files,
    )


def _looked(context: BenchContext, subject: BenchImage) -> tuple[str, Containment]:
    """Ask an image for its probe; with how far the engine can keep it apart."""
    execution = context.execution
    levels: tuple[Containment, ...] = ("alone", "apart") if subject.is_contained else ("",)
    for contained in levels:
        look = RunSpec(
            image=subject.image,
            argv=("/bin/sh", "-c", _LOOK, "sh", layout.PROBE),
            mode=_mode(context, subject.image),
            contained=contained,
            site_words=context.surroundings.words,
        )
        environment = context.surroundings.environment
        env = {**apptainer.environment(execution.host.environ), **environment}
        try:
            argv = execution.engine.run_argv(look)
            answer = execution.runner(argv, env=env, timeout=_LONGEST_LOOK_S)
        except CommandFailedError as error:
            failed = error
        else:
            return answer.stdout, contained
    raise ChecksFailedError(
        f"{subject.image} does not run here",
        why=" ".join(failed.completed.stderr.split())[-400:] or str(failed),
        next_step="run `dlcontainer doctor`: it checks the engine on this host",
    ) from None


def _listed(text: str) -> dict[str, str]:
    """Read what sha256sum wrote: the checksum of each file, by its name."""
    lines = (line.split() for line in text.splitlines())
    return {
        words[1]: words[0] for words in lines if len(words) == 2 and len(words[0]) == _SHA256_LENGTH
    }


def require_same_probe(candidate: ContainerArm, files: Sequence[Path], recipe: str) -> None:
    """Refuse an image whose probe is not the one that the native side runs.

    Both would attest their probe, and the session would end NOT COMPARABLE after all its launches.
    """
    carried = candidate.probe_files
    ours = {file.name: digests.of_file(file) for file in files}
    if not carried or carried == ours:
        return
    raise ChecksFailedError(
        f"{candidate.image} contains a different version of the probe than this dlcontainer",
        why="the native side runs this dlcontainer's probe, and both sides must run one version",
        next_step=f"rebuild the image: dlcontainer build {recipe}; or measure without a native "
        "side: --arms unpacked,container",
    )


def unpacked(context: BenchContext, subject: BenchImage, name: str = "unpacked") -> ContainerArm:
    """Return the unpacked arm: the image's tree in a folder of the session's, no image mount."""
    execution, folder = context.execution, context.work / name
    execution.progress.step("unpack the image into this session's folder")
    argv = execution.engine.unpack_argv(subject.image, folder, execution.build_mode)
    tmp = context.work / f"{name}-tmp"
    tmp.mkdir()
    env = apptainer.environment(execution.host.environ, tmpdir=tmp)
    try:
        execution.runner(argv, env=env, on_line=execution.progress.line)
    except CommandFailedError as error:
        raise BuildError(
            f"{subject.image} can't be unpacked", why=error.completed.stdout[-600:]
        ) from None
    return ContainerArm(
        context=context,
        image=folder,
        python=subject.python,
        name="unpacked",
        mount="none",
        # A tree has no other way to run than the image has: as far as any engine keeps it apart.
        contained="apart" if subject.is_contained else "",
    )
