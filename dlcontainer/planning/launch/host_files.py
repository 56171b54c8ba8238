"""Files of the host that a site's MPI puts into images: where they lie here, what they need."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dlcontainer.planning.launch import on_host
from dlcontainer.planning.launch.on_host import UnsetError
from dlcontainer.planning.versions import numbers
from dlcontainer.sites.facts import Mpi


def named(mpi: Mpi) -> Iterator[str]:
    """Yield the libraries that a site names, each once, as its file writes them."""
    binds = (bind.partition(":")[0] for bind in mpi.binds)
    every = (*mpi.libraries, *mpi.preload, *(path for path in binds if ".so" in path))
    yield from dict.fromkeys(every)


def located(name: str, environ: Mapping[str, str]) -> Path:
    """Return where a library lies on this host; raises LookupError with the reason it does not."""
    try:
        path = Path(on_host.fill(name, environ))
    except UnsetError as error:
        raise LookupError(f"{name}: ${error} is not set here") from None
    if not path.is_file():
        raise LookupError(f"{path}: it is missing on this host; in a job this is an error")
    return path


def newest(family: str, versions: Iterable[str]) -> str | None:
    """Return the newest number of a family of symbol versions: 2.34 of GLIBC_2.34 and GLIBC_2.2."""
    pattern = re.compile(rf"{re.escape(family)}_([0-9.]+)")
    matches = (pattern.fullmatch(version) for version in versions)
    texts = [match[1] for match in matches if match]
    return max(texts, key=lambda version: numbers(version) or (), default=None)
