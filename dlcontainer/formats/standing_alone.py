"""The folder that an image is built in without dlcontainer: texts, files, README.txt, checksums."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dlcontainer.formats import apptainer, build_context, folder_readme, output_folder
from dlcontainer.formats.texts import FILE_NAMES
from dlcontainer.planning.plan import Plan
from dlcontainer.system import atomic_files

# An engine sends the whole folder to its daemon.
_DOCKERIGNORE = f"{apptainer.BASE_FILE}\n*.sif\n"
_STARTED = frozenset(FILE_NAMES[form] for form in build_context.SCRIPTS)


def write(
    plan: Plan,
    texts: Mapping[str, str],
    target: Path,
    template_folders: list[Path],
    lay_base: Callable[[Path], None] | None = None,
) -> list[str]:
    """Write a folder that an image is built in without dlcontainer; return the names of its files.

    `texts` are those that build, by name; `lay_base` puts the base beside them. The folder appears
    as a whole, and replaces only an earlier one; raises ConfigError, and what `lay_base` raises.
    """
    # '.' and 'a/..' have no name that another folder could stand beside.
    with output_folder.writing(target.resolve()) as aside:
        build_context.stage(plan, aside)
        for name, text in texts.items():
            atomic_files.write(aside / name, text, mode=0o777 if name in _STARTED else 0o666)
        if lay_base is not None:
            lay_base(aside)
        readme = folder_readme.text(
            plan, texts, template_folders, output_folder.MARK, has_base=lay_base is not None
        )
        (aside / folder_readme.NAME).write_text(readme)
        (aside / ".dockerignore").write_text(_DOCKERIGNORE)
    return sorted([*texts, folder_readme.NAME])
