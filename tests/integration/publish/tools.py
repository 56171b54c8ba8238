"""What the tests of published modules share: a shelf with a module, and shells that load it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.world import missing

# Whatever a shell, a modulefile or the engine could take for its own.
ARGUMENTS = ("a b", "'", '"', "$(x)", "`x`", "new\nline", "", "--", "-x", "\\", "*", "é", "#", "~")
SHOW = "import json, sys; print(json.dumps(sys.argv[1:]))"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shelf:
    """A root with one published module, and the environment of who uses it."""

    root: Path
    name: str
    version: str
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """The release that is live; where nothing is published, a place for one made by hand."""
        live = self.root / "modules/tcl" / self.name / self.version
        by_hand = self.root / "releases" / f"{self.name}-{self.version}"
        return live.resolve().parent if live.exists() else by_hand

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(
        self,
        *argv: str,
        code: int = 0,
        cwd: Path | None = None,
        stdin: str | None = None,
        **variables: str,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command as a user would; the exit code must be `code`."""
        done = subprocess.run(
            argv,
            env={**self.environ, **variables},
            cwd=cwd or self.environ["HOME"],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def program(name: str, package: str) -> str:
    """Find a program of a Debian package, or say what is missing."""
    found = shutil.which(name)
    if found is None:
        missing(f"{name} (Debian's package {package})")
    return found


def clean_home(folder: Path) -> dict[str, str]:
    """Make a home, and the environment of a login there."""
    home = folder / "a home"
    home.mkdir(parents=True)
    kept = ("PATH", "USER", "LOGNAME", "CI")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    return {**environ, "HOME": str(home), "LANG": "C.UTF-8"}


def in_shell(
    shelf: Shelf, system: tuple[str, str], script: str, *argv: str, root: Path | None = None
) -> str:
    """Run a script where the shelf's modules are in use; give its stdout and stderr."""
    start, kind = system
    text = f'{start}\nmodule use "$USE"\nexec 2>&1\n{script}'
    bash = program("bash", "bash")
    use = str(root or shelf.root) + f"/modules/{kind}"
    return shelf.run(bash, "--norc", "-c", text, "bash", *argv, USE=use).stdout
