"""Apptainer's backend: an unpacked tree that each step changes, packed in the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.build import build_steps
from dlcontainer.build.backends.backend import DamagedError, SaveTask
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.build.file_order import SquashOrder
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.engine import Binds, StepSpec
from dlcontainer.formats import apptainer_metadata, step_environment
from dlcontainer.image import sif
from dlcontainer.image.contents import FileTree, FolderTree
from dlcontainer.planning.plan import Plan
from dlcontainer.system import digests
from dlcontainer.system.background import BackgroundWork
from dlcontainer.system.process import CommandFailedError, Runner
from dlcontainer.system.progress import phase_line
from dlcontainer.system.workspace import remove

# Between steps: quick to write and to read, thrown away some day.
KEEP_SQUASH = ("-comp", "lz4")

# Nothing of the engine's variables, but what makes an ordinary user without subordinate ids root:
# the engine then works with the program fakeroot.
_CLEAN = f"""\
set -- PATH={step_environment.SYSTEM_PATH} "$0" "$@"
if [ -n "${{FAKEROOTKEY-}}" ]; then
    for name in FAKEROOTKEY FAKEROOTDONTTRYCHOWN FAKED_MODE LD_PRELOAD LD_LIBRARY_PATH; do
        eval "value=\\${{$name-}}"
        set -- "$name=$value" "$@"
    done
fi
exec /usr/bin/env -i "$@"
"""

# The variables of the base, as the engine wrote them down when it unpacked a registry's image. It
# lets what is set already win; fakeroot's libraries have to stay beside the base's.
_OF_BASE = f"""\
dlc_from={apptainer_metadata.OF_BASE}
if [ -r "$dlc_from" ]; then
    if [ -n "${{FAKEROOTKEY-}}" ]; then
        dlc_path=$LD_LIBRARY_PATH dlc_preload=$LD_PRELOAD
        unset LD_LIBRARY_PATH LD_PRELOAD
    fi
    (. "$dlc_from") || {{ echo "the base's variables can't be read: $dlc_from" >&2; exit 1; }}
    . "$dlc_from"
    if [ -n "${{FAKEROOTKEY-}}" ]; then
        export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$dlc_path"
        export LD_PRELOAD="${{LD_PRELOAD:+$LD_PRELOAD:}}$dlc_preload"
    fi
fi
exec "$@"
"""

# Run as the engine's %setup: on the host, with the ids of the tree. Values come by environment.
_PACK = """\
Bootstrap: localimage
From: nothing
%setup
    set -eu
    if [ -n "${DLC_METADATA-}" ]; then
        rm -rf "$DLC_TREE/.singularity.d/bootstrap_history"
        cp -R "$DLC_METADATA/." "$DLC_TREE/.singularity.d/"
    fi
    mksquashfs "$DLC_TREE" "$DLC_OUT" -noappend -quiet -no-progress $DLC_SQUASH \\
        ${DLC_SORT:+-sort "$DLC_SORT"} ${DLC_ACTIONS:+-action-file "$DLC_ACTIONS"}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApptainerTools:
    """What the backend works with: the engine in its modes, and where its words go."""

    engine: Apptainer
    mode: str
    step_mode: str
    # goes before a step's command
    step_prefix: tuple[str, ...]
    version: str
    environ: Mapping[str, str]
    runner: Runner
    background: BackgroundWork
    on_line: Callable[[str], None]
    log: Path


@dataclass(kw_only=True, slots=True)
class ApptainerBackend:
    """One image in the making, in a private folder `work`; see `backend.BuildBackend`.

    `origin` is the definition's head of what the first step starts from; `routing` is bound at
    the routing folder while steps run.
    """

    plan: Plan
    tools: ApptainerTools
    cache: StepCache
    work: Path
    origin: str
    routing: Binds
    text: str
    squash: Sequence[str]
    # SOURCE_DATE_EPOCH: no time in the image is later
    moment: int | None
    # the base's registry speaks http, not https
    plain_http: bool = False
    # as OCI names it, where it is not the host's
    arch: str | None = None
    # gives mksquashfs's lists for the tree
    arrange: Callable[[FileTree, Path], SquashOrder] | None = None
    _binds: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def tree(self) -> Path:
        """The unpacked tree."""
        return self.work / "tree"

    def recall(self, key: str) -> CachedStep | None:
        """Return the kept result of a step, if it may be used."""
        return self.cache.recall(key)

    def begin(self, parent: CachedStep | None) -> None:
        """Unpack a kept result, or the base; raises DamagedError for a damaged result."""
        (self.work / "nothing").mkdir(exist_ok=True)
        if parent is None:
            self._engine(self.origin, self.tree, {})
        else:
            packed = self.work / "parent.sqfs"
            with self.cache.taken(parent, packed) as is_whole:
                self._unpack(parent, packed, is_whole)
        self._binds = [*self.routing, *_private_tmp(self.work)]

    def _unpack(self, parent: CachedStep, packed: Path, is_whole: Callable[[], bool]) -> None:
        # Checked while it is unpacked: nothing of the tree is used before both are done.
        whole = self.tools.background.start(lambda _: is_whole())
        try:
            self._engine(f"Bootstrap: localimage\nFrom: {packed.name}\n", self.tree, {})
        except CommandFailedError:
            if whole.result():
                raise
        finally:
            whole.join()  # it reads what is open no longer than this
        if not whole.result():
            raise DamagedError(parent.key)

    def run(self, step: BuildStep) -> None:
        """Put the step's files in and run its script as the tree's root."""
        folder = self.routing[0][0]
        with build_steps.laid_out(step, folder) as script:
            self._run(self._inside("dumb", "/bin/sh", script), {})

    def keep(self, step: BuildStep, packages: Packages) -> SaveTask:
        """Pack the tree quickly, and return what keeps that."""
        return self.cache.keep(
            step, packages, self.work, lambda out: self._pack(out, KEEP_SQUASH, {})
        )

    def files(self) -> FolderTree:
        """Show the tree's files."""
        return FolderTree(folder=self.tree)

    def finish(self, target: Path, sbom: Path) -> None:
        """Pack the tree with what the image says of itself, and make the SIF."""
        written = apptainer_metadata.files(self.plan, self.text, self.tools.version)
        folder = self.work / "metadata"
        for name, text in written.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        packed = self.work / "tree.sqfs"
        self.tools.on_line(phase_line("pack its files (mksquashfs)"))
        values = {"DLC_METADATA": str(folder), **self._dated, **self._arranged()}
        self._pack(packed, self.squash, values)
        identity = self.tools.background.start(lambda _: _sha256(packed))
        # Tens of thousands of files: they go while the image is put together.
        self.tools.background.start(lambda runner: remove(self.tree, runner))
        (self.work / "definition").write_text(self.text)
        inspection = apptainer_metadata.inspection(self.plan, self.text, self.tools.version)
        (self.work / "inspection").write_text(inspection)
        self.tools.on_line(phase_line("put the SIF together"))
        engine, options = self.tools.engine, sif.part_options(self.plan.site.arch)
        self._run(engine.sif_new_argv(target), {})
        for part, path, name in (
            ("definition", self.work / "definition", "definition"),
            ("inspection", self.work / "inspection", "inspect-metadata.json"),
            ("sbom", sbom, sif.BILL),
            ("tree", packed, "tree.sqfs"),
        ):
            try:
                self._run(engine.sif_add_argv(target, path, name, options[part]), {})
            except CommandFailedError:
                if part != "sbom":
                    raise
                # Older engines do not know this kind of part: the bill is inside all the same.
                self.tools.on_line(sif.NO_BILLS)
        sif.settle(target, identity.result(), self.moment)
        packed.unlink()
        target.chmod(0o755)

    def shell_command(self) -> tuple[list[str], Mapping[str, str], Path]:
        """Return command, environment and folder of a shell in the tree as it is now."""
        shell = step_environment.in_shell(self.plan)
        argv = self._inside("xterm", "/bin/sh", "-c", shell)
        return argv, self._environment(), self.work

    def _inside(self, terminal: str, *argv: str) -> list[str]:
        spec = StepSpec(
            tree=self.tree,
            argv=(
                *("/bin/sh", "-c", _CLEAN, f"TERM={terminal}"),
                *("/bin/sh", "-c", _OF_BASE, "sh", *argv),
            ),
            mode=self.tools.step_mode,
            binds=tuple(self._binds),
        )
        return [*self.tools.step_prefix, *self.tools.engine.step_argv(spec)]

    @property
    def _dated(self) -> Mapping[str, str]:
        # Only for the image: a kept result keeps its times, whatever the next build wants.
        return {} if self.moment is None else {"SOURCE_DATE_EPOCH": str(self.moment)}

    def _arranged(self) -> Mapping[str, str]:
        if self.arrange is None:
            return {}
        lists = self.arrange(self.files(), self.work)
        values = {}
        for name, text in (("DLC_SORT", lists.sort), ("DLC_ACTIONS", lists.actions)):
            if text:
                values[name] = str(self.work / f"{name}.list")
                Path(values[name]).write_bytes(text)
        return values

    def _pack(self, out: Path, squash: Sequence[str], values: Mapping[str, str]) -> None:
        self._mapped(_PACK, {"DLC_OUT": str(out), "DLC_SQUASH": " ".join(squash), **values})

    def _mapped(self, definition: str, values: Mapping[str, str]) -> None:
        """Run a definition's %setup with the ids of the tree."""
        self._engine(definition, self.work / "aside", {"DLC_TREE": str(self.tree), **values})

    def _engine(self, definition: str, tree: Path, values: Mapping[str, str]) -> None:
        path = self.work / "setup.def"
        path.write_text(definition)
        argv = self.tools.engine.unpack_base_argv(
            path.name, tree, self.tools.mode, plain_http=self.plain_http, arch=self.arch
        )
        self._run(argv, values)

    def _run(self, argv: Sequence[str], values: Mapping[str, str]) -> None:
        env = self._environment() | dict(values)
        tools = self.tools
        tools.runner(argv, env=env, cwd=self.work, on_line=tools.on_line, log=tools.log)

    def _environment(self) -> dict[str, str]:
        tmp = self.work / "tmp"
        tmp.mkdir(exist_ok=True)
        return apptainer.environment(self.tools.environ, tmpdir=tmp)


def _sha256(path: Path) -> bytes:
    return bytes.fromhex(digests.of_file(path))


def _private_tmp(work: Path) -> list[tuple[Path, str]]:
    # A recipe's snippet sees empty folders of the build's own, never the host's /tmp.
    binds = []
    for name, target in (("inner-tmp", "/tmp"), ("inner-var-tmp", "/var/tmp")):  # noqa: S108
        (work / name).mkdir(exist_ok=True)
        (work / name).chmod(0o1777)
        binds.append((work / name, target))
    return binds
