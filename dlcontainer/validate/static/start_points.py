"""Where programs of an image start: its Python, its commands, its extension modules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.image.contents import TreeEntry, elf, image_survey
from dlcontainer.image.contents.image_survey import FRAMEWORKS
from dlcontainer.image.record import ImageMetadata

# What a distribution has of its own: nobody exposes it, and its package manager vouches for it.
_OF_DISTRIBUTION = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin"})
_MODULE = re.compile(
    r"(?P<packages>.*/lib(?:32|64)?/python3(?:\.\d+)?/(?:lib-dynload|(?:site|dist)-packages))/"
    r"(?P<inner>.+\.so)",
    re.DOTALL,
)

# The module that all of a framework stands on: PyTorch's, TensorFlow's.
_CORES = ("_C.", "python/_pywrap_tensorflow_internal.")


@dataclass(frozen=True, kw_only=True, slots=True)
class StartPoint:
    """A file that is loaded as such; `required`: what the image is there for fails without it."""

    path: str
    kind: Literal["python", "program", "module"]
    required: bool


def programs(
    entries: Sequence[TreeEntry], offer: ImageMetadata | None, folders: Sequence[str]
) -> Iterator[StartPoint]:
    """Yield the image's Pythons and programs; `folders` are those of its PATH.

    Of an image with a record its own Python and commands are required; of another one the Python
    that PATH leads to first.
    """
    paths = {entry.path: entry for entry in entries if entry.kind in "-l"}
    pythons = [python.path for python in image_survey.read(entries, ()).interpreters]
    if offer is not None:
        main = next((path for path in pythons if path.startswith(f"{offer.prefix}/bin/")), None)
    else:
        named = (f"{folder}/{name}" for folder in folders for name in ("python3", "python"))
        main = next((path for path in named if path in paths), None)
    for path in dict.fromkeys([*([main] if main else []), *pythons]):
        yield StartPoint(path=path, kind="python", required=path == main)
    exposed = set()
    for command in offer.exposes if offer else ():
        places = (f"{folder}/{command}" for folder in (f"{offer.prefix}/bin", *folders))  # type: ignore[union-attr]
        place = next((path for path in places if path in paths), None)
        if place is not None:
            exposed.add(place)
            yield StartPoint(path=place, kind="program", required=True)
    for path, entry in paths.items():
        folder = path.rpartition("/")[0]
        of_users = folder in folders and folder not in _OF_DISTRIBUTION and path not in exposed
        if of_users and ("x" in entry.mode or entry.kind == "l"):
            yield StartPoint(path=path, kind="program", required=False)


def modules(entries: Sequence[TreeEntry], offer: ImageMetadata | None) -> Iterator[StartPoint]:
    """Yield the extension modules of Python: those that `lib…` names are loaded by others.

    Without its core (`torch/_C…so`) a promised package can't be imported: that one is required.
    """
    promised = set(offer.verify.imports) if offer else set(FRAMEWORKS.values())
    for entry in entries:
        match = _MODULE.fullmatch(entry.path) if elf.is_library(entry) else None
        if match is None or entry.path.rpartition("/")[2].startswith("lib"):
            continue
        package, _, name = match["inner"].partition("/")
        core = package in promised and name.startswith(_CORES)
        yield StartPoint(path=entry.path, kind="module", required=core)


def package_folder(path: str) -> str:
    """Return the folder of an extension module's package, with a slash at its end.

    Raises ValueError for another file.
    """
    match = _MODULE.fullmatch(path)
    if match is None:
        raise ValueError(f"{path} is not an extension module")
    return f"{match['packages']}/{match['inner'].partition('/')[0]}/"


def python_of(module: str, pythons: Mapping[str, StartPoint]) -> StartPoint | None:
    """Return the Python that a module belongs to: of the longest prefix that both share."""
    folder = package_folder(module)

    def shared(path: str) -> int:
        prefix = path.rpartition("/bin/")[0]
        return len(prefix) if folder.startswith(f"{prefix}/") else -1

    fitting = [point for path, point in pythons.items() if shared(path) >= 0]
    return max(fitting, key=lambda point: shared(point.path), default=None)
