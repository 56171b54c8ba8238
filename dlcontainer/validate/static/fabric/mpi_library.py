"""The rule of MPI: what programs of the image are linked to, against the site's MPI and its way."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from dlcontainer.planning.compatibility import MPI_FAMILIES, MPI_SOURCE
from dlcontainer.sites.facts import Mpi
from dlcontainer.validate.static.fabric.mpi_names import families
from dlcontainer.validate.static.finding import Level, RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions


def mpi_library(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold the MPI that start points load against the site's: swapped by name, or launched."""
    users = image.mpi_users
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


def _swapped(
    image: StaticQuestions, mpi: Mpi, users: Mapping[str, Sequence[str]]
) -> Iterator[RuleFinding]:
    """Hold each name against the host's: only who asks for that very name gets the host's."""
    for name, files in users.items():
        is_of_family = mpi.family in families(name)
        is_host_s = is_of_family and name == (mpi.soname or name)
        level: Level = "error" if set(files) & image.required or len(users) == 1 else "warning"
        kept = _kept(image, mpi, name) if is_host_s else {}
        if kept:
            users_of_own = sorted(kept)
            yield RuleFinding(
                level=level,
                file=users_of_own[0],
                what=f"{needing(users_of_own)} {name} by an RPATH that leads to the image's own "
                f"{kept[users_of_own[0]]}",
                why=f"an RPATH comes before LD_LIBRARY_PATH: the site's {mpi.name} takes no place "
                "of it",
                fix="link it without RPATH (MPICH: --disable-wrapper-rpath), or with RUNPATH: "
                "-Wl,--enable-new-dtags",
            )
        elif is_host_s:
            yield RuleFinding(
                level="note",
                file=files[0],
                what=f"{needing(files)} {name}, whose place the site's {mpi.name} takes",
                why="the name is the host's",
            )
        elif is_of_family:
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


def _kept(image: StaticQuestions, mpi: Mpi, name: str) -> Mapping[str, str]:
    """Return the files that keep the image's own library by their RPATH, each with that library.

    What is preloaded comes before it, and what is bound at its place is the host's.
    """
    if any(PurePosixPath(text).name == name for text in mpi.preload):
        return {}
    bound = {bind.split(":")[1] for bind in mpi.binds if ":" in bind}
    return {
        need.requester: target
        for started in image.started
        for need, target in started.loaded.edges.items()
        if need.library == name
        and image.search.is_by_rpath(need, started.loaded)
        and not any(target == place or target.startswith(f"{place}/") for place in bound)
    }


def _launched(mpi: Mpi, users: Mapping[str, Sequence[str]]) -> Iterator[RuleFinding]:
    """Hold the image's own MPI against those whose images the site's launcher starts."""
    for name, files in users.items():
        if not families(name) & set(mpi.families):
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
    return " or ".join(sorted(families(name))) or "unknown"
