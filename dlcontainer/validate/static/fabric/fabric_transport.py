"""The rule of transports: does the image's own MPI have what drives the site's fabric."""

from collections.abc import Iterator, Sequence

from dlcontainer.planning.compatibility import FABRIC_DRIVERS
from dlcontainer.validate.static.fabric import fabric_needs, mpi_parts
from dlcontainer.validate.static.fabric.fabric_signs import OFI
from dlcontainer.validate.static.fabric.mpi_names import families
from dlcontainer.validate.static.finding import RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions


def fabric_transport(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold the ways over a fabric that the image's MPI is made for against the site's network.

    Where the site's own takes its place, or is to, `mpi-library` says so.
    """
    site, mpi = image.site, image.site.mpi
    names = [*image.mpi_users]
    drivers = fabric_needs.ways(site)
    parts = mpi_parts.own(image)
    is_own = mpi is None or mpi.mode == "container"
    if not names or not parts or not drivers or site.network is None or not is_own:
        return
    files = [path for name in names for path in image.mpi_users[name]]
    has = mpi_parts.transports(image, parts)
    driver = FABRIC_DRIVERS[site.network.kind]
    if fabric_needs.host_brings(site):
        yield from _on_host_s(image, files, parts)
    elif not has & drivers:
        demanded = _demanded(image, drivers)
        rest = f" (it has {', '.join(sorted(has))})" if has else ""
        yield RuleFinding(
            level="error" if demanded and _is_on_libfabric_alone(parts, names) else "warning",
            file=files[0],
            what=f"{needing(files)} an MPI of the image without {driver}{rest}; the site has "
            f"{site.network.model}",
            why=f"{demanded} is set, and no device fits it: an MPI on libfabric ends in MPI_Init"
            if demanded
            else "between nodes MPI uses TCP, or does not start",
            fix=f"build its MPI with {driver}",
        )


def _is_on_libfabric_alone(parts: frozenset[str], names: Sequence[str]) -> bool:
    """Return whether MPI has no other way than libfabric: MPICH's family without UCX.

    With UCX in it MPICH 5.0.2 ran on without a device of libfabric, and Open MPI 4.1.4 by TCP.
    """
    has_ucx = any(path.rpartition("/")[2].startswith("libucp") for path in parts)
    return not has_ucx and all(families(name) == {"mpich"} for name in names)


def _on_host_s(
    image: StaticQuestions, files: list[str], parts: frozenset[str]
) -> Iterator[RuleFinding]:
    """Look whether an MPI uses libfabric at all, where the site puts its own into the image."""
    if not any(word.startswith(OFI) for word in mpi_parts.words(image, parts)):
        yield RuleFinding(
            level="warning",
            file=files[0],
            what=f"{needing(files)} an MPI of the image that does not use libfabric; the site "
            "brings its own libfabric for the fabric",
            why="between nodes MPI uses TCP, or does not start",
            fix="build its MPI on libfabric (MPICH: --with-device=ch4:ofi)",
        )


def _demanded(image: StaticQuestions, drivers: frozenset[str]) -> str:
    """Return the setting by which jobs insist on a provider that is missing; empty without one."""
    provider = fabric_needs.inside(image).get("FI_PROVIDER", "")
    names = {name for part in provider.split(",") for name in part.split(";")}
    return f"FI_PROVIDER={provider}" if names & drivers else ""
