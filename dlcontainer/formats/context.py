"""The folder that a text is built in: the files that it names, beside it."""

import os
import shutil
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.formats import labels
from dlcontainer.formats.texts import FILE_NAMES, Format
from dlcontainer.plan import Plan


def stage(plan: Plan, folder: Path) -> None:
    """Write the files that a rendered text takes into the image, under `folder`/files."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "manifest.json").write_text(labels.manifest(plan))
    for name, entry in zip(labels.staged_names(plan), plan.files, strict=True):
        shutil.copyfile(entry.source, files / name)
        (files / name).chmod(0o644)
    for entry in plan.probe:
        (files / labels.PROBE).mkdir(exist_ok=True)
        shutil.copyfile(entry.source, files / labels.PROBE / entry.name)
        (files / labels.PROBE / entry.name).chmod(0o644)


def write(plan: Plan, form: Format, text: str, output: str) -> Path:
    """Write a text to a file, or to a folder with the files that it names; give the text's path.

    A folder is what is one already, or ends in '/' (which a Path would not keep).

    Raises ConfigError where it can't be written; what was there stays then.
    """
    target = Path(output)
    try:
        if not (target.is_dir() or output.endswith("/")):
            return _write_whole(target, text)
        target.mkdir(parents=True, exist_ok=True)
        if form == "native":
            script = plan.recipe.verify.script
            (target / script).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(plan.files[0].source, target / script)
        else:
            stage(plan, target)
        return _write_whole(target / FILE_NAMES[form], text)
    except OSError as error:
        raise ConfigError(
            f"can't write {target}: {error.strerror}", next_step="give another path: -o"
        ) from None


def _write_whole(path: Path, text: str) -> Path:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path
