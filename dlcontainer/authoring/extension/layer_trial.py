"""A layer beside its base, before they are one image: byte code, and what pip says of both."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from dlcontainer.authoring.extension.interpreter import BaseProgram
from dlcontainer.config.field_types import Strict
from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.system import foreign_files
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError

# A folder that every root tree has, and that is empty in an image.
_PLACE = "/mnt"
_SHOWN = 4
# Runs inside images: standard library, syntax of Python 3.6. Read from standard input.
_PROGRAM = """\
import compileall, importlib.util, json, os, py_compile, subprocess, sys

place, folders = sys.argv[1], sys.argv[2:]
modes = getattr(py_compile, "PycInvalidationMode", None)
for folder in folders:
    below = place + folder
    if not os.path.isdir(below):
        continue
    more = {"invalidation_mode": modes.UNCHECKED_HASH} if modes else {}
    for workers in (os.cpu_count() or 1, 1):
        try:
            compileall.compile_dir(
                below, maxlevels=100, ddir=folder, force=True, quiet=2, workers=workers, **more
            )
            break
        except (OSError, NotImplementedError, ImportError):
            if workers == 1:
                raise


def check(path):
    environ = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_CONFIG_FILE=os.devnull)
    environ["PYTHONPATH"] = os.pathsep.join(path + environ.get("PYTHONPATH", "").split(os.pathsep))
    argv = [sys.executable, "-s", "-m", "pip", "--no-color", "check"]
    done = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode not in (0, 1):
        return None
    return [line for line in lines if done.returncode and line.strip()]


there = importlib.util.find_spec("pip") is not None
after = check([place + folder for folder in folders]) if there else None
before = check([]) if after else []
print(json.dumps({"before": before, "after": after}))
"""


class _PipAnswer(Strict):
    """What `pip check` says of the base alone and of both; None where it does not run."""

    before: tuple[str, ...] | None = Field(strict=False)
    after: tuple[str, ...] | None = Field(strict=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerTrial:
    """What came of it: notes, a line each."""

    notes: tuple[str, ...]


def run(base: BaseProgram, layer: Path) -> LayerTrial:
    """Compile a layer's modules, and let the base's pip check base and layer together.

    Raises MisfitError for needs that the layer breaks, BuildError where the base's Python ends.
    """
    folders = tuple(dict.fromkeys((base.paths.purelib, base.paths.platlib)))
    try:
        printed = base.run(_PROGRAM, ((layer, _PLACE),), (_PLACE, *folders))
        lines = [line for line in printed.splitlines() if line.strip()]
        answer = _PipAnswer.model_validate(foreign_files.loads(lines[-1] if lines else ""))
    except (CommandFailedError, CommandTimeoutError) as error:
        output = error.completed.stderr if isinstance(error, CommandFailedError) else str(error)
        raise BuildError(
            "the base's Python can't compile the layer",
            why=output.strip()[-400:],
            next_step="check the image: dlcontainer validate IMAGE",
        ) from None
    except (ValueError, ValidationError):
        raise BuildError(
            "the base's Python printed something else than the answer",
            next_step="check the image: dlcontainer validate IMAGE",
        ) from None
    if answer.after is None:
        return LayerTrial(notes=("the base has no pip that runs: `pip check` was left out",))
    before = answer.before or ()
    _require_none([line for line in answer.after if line not in before])
    return LayerTrial(notes=tuple(f"pip check, of the base alone: {line}" for line in before))


def _require_none(broken: list[str]) -> None:
    if not broken:
        return
    more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
    raise MisfitError(
        "pip check: the packages and those of the base are incompatible",
        why="\n    ".join([*broken[:_SHOWN], *more]),
        next_step="change the versions that you ask for; what is in the base stays as it is",
    )
