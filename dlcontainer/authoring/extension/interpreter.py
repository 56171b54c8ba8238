"""The base's own Python: where it installs and looks for packages, asked of it in the image."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import Field, ValidationError

from dlcontainer.config.field_types import Arch, ImagePath, Line, Strict
from dlcontainer.engines import apptainer, emulation
from dlcontainer.engines.engine import Binds, Containment, RunSpec
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import ChecksFailedError, MisfitError
from dlcontainer.system import foreign_files
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError

_TIMEOUT_S = 600.0
_EMULATED_TIMEOUT_S = 3600.0
# As validation runs programs of an image.
_ENVIRONMENT = {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# Runs inside images: standard library, syntax of Python 3.6. Read from standard input.
_QUESTION = """\
import json, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "python": "%d.%d" % sys.version_info[:2],
    "implementation": sys.implementation.name,
    "purelib": paths["purelib"],
    "platlib": paths["platlib"],
    "scripts": paths["scripts"],
    "data": paths["data"],
    "path": [entry for entry in sys.path if entry],
}))
"""


class PythonPaths(Strict):
    """Where a Python installs (`sysconfig`), and where it looks for modules, in this order."""

    python: Line = Field(pattern=r"^3\.\d{1,2}$")
    implementation: Line
    purelib: ImagePath
    platlib: ImagePath
    scripts: ImagePath
    data: ImagePath
    path: tuple[Line, ...] = Field(strict=False)


# No slots: an answer is kept in the instance's dictionary.
@dataclass(frozen=True, kw_only=True)
class BaseProgram:
    """The Python of an image as a program: `contained` says how far it is kept from this host."""

    image: Path
    python: str
    arch: Arch
    contained: Containment
    execution: Execution

    @cached_property
    def paths(self) -> PythonPaths:
        """What it says of itself; raises ChecksFailedError where it does not run."""
        try:
            printed = self.run(_QUESTION)
            paths = PythonPaths.model_validate(foreign_files.loads(_last(printed)))
        except CommandFailedError as error:
            raise self._mute(_last(error.completed.stderr) or str(error)) from None
        except CommandTimeoutError as error:
            raise self._mute(str(error)) from None
        except (ValueError, ValidationError):
            raise self._mute("it did not print where it installs packages") from None
        if paths.implementation != "cpython":
            raise MisfitError(
                f"the Python of {self.image.name} is {paths.implementation}",
                why="packages are chosen for CPython",
                next_step="choose an image with CPython",
            )
        return paths

    def run(self, script: str, binds: Binds = (), arguments: Sequence[str] = ()) -> str:
        """Run a script by its standard input; return what it prints.

        Raises CommandFailedError, CommandTimeoutError.
        """
        host = self.execution.host
        foreign = self.arch != host.arch
        spec = RunSpec(
            image=self.image,
            argv=(self.python, "-s", "-", *arguments),
            mode=self.execution.run_mode,
            environment={
                **_ENVIRONMENT,
                **(emulation.environment(self.arch) if foreign else {}),
            },
            binds=binds,
            contained=self.contained,
        )
        return self.execution.runner(
            self.execution.engine.run_argv(spec),
            env=apptainer.environment(host.environ),
            stdin=script,
            timeout=_EMULATED_TIMEOUT_S if foreign else _TIMEOUT_S,
        ).stdout

    def _mute(self, why: str) -> ChecksFailedError:
        return ChecksFailedError(
            f"{self.python} of the image does not run here",
            why=why,
            next_step="check the image: dlcontainer validate IMAGE; and the engine: "
            "dlcontainer doctor",
        )


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
