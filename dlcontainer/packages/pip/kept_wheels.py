"""Wheels that pip fetches for an image on this host; what came over a network it keeps.

A build's steps and whatever looks into the wheels before it take them by one road: the second finds
what the first fetched.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.packages import routing
from dlcontainer.packages.pip import pip_config
from dlcontainer.packages.pip.pip_resolver import Pip
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.site import Site
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner

# In the cache: what pip got over a network, as pip keeps it. Beyond this (bytes) the oldest goes.
FOLDER, MOST = "pip", 10**10


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelFetcher:
    """Who fetches: this user, here, by these proxies; `cache` is dlcontainer's own."""

    host: HostMachine
    runner: Runner
    cache: Path
    proxies: Mapping[str, str]
    ca: Path | None
    on_line: Callable[[str], None]

    def pip(self, plan: Plan) -> Pip | None:
        """Return pip for a plan's Python and machine; None where its base does not say these."""
        facts = plan.recipe.base.facts
        if facts is None or facts.python is None or facts.glibc is None:
            return None
        return self.pip_for(facts.python, facts.glibc, plan.site)

    def pip_for(self, python: str, glibc: str, site: Site) -> Pip:
        """Return pip for a Python and a C library on a site's machine, by the site's indexes."""
        kept = self.cache / FOLDER
        environment = {**self.proxies, "PIP_CACHE_DIR": str(kept)}
        environment |= {name.upper(): address for name, address in self.proxies.items()}
        if self.ca is not None:
            environment |= dict.fromkeys(routing.CA_VARIABLES, str(self.ca))
        settings = routing.pip_of(site.routing, self.host)
        make_room(kept)
        return Pip(
            python=python,
            arch=site.arch,
            glibc=glibc,
            arguments=tuple(pip_config.arguments(settings)),
            environment=environment,
            host=self.host,
            runner=self.runner,
            on_line=self.on_line,
        )


def make_room(kept: Path, most: int = MOST) -> None:
    """Remove what pip kept longest ago until the rest fits; it fetches that again."""
    total = 0
    for _, size, path in sorted(_files(kept), reverse=True):
        total += size
        if total > most:
            path.unlink(missing_ok=True)


def _files(kept: Path) -> Iterator[tuple[float, int, Path]]:
    # Another build may write or make room here meanwhile: what is gone is passed over.
    for parent, _, names in os.walk(kept):
        for path in (Path(parent, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                info = path.stat()
                yield info.st_mtime, info.st_size, path
