"""The wheels of pinned packages, by the road of a build's steps, whose cache keeps them."""

from collections.abc import Sequence
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.packages import routing
from dlcontainer.packages.pip.kept_wheels import WheelFetcher
from dlcontainer.packages.pip.pip_resolver import Pip
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandFailedError, Runner


def fetcher_of(plan: Plan, host: HostMachine, runner: Runner, cache: Path) -> WheelFetcher:
    """Return who fetches for a plan's site from this host."""
    return fetcher_at(plan.site, host, runner, cache)


def fetcher_at(site: Site, host: HostMachine, runner: Runner, cache: Path) -> WheelFetcher:
    """Return who fetches for a site from this host."""
    return WheelFetcher(
        host=host,
        runner=runner,
        cache=cache,
        proxies=proxies_of(site.routing, host),
        ca=routing.ca_of(site.routing, host),
        on_line=lambda _: None,
    )


def fetch(
    packages: Sequence[str], upstream: str | None, plan: Plan, fetcher: WheelFetcher, folder: Path
) -> list[Path]:
    """Fetch the wheels of pinned packages into an empty folder; `upstream` is one of the recipe's.

    Raises BuildError where an index fails.
    """
    pip = fetcher.pip(plan)
    if pip is None:  # no packages are chosen for such a plan
        raise ValueError("a plan without Python and C library")
    address = ""
    if upstream is not None:
        url = str(plan.recipe.upstreams[upstream].url)
        address, _ = routing.upstream_of(plan.site.routing, url, fetcher.proxies, fetcher.ca)
    return fetch_by(pip, packages, address, folder)


def fetch_by(pip: Pip, packages: Sequence[str], upstream: str, folder: Path) -> list[Path]:
    """Fetch the wheels of pinned packages by a pip; `upstream` is an address, or empty.

    Raises BuildError where an index fails.
    """
    try:
        pip.fetch(packages, upstream, folder)
    except CommandFailedError as error:
        lines = [line for line in error.completed.stdout.splitlines() if line.strip()]
        raise BuildError(
            "can't fetch the wheels of the packages",
            why="\n    ".join(lines[-4:]),
            next_step="check that the index is up, and routing.pip and routing.proxy of the site",
        ) from None
    return sorted(folder.glob("*.whl"))
