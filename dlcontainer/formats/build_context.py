"""The folder that a text is built in: the files that it names, beside it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dlcontainer.errors import ConfigError
from dlcontainer.formats import labels
from dlcontainer.formats.texts import FILE_NAMES, Format
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files

# Some schedulers (Cobalt) start only what is executable.
SCRIPTS: tuple[Format, ...] = ("job", "route")
_NOTHING: Mapping[str, str] = MappingProxyType({})


def stage(plan: Plan, folder: Path) -> None:
    """Write the files that a rendered text takes into the image, under `folder`/files."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    # All modes are said: an engine keeps them in the image, whatever this user's umask is.
    manifest = files / "manifest.json"
    manifest.write_text(labels.manifest(plan))
    manifest.chmod(0o644)
    for name, entry in zip(labels.staged_names(plan), plan.files, strict=True):
        shutil.copyfile(entry.source, files / name)
        (files / name).chmod(0o644)
    for entry in plan.probe:
        (files / labels.PROBE).mkdir(exist_ok=True)
        shutil.copyfile(entry.source, files / labels.PROBE / entry.name)
        (files / labels.PROBE / entry.name).chmod(0o644)


def stage_proofs(plan: Plan, folder: Path) -> None:
    """Write the scripts that a native twin proves itself by, under the names that its text has."""
    verify = plan.recipe.verify
    names = {layout.VERIFY: verify.script}
    names |= {
        layout.proof(proof.recipe): layout.proof_name(proof.recipe) for proof in verify.before
    }
    for entry in plan.files:
        if entry.target in names:
            target = folder / names[entry.target]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry.source, target)


def is_folder(output: str) -> bool:
    """Return whether a text's place is a folder: one that is there, or a name that ends in '/'."""
    return Path(output).is_dir() or output.endswith("/")


def write(
    plan: Plan, form: Format, text: str, output: str, neighbours: Mapping[str, str] = _NOTHING
) -> Path:
    """Write a text to a file, or to a folder with the files that it names; return the text's path.

    A folder is what is one already, or ends in '/' (a Path would not keep it). `neighbours` are the
    further texts (file's name -> text): a job script's lie beside it in any case, others' only
    in a folder.

    Raises ConfigError where it can't be written; what was there stays then.
    """
    target = Path(output)
    try:
        if not is_folder(output):
            if form == "job":
                _write_all(target.parent, neighbours)
            return _write(target, text, form)
        target.mkdir(parents=True, exist_ok=True)
        if form == "native":
            stage_proofs(plan, target)
        elif form != "job":
            stage(plan, target)
        _write_all(target, neighbours)
        return _write(target / FILE_NAMES[form], text, form)
    except OSError as error:
        raise ConfigError(
            f"can't write {target}: {error.strerror}", next_step="name another path with -o"
        ) from None


def _write_all(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        atomic_files.write(folder / name, text)


def _write(path: Path, text: str, form: Format) -> Path:
    atomic_files.write(path, text, mode=0o777 if form in SCRIPTS else 0o666)
    return path
