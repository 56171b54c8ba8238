"""Files of wished packages by their names, and the name of a recipe that is made from one."""

import re
from pathlib import Path, PurePath

from dlcontainer.authoring.foreign import image_names
from dlcontainer.errors import UsageError

# As pip, uv, PEP 621, PEP 751 and conda name them; and what the readers refuse with a next step.
_NAMES = re.compile(
    r".*\.(txt|toml|lock|ipynb|json|py|cfg|sif|whl)|.*environment.*\.ya?ml|conda-lock\.ya?ml"
    r"|Pipfile",
    re.IGNORECASE,
)
# Words that say what kind of file it is, not whose.
_KIND = re.compile(
    r"requirements?|pyproject|pylock|uv|environment|freeze|deps|dependencies|dockerfile"
    r"|containerfile|singularity|apptainer"
)
_APART = re.compile(r"[^a-z0-9]+")


def is_meant(text: str) -> bool:
    """Return whether a RECIPE of the command line means a file of wished packages."""
    path = PurePath(text)
    return bool(_NAMES.fullmatch(path.name)) or image_names.format_of(path) is not None


def recipe_name(path: Path) -> str:
    """Name a recipe after its file, or after the file's folder where the file has a usual name.

    Raises UsageError where neither has a letter or a digit.
    """
    stem = path.name.lower().split(".")[0]
    for text in (_KIND.sub("", stem), path.absolute().parent.name.lower()):
        name = _APART.sub("-", text).strip("-")[:40].strip("-")
        if name:
            return name
    raise UsageError(
        f"can't take a name for the recipe from {path}", next_step="choose one: --name NAME"
    )
