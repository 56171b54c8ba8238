"""Names of MPI libraries: the families that each may be of."""

from dlcontainer.planning.compatibility import FAMILY_OF_SONAME, MPI_LIBRARIES


def families(name: str) -> set[str]:
    """Return the families that a library's name may be of; the standard's own ABI is of two."""
    sure = FAMILY_OF_SONAME.get(name)
    if sure:
        return {sure}
    return {family for family, pattern in MPI_LIBRARIES.items() if pattern.fullmatch(name)}


def is_of_mpi(path: str) -> bool:
    """Return whether a file is a library of an MPI itself: it may load another name of its own."""
    return path.rpartition("/")[2].startswith("libmpi")
