"""Which mode of the engine works here: try once with a tiny image, remember, explain."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer import installation
from dlcontainer.config.field_types import SIF_ARCH
from dlcontainer.engines import apptainer, unknown_user
from dlcontainer.engines.apptainer import BUILD_MODES, RUN_MODES, Apptainer
from dlcontainer.engines.engine import BuildSpec, RunSpec
from dlcontainer.errors import EngineError
from dlcontainer.system import atomic_files, foreign_files, guarded_files, machine
from dlcontainer.system.machine import HostMachine

if TYPE_CHECKING:
    from dlcontainer.system.process import Runner

# Folders of a root tree that are links into /usr on merged systems and folders on others.
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Debian also has a game called `singularity`.
_KNOWN = re.compile(r"(apptainer|singularity(-ce|-pro)?) version \S")
# For one answer of the engine: the tiny image takes it a second or two.
TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCapabilities:
    """What was found out about the engine on this host by this user."""

    key: str
    program: str
    version: str
    build_mode: str | None
    run_mode: str | None
    takes_squash: bool
    # mode -> what the engine said, for the modes that failed
    failures: Mapping[str, str]


def key_of(engine: Apptainer, host: HostMachine) -> str:
    """Name what a trial depends on: program, user, kernel, and which ids the user can map."""
    stat = engine.program.stat()
    lacking = [*machine.without_subordinate_ids(host), *machine.without_id_maps(host)]
    parts = (engine.program, stat.st_mtime_ns, stat.st_size, host.uid, host.kernel, *lacking)
    return "|".join(map(str, parts))


def recall(folder: Path, engine: Apptainer, host: HostMachine) -> EngineCapabilities | None:
    """Recall the remembered trial; None where there is none that still holds."""
    try:
        data = foreign_files.loads(guarded_files.read_own(_file(folder, host)))
        trial = EngineCapabilities(**data)
    except (OSError, ValueError, TypeError):
        return None
    return trial if trial.key == key_of(engine, host) else None


def require(
    folder: Path, engine: Apptainer, host: HostMachine, runner: "Runner"
) -> EngineCapabilities:
    """Return a trial with working modes: the remembered one, or a new one.

    Raises EngineError that says what each mode answered.
    """
    trial = recall(folder, engine, host)
    if trial is None or not (trial.build_mode and trial.run_mode):
        # A failure is not believed for long: what it lacked may have been mended.
        trial = perform(folder, engine, host, runner)
    if not trial.build_mode or not trial.run_mode:
        reasons = "; ".join(f"{mode}: {what}" for mode, what in trial.failures.items())
        raise EngineError(
            f"{trial.program} works in no mode here",
            why=reasons,
            next_step="run `dlcontainer doctor`: it names the cause, and the line that fixes it",
        )
    return trial


def perform(
    folder: Path, engine: Apptainer, host: HostMachine, runner: "Runner"
) -> EngineCapabilities:
    """Build and run a tiny image in each mode until one works; remember the outcome.

    Raises EngineError where the program itself does not start.
    """
    from dlcontainer.system.workspace import temporary

    version, help_text = _introduce(engine, host, runner)
    failures: dict[str, str] = {}
    with temporary(host.environ, runner) as work:
        tmp = work / "tmp"
        tmp.mkdir()  # as a build makes it, whose group and bits are what the engine meets
        env = apptainer.environment(host.environ, tmpdir=tmp)
        binds = _tiny_tree(work / "tree")
        base = "Bootstrap: localimage\nFrom: tree\n"
        (work / "tiny.def").write_text(f"{base}%post\n    true\n")
        (work / "base.def").write_text(base)
        image = work / "tiny.sif"
        trying = _ModeTrials(runner=runner, env=env, work=work, failures=failures)
        build_mode = trying.first(
            "build",
            list(BUILD_MODES),
            # As a folder too: a build begins with that, and the engine asks more of its place.
            lambda mode: [
                engine.build_argv(
                    BuildSpec(definition="tiny.def", image=image, binds=binds, mode=mode)
                ),
                engine.unpack_base_argv("base.def", work / "base", mode),
            ],
            leaves=image,
        )
        # An image that was built elsewhere may run where none can be built.
        can_pack = bool(build_mode) or trying.pack(engine, host, image)
        run_mode = (
            trying.first(
                "run",
                list(RUN_MODES),
                lambda mode: [
                    engine.run_argv(
                        RunSpec(image=image, argv=("/bin/sh", "-c", "true"), mode=mode, binds=binds)
                    )
                ],
            )
            if can_pack
            else None
        )
    trial = EngineCapabilities(
        key=key_of(engine, host),
        program=str(engine.program),
        version=version,
        build_mode=build_mode,
        run_mode=run_mode,
        takes_squash="--mksquashfs-args" in help_text,
        failures=failures,
    )
    _remember(folder, host, trial)
    return trial


def _introduce(engine: Apptainer, host: HostMachine, runner: "Runner") -> tuple[str, str]:
    """Ask the program for its version and for what `build` takes."""
    from dlcontainer.system.process import (
        CommandFailedError,
        CommandNotFoundError,
        CommandTimeoutError,
    )

    env = apptainer.environment(host.environ)
    try:
        version = runner([str(engine.program), "--version"], env=env, timeout=TIMEOUT_S).stdout
        help_text = runner(
            [str(engine.program), "build", "--help"], env=env, timeout=TIMEOUT_S
        ).stdout
    except (CommandFailedError, CommandNotFoundError, CommandTimeoutError) as error:
        stderr = _reason(error.completed.stderr) if isinstance(error, CommandFailedError) else ""
        if unknown_user.SAID.search(stderr):
            raise EngineError(
                f"{engine.program} does not start for the user {host.uid}",
                why=unknown_user.WHY,
                next_step=unknown_user.NEXT_STEP,
            ) from None
        raise EngineError(
            f"{engine.program} does not start",
            why=f"{error}: {stderr}" if stderr else str(error),
            next_step="install it again, or remove it from PATH and "
            f"{installation.engine(host.environ)}",
        ) from None
    if not _KNOWN.match(version):
        raise EngineError(
            f"{engine.program} is neither Apptainer nor Singularity",
            why=f"its --version prints: {_reason(version)[:100]}",
            next_step="remove it from PATH, or put the real engine before it: "
            f"{installation.engine(host.environ)}",
        )
    return version.strip(), help_text


@dataclass(frozen=True, kw_only=True, slots=True)
class _ModeTrials:
    """How modes are tried; `failures` gets the engine's answer for each that failed."""

    runner: "Runner"
    env: Mapping[str, str]
    work: Path
    failures: dict[str, str]

    def first(
        self,
        name: str,
        modes: list[str],
        argvs_of: Callable[[str], list[list[str]]],
        *,
        leaves: Path | None = None,
    ) -> str | None:
        """Return the first mode that works, and that leaves the file it is to leave."""
        from dlcontainer.system.process import CommandFailedError, CommandTimeoutError

        for mode in modes:
            if leaves is not None:
                leaves.unlink(missing_ok=True)
            try:
                for argv in argvs_of(mode):
                    self.runner(argv, env=self.env, cwd=self.work, timeout=TIMEOUT_S)
            except CommandFailedError as error:
                self.failures[f"{name} {mode}"] = _reason(error.completed.stderr)
            except CommandTimeoutError:
                self.failures[f"{name} {mode}"] = f"no answer in {TIMEOUT_S:g} s"
            else:
                if leaves is None or leaves.is_file():
                    return mode
                self.failures[f"{name} {mode}"] = "it succeeded, but wrote no image"
        return None

    def pack(self, engine: Apptainer, host: HostMachine, image: Path) -> bool:
        """Make the tiny image of its parts, which takes no mode; tell whether it is there."""
        from dlcontainer.system.process import CommandFailedError, CommandTimeoutError

        packer = machine.find_program("mksquashfs", host.environ)
        if packer is None or host.arch not in SIF_ARCH:
            return False
        packed = self.work / "tiny.sqfs"
        number = SIF_ARCH[host.arch]
        part = ("--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", number)
        for argv in (
            [str(packer), "tree", packed.name, "-all-root", "-quiet", "-no-progress"],
            engine.sif_new_argv(image),
            engine.sif_add_argv(image, packed, packed.name, part),
        ):
            try:
                self.runner(argv, env=self.env, cwd=self.work, timeout=TIMEOUT_S)
            except (CommandFailedError, CommandTimeoutError):
                return False
        return True


def _reason(text: str) -> str:
    """Pick the line that says what went wrong from an engine's complaints."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    complaints = [line for line in lines if "while permitted capability" in line or "ERROR" in line]
    fatal = [line for line in lines if line.startswith("FATAL")]
    chosen = (complaints or fatal or lines or ["it printed nothing"])[-1]
    return " ".join(chosen.split())


def _tiny_tree(tree: Path) -> tuple[tuple[Path, str], ...]:
    """Make a root tree of empty folders over which the host's programs are bound: no download."""
    binds = []
    for name in ("usr", "etc", "dev", "proc", "sys", "tmp", "var", "root", "mnt"):
        (tree / name).mkdir(parents=True)
    binds.append((Path("/usr"), "/usr"))
    for name in _TOP:
        top = Path("/") / name
        if top.is_symlink():
            (tree / name).symlink_to(os.readlink(top))  # noqa: PTH115  the link as written
        elif top.is_dir():
            (tree / name).mkdir()
            binds.append((top, str(top)))
    return tuple(binds)


def _file(folder: Path, host: HostMachine) -> Path:
    # Homes are shared by machines that differ: one file a host and user.
    return folder / f"trial-{os.uname().nodename}-{host.uid}.json"


def _remember(folder: Path, host: HostMachine, trial: EngineCapabilities) -> None:
    path = _file(folder, host)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(asdict(trial), indent=1, sort_keys=True) + "\n"
        atomic_files.write(path, text, mode=0o600)
    except OSError:
        # A home that can't be written costs a second trial next time, nothing else.
        return
