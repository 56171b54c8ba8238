"""A user's own network (`--script FILE:build`): its folder is copied, and lent to both sides."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.bench.probes.networks import choices
from dlcontainer.bench.probes.probe import Option, ParameterContext, Values
from dlcontainer.errors import UsageError
from dlcontainer.system import digests

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json

_FRAMEWORK = "torch"
# Of the script's folder: more is no program, but data.
_MOST_FILES, _MOST_BYTES = 1000, 64_000_000
DIGEST, _PATH = "script_sha256", "script_path"
# Where a container sees it, beside what else is lent.
_INSIDE = "/mnt/script"

SCRIPT = Option(
    name="script",
    metavar="FILE:FUNCTION",
    help="Train your own network: FUNCTION() of FILE gives model, optimizer, sample and loss "
    "(PyTorch). The folder of FILE is copied for both sides.",
)


def settled(values: Values, setting: ParameterContext) -> Values:
    """Settle the script; raises UsageError for what is no function of a file."""
    words, begun = values.get(SCRIPT.name), setting.begun
    before: Mapping[str, Any] = begun.workload if begun else {}
    if not words:
        if before.get(DIGEST):
            raise UsageError(
                f"this session trains the network of a script, {before.get(SCRIPT.name)}",
                next_step=f"name it again: {SCRIPT.flag} FILE:FUNCTION",
            )
        return {SCRIPT.name: None}
    path_text, colon, name = str(words).rpartition(":")
    path = Path(path_text)
    if not colon or not name.isidentifier() or path.suffix != ".py":
        raise UsageError(
            f"{SCRIPT.flag} {words}: not a function of a Python file",
            next_step=f"write FILE.py:FUNCTION, e.g. {SCRIPT.flag} train.py:build",
        )
    if not path.is_file():
        raise UsageError(
            f"{SCRIPT.flag} {words}: no file {path}", next_step="check the name of the file"
        )
    _require(values, str(words))
    files = _files(path.resolve().parent, str(words))
    return {
        SCRIPT.name: f"{path.name}:{name}",
        _PATH: str(path.resolve()),
        DIGEST: _digest(path.resolve().parent, files),
    }


def _require(values: Values, words: str) -> None:
    if values["framework"] != _FRAMEWORK:
        raise UsageError(
            f"{SCRIPT.flag} {words}: {values['framework']} trains the probe's own network only",
            next_step=f"measure an image with {_FRAMEWORK}",
        )
    if values.get("workload") not in (None, choices.RESIDUAL):
        raise UsageError(
            f"{SCRIPT.flag} and {choices.WORKLOAD.flag} are incompatible: each names a network",
            next_step="leave out one of them",
        )
    if values.get("input"):
        raise UsageError(
            f"{SCRIPT.flag} and --input are incompatible: samples are like that of the script",
            next_step="leave out --input",
        )
    if values.get("optimizer") not in (None, choices.OPTIMIZERS[0]):
        raise UsageError(
            f"{SCRIPT.flag} and {choices.OPTIMIZER.flag} are incompatible: the script's own "
            "optimizer is used",
            next_step=f"leave out {choices.OPTIMIZER.flag}",
        )


def _files(folder: Path, words: str) -> list[Path]:
    """List the files of a script's folder, without hidden ones and byte code."""
    files: list[Path] = []
    size = 0
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part == "__pycache__" for part in parts):
            continue
        if path.is_file() and not path.is_symlink():
            files.append(path)
            size += path.stat().st_size
        if len(files) > _MOST_FILES or size > _MOST_BYTES:
            raise UsageError(
                f"{SCRIPT.flag} {words}: its folder {folder} has more than {_MOST_FILES} files or "
                f"{_MOST_BYTES // 1_000_000} MB",
                why="the folder is copied for both sides, with the modules that the file imports",
                next_step="move the file and its modules into a folder of their own",
            )
    return sorted(files)


def _digest(folder: Path, files: list[Path]) -> str:
    listed = "".join(f"{digests.of_file(path)}  {path.relative_to(folder)}\n" for path in files)
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def arguments(values: Values) -> dict[str, Any]:
    """Return what a launch is called with; nothing without a script."""
    return {SCRIPT.name: values[SCRIPT.name]} if values.get(SCRIPT.name) else {}


def declared(values: Values) -> "Mapping[str, Json]":
    """Return what is declared: the function and the digest of all that it may import."""
    return {name: values[name] for name in (SCRIPT.name, DIGEST) if values.get(name)}


@contextmanager
def lent(values: Values, lending: SharedStorage) -> Iterator[tuple[SharedFolder, ...]]:
    """Hand all launches a copy of the script's folder; raises UsageError where it has changed."""
    if not values.get(SCRIPT.name):
        yield ()
        return
    source, folder = Path(str(values[_PATH])).parent, lending.work / "script"
    for path in _files(source, str(values[SCRIPT.name])):
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    if _digest(folder, _files(folder, str(values[SCRIPT.name]))) != values[DIGEST]:
        raise UsageError(
            f"{SCRIPT.flag} {values[SCRIPT.name]}: its folder changed while the session began",
            next_step="run the command again",
        )
    yield (SharedFolder(option="script-at", source=folder, inside=_INSIDE),)


def named(workload: "Mapping[str, Json]") -> str:
    """Return what is trained: " the network of train.py:build"; or nothing."""
    name = workload.get(SCRIPT.name)
    return f" the network of {name}" if name else ""
