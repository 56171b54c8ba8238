"""The rule of MPI: what programs of the image are linked to, against the site's MPI and its way."""

from collections.abc import Iterator, Mapping

from dlcontainer.planning.compatibility import (
    FAMILY_OF_SONAME,
    MPI_FAMILIES,
    MPI_LIBRARIES,
    MPI_SOURCE,
)
from dlcontainer.sites.facts import Mpi
from dlcontainer.validate.static.finding import Level, RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions


def mpi_library(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold the MPI that start points load against the site's: swapped by name, or launched."""
    users = _users(image)
    site_mpi = image.site.mpi
    declared = image.offer.stack.mpi if image.offer else None
    if not users:
        if declared is None:
            return
        yield RuleFinding(
            level="not decided",
            what=f"the record declares an MPI ({declared.family}), and no program that starts here "
            "is linked to one",
            why="it may be loaded by its name (dlopen), or not at all",
            fix="dlcontainer validate without --static runs the image",
        )
        return
    if site_mpi is None:
        name, files = next(iter(users.items()))
        yield RuleFinding(
            level="not decided",
            file=files[0],
            what=f"{needing(files)} {name}; the site's file states no MPI",
            why="whether its launcher starts these ranks as one job follows from it",
            fix="write `mpi` into the site's file",
        )
    elif site_mpi.mode == "container":
        yield from _launched(site_mpi, users)
    else:
        yield from _swapped(image, site_mpi, users)


def _users(image: StaticQuestions) -> Mapping[str, list[str]]:
    """Return the MPI libraries that files ask for by name, each with the files."""
    users: dict[str, set[str]] = {}
    for started in image.started:
        needs = [*started.loaded.edges, *(lost.need for lost in started.loaded.missing)]
        for need in needs:
            # A family's own library may load its other name.
            if _families(need.library) and not _is_mpi(need.requester):
                users.setdefault(need.library, set()).add(need.requester)
    return {name: sorted(files) for name, files in sorted(users.items())}


def _is_mpi(path: str) -> bool:
    return path.rpartition("/")[2].startswith("libmpi")


def _families(name: str) -> set[str]:
    """Return the families that a library's name may be of; the standard's own ABI is of two."""
    sure = FAMILY_OF_SONAME.get(name)
    if sure:
        return {sure}
    return {family for family, pattern in MPI_LIBRARIES.items() if pattern.fullmatch(name)}


def _swapped(
    image: StaticQuestions, mpi: Mpi, users: Mapping[str, list[str]]
) -> Iterator[RuleFinding]:
    """Hold each name against the host's: only who asks for that very name gets the host's."""
    for name, files in users.items():
        is_host_s = name == mpi.soname if mpi.soname else mpi.family in _families(name)
        level: Level = "error" if set(files) & image.required or len(users) == 1 else "warning"
        if is_host_s:
            yield RuleFinding(
                level="note",
                file=files[0],
                what=f"{needing(files)} {name}, whose place the site's {mpi.name} takes",
                why="the name is the host's",
            )
        elif mpi.family in _families(name):
            yield RuleFinding(
                level=level,
                file=files[0],
                what=f"{needing(files)} {name}; the site's {mpi.name} is called "
                f"{mpi.soname or 'otherwise'} and takes no place of it",
                why="the host's MPI replaces the image's by its name: these ranks keep the "
                "image's own, which may not know the fabric",
                fix=f"link it to an MPI whose library is called {mpi.soname or 'so'}",
            )
        else:
            yield RuleFinding(
                level=level,
                file=files[0],
                what=f"{needing(files)} {name} ({_titles(name)}); the site's {mpi.name} is "
                f"of another family",
                why=f"{MPI_SOURCE}; each rank would be rank 0 of 1, or crash",
                fix=f"build it with {MPI_FAMILIES[mpi.family]}",
            )


def _launched(mpi: Mpi, users: Mapping[str, list[str]]) -> Iterator[RuleFinding]:
    """Hold the image's own MPI against those whose images the site's launcher starts."""
    for name, files in users.items():
        if not _families(name) & set(mpi.families):
            yield RuleFinding(
                level="warning",
                file=files[0],
                what=f"{needing(files)} {name} ({_titles(name)}); the site starts images "
                f"with {', '.join(mpi.families)}",
                why="a launcher of another family starts ranks that are each rank 0 of 1",
                fix=f"build it with {MPI_FAMILIES[mpi.family]}, or write the family into mpi.also "
                "where jobs of it run",
            )


def _titles(name: str) -> str:
    return " or ".join(sorted(_families(name))) or "unknown"
