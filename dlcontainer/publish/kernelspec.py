"""A Jupyter kernel in a published module: its kernel.json, written once a launch has shown it runs.

Jupyter names a connection file on its command line, and the kernel reads it inside the image: the
folder of that file must show there, which only a launch can tell.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.errors import DlcontainerError, EngineError, UsageError
from dlcontainer.publish import tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents
from dlcontainer.system import atomic_files, foreign_files
from dlcontainer.system.environ import variables
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
    quote,
)

# The first run on a host may unpack the image.
_PATIENCE_S = 600.0
_MOST_BYTES = 1_000_000  # of a kernel.json
# In `metadata` of a kernel.json: it is ours, and may be replaced.
_OURS = "dlcontainer"
# Jupyter's own rule for a kernel's name; it looks them up in small letters.
_NAME = re.compile(r"[a-z0-9._-]+")
# What of the wrapper's variables a kernel is given.
_VENV, _BIND = "DLCONTAINER_VENV", "DLCONTAINER_BIND"
_USAGE = 2
_LOOK = (
    "import importlib.util, json, os, sys; f = importlib.util.find_spec; "
    "print(json.dumps({'ipykernel': f('ipykernel') is not None, "
    "'debugger': f('debugpy') is not None, 'visible': os.path.isfile(sys.argv[1])}))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelModule:
    """A published version, by its folder."""

    folder: Path
    # As users load it.
    name: str

    @property
    def python(self) -> Path:
        """The wrapper that runs the image's Python."""
        return self.folder / "bin" / "python"


@dataclass(frozen=True, kw_only=True, slots=True)
class JupyterFolders:
    """Jupyter's folders of a user: those of kernels and of connection files."""

    kernels: Path
    runtime: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel that started through a module's wrapper; `environ` is what it is given."""

    module: KernelModule
    venv: Path | None
    environ: Mapping[str, str] = field(default_factory=dict)
    debugger: bool = False

    @property
    def name(self) -> str:
        """The kernel's usual name for `jupyter --kernel`."""
        parts = [*self.module.name.split("/"), *([self.venv.name] if self.venv else [])]
        return re.sub(r"[^a-z0-9._-]+", "-", "-".join(parts).lower())

    @property
    def title(self) -> str:
        """The kernel's name in Jupyter's menus."""
        title = self.module.name.replace("/", " ")
        return f"{title} ({self.venv.name})" if self.venv else title

    def text(self) -> str:
        """Write kernel.json."""
        # The braces are Jupyter's: it puts the file's path in their place.
        launch = ("-m", "ipykernel_launcher", "-f", "{connection_file}")
        body = {
            "argv": [str(self.module.python), *launch],
            "display_name": self.title,
            "language": "python",
            "env": dict(self.environ),
            "metadata": {"debugger": self.debugger, _OURS: {"module": self.module.name}},
        }
        return json.dumps(body, indent=1) + "\n"


def at(folder: Path) -> KernelModule:
    """Take a folder as a published version; raises UsageError for any other."""
    module = KernelModule(folder=folder.absolute(), name=_name(folder.absolute()))
    if (module.folder / tree_lock.MARK).is_file() and os.access(module.python, os.X_OK):
        return module
    has_mark = (module.folder / tree_lock.MARK).is_file()
    raise UsageError(
        f"{folder} is not a published module with a `python` command",
        why="it has no command `python`" if has_mark else f"there is no {tree_lock.MARK} in it",
        next_step="give a release's folder, or NAME/VERSION with --root ROOT",
    )


def _name(folder: Path) -> str:
    if not (folder / contents.FILE).is_file():
        return f"{folder.parent.name}/{folder.name}"  # of the earlier layout
    with Folder.at(folder) as release:
        written = contents.described(release)
    return f"{written.name}/{written.version}"


def folders(environ: Mapping[str, str], home: Path) -> JupyterFolders:
    """Find Jupyter's own folders, by the rules of jupyter_core."""
    shared = variables.folder(environ, "XDG_DATA_HOME") or home / ".local/share"
    data = variables.folder(environ, "JUPYTER_DATA_DIR") or shared / "jupyter"
    runtime = variables.folder(environ, "JUPYTER_RUNTIME_DIR") or data / "runtime"
    return JupyterFolders(kernels=data / "kernels", runtime=runtime)


def tried(
    module: KernelModule,
    venv: Path | None,
    runtime: Path,
    environ: Mapping[str, str],
    runner: Runner,
) -> Kernel:
    """Launch the module's Python and return the kernel that it can run.

    Raises UsageError where ipykernel is missing or the environment is wrong, EngineError where the
    image does not run here.
    """
    environment = {} if venv is None else {_VENV: str(venv.absolute())}
    kernel = Kernel(module=module, venv=venv, environ=environment)
    offers = _looked(kernel, runtime, environ, runner)
    if not offers["visible"]:
        # The site does not show homes, or Jupyter's folder is elsewhere.
        kernel = replace(kernel, environ={**environment, _BIND: str(runtime)})
        offers = _looked(kernel, runtime, environ, runner)
    if not offers["ipykernel"]:
        raise _without_ipykernel(kernel)
    if not offers["visible"]:
        raise EngineError(
            f"the image can't read {runtime}, where Jupyter writes a kernel's connection file",
            next_step="set JUPYTER_RUNTIME_DIR to a folder that it can read, here and for Jupyter",
        )
    return replace(kernel, debugger=offers["debugger"])


def write(kernel: Kernel, kernels: Path, name: str) -> Path:
    """Write DIR/NAME/kernel.json; raises UsageError for one of somebody else's, or no space."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid kernel name",
            why="Jupyter accepts only lower-case letters, digits and . _ -",
            next_step="give another name: --name NAME",
        )
    target = kernels / name / "kernel.json"
    if os.path.lexists(target) and not _is_ours(target):
        raise UsageError(
            f"{target} exists, and dlcontainer did not write it",
            next_step="give another name: --name NAME",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(target, kernel.text())
    except OSError as error:
        raise UsageError(
            f"can't write {target}: {error.strerror}",
            next_step="give another folder: -o DIR",
        ) from None
    return target


def _looked(
    kernel: Kernel, runtime: Path, environ: Mapping[str, str], runner: Runner
) -> Mapping[str, bool]:
    """Look from inside, as the kernel will: at a file that stands where Jupyter puts its own."""
    bare = {name: value for name, value in environ.items() if name not in (_VENV, _BIND)}
    python = str(kernel.module.python)
    try:
        # As Jupyter makes it, for this user alone.
        runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=runtime, prefix="dlcontainer-") as file:
            argv = (python, "-c", _LOOK, file.name)
            environ = {**bare, **kernel.environ}
            # The engine shows the current folder, which is another one for each notebook.
            done = runner(argv, env=environ, cwd=Path("/"), timeout=_PATIENCE_S)
        body = foreign_files.loads((done.stdout.splitlines() or [""])[-1])
        return {key: bool(body[key]) for key in ("ipykernel", "debugger", "visible")}
    except OSError as error:
        raise UsageError(
            f"can't write to {runtime}, where Jupyter writes a kernel's connection file",
            why=error.strerror,
            next_step="set JUPYTER_RUNTIME_DIR to a folder that you can write to, here and for "
            "Jupyter",
        ) from None
    except CommandFailedError as error:
        raise _refused(kernel, error.completed.returncode, error.completed.stderr) from None
    except (CommandNotFoundError, CommandTimeoutError, ValueError, KeyError, TypeError) as error:
        raise _refused(kernel, None, str(error)) from None


def _refused(kernel: Kernel, code: int | None, stderr: str) -> DlcontainerError:
    """Hand on the wrapper's own words: it knows best why it does not start."""
    first, _, rest = stderr.strip().rpartition("dlcontainer: ")[2].partition("\n")
    words = "; ".join(line.strip() for line in rest.splitlines() if line.strip())
    kind = UsageError if code == _USAGE else EngineError
    step = words.rpartition("next: ")[2] if "next: " in words else ""
    return kind(
        f"{kernel.module.name} does not run here: {first}",
        next_step=step or f"see the full output: {quote([str(kernel.module.python), '-c', '1'])}",
    )


def _without_ipykernel(kernel: Kernel) -> UsageError:
    venv = kernel.venv
    if venv is not None:
        return UsageError(
            f"ipykernel is missing in {venv}",
            next_step=f". {quote([str(venv / 'bin/activate')])}; pip install ipykernel",
        )
    return UsageError(
        f"ipykernel is missing in {kernel.module.name}",
        next_step="dlcontainer-venv ~/my-env; . ~/my-env/bin/activate; pip install ipykernel; "
        "then run this command again with --venv ~/my-env",
    )


def _is_ours(target: Path) -> bool:
    try:
        body = foreign_files.loads(foreign_files.read(target, _MOST_BYTES))
        return _OURS in body["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
