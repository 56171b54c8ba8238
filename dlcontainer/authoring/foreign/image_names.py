"""Names of Dockerfiles and of definition files."""

import re
from pathlib import PurePath

from dlcontainer.authoring.foreign.image_words import ImageFormat

_DOCKERFILE = re.compile(
    r"(?:Docker|Container)file(?:[._-].*)?|.*\.(?:docker|container)file", re.IGNORECASE
)
_DEFINITION = re.compile(r".*\.def|(?:Singularity|Apptainer)(?:\..*)?")


def format_of(path: PurePath) -> ImageFormat | None:
    """Return what a file is by its name; None for files of packages, and of other names."""
    if _DOCKERFILE.fullmatch(path.name):
        return "Dockerfile"
    return "definition" if _DEFINITION.fullmatch(path.name) else None
