"""The way to the outside for programs of the host that work for an image: apt and pip."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.packages import apt_sources, routing
from dlcontainer.packages.apt import apt_syntax
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner


@dataclass(frozen=True, kw_only=True, slots=True)
class HostAccess:
    """Where packages come from, as a build's steps would see it, for programs of this host."""

    environment: Mapping[str, str]
    apt_sources: tuple[AptSource, ...]
    apt_settings: tuple[str, ...]
    pip_arguments: tuple[str, ...]
    # name of a recipe's upstream -> address; empty: not to be had
    upstreams: Mapping[str, str]
    notes: tuple[str, ...]
    # an upstream's address -> the mirror that the site names for it
    places: Mapping[str, str]


def find(plan: Plan, host: HostMachine, runner: Runner, folder: Path) -> HostAccess:
    """Settle how a plan's site reaches its mirrors and indexes from this host.

    `folder` is private: keys of another distribution's archive lie there.
    Raises ConfigError for a wheel folder or a CA that isn't there.
    """
    site_routing = plan.site.routing
    proxies = proxies_of(site_routing, host)
    environment = proxies | {name.upper(): value for name, value in proxies.items()}
    ca = routing.ca_of(site_routing, host)
    access = replace(routing.way_out(site_routing, proxies, ca), alone=True)
    apt = apt_sources.find(plan, host, runner, access, folder)
    settings = apt.settings
    if ca is not None:
        environment |= dict.fromkeys(routing.CA_VARIABLES, str(ca))
        settings = (*settings, apt_syntax.setting("Acquire::https::CAInfo", str(ca)))
    upstreams, notes = {}, list(apt.notes)
    for name, upstream in plan.recipe.upstreams.items():
        upstreams[name], note = routing.upstream_of(site_routing, str(upstream.url), proxies, ca)
        notes += [note] if note else []
    return HostAccess(
        environment=environment,
        apt_sources=apt.sources,
        apt_settings=settings,
        pip_arguments=tuple(pip_config.arguments(routing.pip_of(site_routing, host))),
        upstreams=upstreams,
        notes=tuple(notes),
        places=access.places,
    )


def registry_way(plan: Plan, host: HostMachine) -> RegistryAccess:
    """Return how a plan's site reaches registries from this host."""
    site_routing = plan.site.routing
    return RegistryAccess(
        proxies=proxies_of(site_routing, host),
        ca=routing.ca_of(site_routing, host),
        plain_http=site_routing.plain_http,
    )
