"""Host libraries in an image: they need a C library as new as the one they were built on."""

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from dlcontainer.planning.conflicts.model import (
    Contradiction,
    Finding,
    UnknownFact,
    base_path,
    distribution_of,
    glibc_of,
)
from dlcontainer.planning.versions import compare, numbers, written
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.distributions import DISTRIBUTIONS
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

# Gives the flags that let a site's accelerators into an image.
Flags = Callable[[Site], tuple[str, ...]]


def older_than_host(flags: Flags, site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse a base whose glibc is older than the host's, where host libraries enter the image.

    Some of the host's libraries need less than the host's glibc, but only looking into each tells:
    the safe rule is a container's glibc as new as the host's.
    """
    entering = list(_entering(flags(site), site, recipe))
    if not entering:
        return
    what = " and ".join(entering)
    host, inside = site.os.glibc if site.os else None, glibc_of(recipe.base)
    if host is None:
        yield UnknownFact(
            text=f"the site's glibc is unknown: cannot guarantee that the image can load {what}"
        )
    elif inside is None:
        yield UnknownFact(text=f"the base's glibc is unknown: {what} may need the host's {host}")
    else:
        yield from _judge(recipe.base, inside, host, what)


# The least Linux that a C library starts on. Source: glibc's NEWS for 2.26.
_GLIBC_NEEDS_LINUX = ((2, 26), (3, 2))


def kernel_older_than_base(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse a base whose C library does not start on the site's kernel."""
    kernel = numbers((site.os and site.os.kernel) or "")
    inside = numbers(glibc_of(recipe.base) or "")
    glibc, linux = _GLIBC_NEEDS_LINUX
    if kernel and inside and compare(inside, glibc) in (0, 1) and compare(kernel, linux) == -1:
        yield Contradiction(
            what=f"the base's glibc {glibc_of(recipe.base)} needs Linux {written(linux)} or "
            f"newer; the site's kernel is {site.os.kernel if site.os else ''}",
            why="each program ends at once with 'FATAL: kernel too old' (glibc's NEWS for 2.26)",
            in_site=("os", "kernel"),
            in_recipe=base_path(recipe.base),
            way_out="use a base with glibc 2.25 or older",
        )


def _judge(base: Base, inside: str, host: str, what: str) -> Iterator[Finding]:
    mine, theirs = numbers(inside), numbers(host)
    order = compare(mine, theirs) if mine and theirs else None
    if order is None:
        yield UnknownFact(text=f"cannot compare the base's glibc {inside} with the host's {host}")
    elif order == -1:
        yield Contradiction(
            what=f"the base's glibc {inside} is older than the host's {host}, and the image "
            f"loads {what}",
            why='programs fail to start with "version `GLIBC_…\' not found" (glibc manual, '
            "symbol versions; safe rule: container >= host)",
            in_site=("os", "glibc"),
            in_recipe=base_path(base),
            way_out=_newer_base(base, host),
        )


def _newer_base(base: Base, host: str) -> str:
    minimum = numbers(host) or ()
    newer = [
        distribution
        for distribution in DISTRIBUTIONS.values()
        if compare(numbers(distribution.glibc) or (), minimum) in (0, 1)
    ]
    newer.sort(key=lambda distribution: numbers(distribution.glibc) or ())
    current = distribution_of(base)
    options = [
        f"--set base.release={distribution.release}"
        if current and distribution.name == current.name
        else f"--set base.distribution={distribution.name} --set "
        f"base.release={distribution.release}"
        for distribution in newer
    ]
    if base.image or not options:
        return f"use a base with glibc {host} or newer"
    return f"{' or '.join(options)} (with the packages of that release)"


def _entering(flags: tuple[str, ...], site: Site, recipe: Recipe) -> Iterator[str]:
    """Name the host libraries that the image's programs load.

    An image without MPI or GPU code opens none of them, wherever they are put.
    Not those of `--nv`: NVIDIA builds its driver's libraries for old systems, glibc 2.17 on
    aarch64 (README of driver 550.54.14, minimum requirements), older on x86_64 (remembered), and
    none of the bases here is as old.
    """
    mpi, stack = site.mpi, recipe.stack
    if mpi is not None and stack.mpi is not None:
        bound = mpi.libraries or mpi.preload or any(map(_holds_libraries, mpi.binds))
        if mpi.mode != "container" or bound:
            yield f"the libraries of the host's {mpi.name}"
    # AMD's are the host's own packages: etc/rocmliblist.conf of Apptainer names what enters.
    rocm = stack.rocm or any(code.startswith("gfx") for code in stack.gpu_targets)
    if "--rocm" in flags and rocm:
        yield "the host's ROCm libraries (--rocm)"
    for bind in site.jobs.binds if rocm or stack.mpi or stack.cuda or stack.oneapi else ():
        if _holds_libraries(bind):
            yield f"the host's {bind.partition(':')[0]}"


def _holds_libraries(bind: str) -> bool:
    path = PurePosixPath(bind.partition(":")[0])
    return ".so" in path.suffixes or not {"lib", "lib64"}.isdisjoint(path.parts)
