"""The proxies that lead out of a build: a site's, or those of the host's environment."""

import re

from dlcontainer.config.field_types import is_proxy
from dlcontainer.errors import ConfigError
from dlcontainer.sites.routing import Routing
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine

# Names, addresses and networks with ports: curl and Python part them at commas, some at blanks.
_NO_PROXY = re.compile(r"[A-Za-z0-9.*_:/\[\], -]*")
_SOCKS = re.compile(r"socks[45][ah]?://")


def proxies_of(routing: Routing, host: HostMachine) -> dict[str, str]:
    """Return the proxies of a site, or of the host: variable -> address.

    Raises ConfigError for a variable of the host that holds something else.
    """
    if routing.proxy == "none":
        return {}
    if routing.proxy != "auto":
        return {"http_proxy": routing.proxy, "https_proxy": routing.proxy}
    proxies = {}
    for name, spelling in variables.proxies(host.environ).items():
        proxies[name] = host.environ[spelling]
        _check(spelling, proxies[name])
    # The proxy for all protocols: not every program asks for it, and all ask for these two.
    if "all_proxy" in proxies:
        for name in ("http_proxy", "https_proxy"):
            proxies.setdefault(name, proxies["all_proxy"])
    return proxies


def _check(variable: str, value: str) -> None:
    where = f"environment variable {variable}"
    if variable.lower() == "no_proxy":
        if not _NO_PROXY.fullmatch(value):
            raise ConfigError(
                "not a list of host names",
                where=where,
                why="the form is names, addresses or networks, separated by commas",
                next_step=f"export {variable}=localhost,.example.org",
            )
        return
    # The proxy for all protocols may be a SOCKS one.
    address = _SOCKS.sub("http://", value) if variable.lower() == "all_proxy" else value
    if not is_proxy(address):
        # The value is not repeated: a password may stand in it.
        raise ConfigError(
            "not the address of a proxy",
            where=where,
            why="the form is http://[USER:PASSWORD@]HOST[:PORT], with other characters as %XX",
            next_step=f"correct or unset {variable}, or set routing.proxy of the site",
        )
