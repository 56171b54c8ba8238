"""The image's own MPI: the files that it consists of, and what they are made for."""

from collections.abc import Iterable

from dlcontainer.validate.static.fabric import fabric_signs
from dlcontainer.validate.static.fabric.fabric_signs import PART_OF_MPI
from dlcontainer.validate.static.fabric.mpi_names import families
from dlcontainer.validate.static.questions import StaticQuestions


def own(image: StaticQuestions, family: str = "") -> frozenset[str]:
    """Return the files of the image's MPI: what its library loads, and each file of the image that
    one loads by name: modules, providers of libfabric, transports of UCX.
    """
    edges: dict[str, set[str]] = {}
    waiting: list[str] = []
    for started in image.started:
        for need, target in started.loaded.edges.items():
            edges.setdefault(need.requester, set()).add(target)
            those = families(need.library)
            if those and (not family or family in those):
                waiting.append(target)
    parts: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path not in parts:
            parts.add(path)
            waiting += edges.get(path, ())
    modules = (path for path in image.files if PART_OF_MPI.fullmatch(_name(path)))
    loaded = {path for path in modules if not families(_name(path))} if parts else set()
    return frozenset(parts | loaded)


def transports(image: StaticQuestions, paths: Iterable[str]) -> frozenset[str]:
    """Name the ways over a fabric that some files are made for."""
    return frozenset(
        transport
        for path in paths
        if (described := image.files[path].described if path in image.files else None)
        for transport in fabric_signs.transports(_name(path), described, image.files[path].signs)
    )


def words(image: StaticQuestions, paths: Iterable[str]) -> frozenset[str]:
    """Return the texts of some files that tell of MPI."""
    signs = (image.files[path].signs for path in paths if path in image.files)
    return frozenset(word for sign in signs for word in sign.words)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
