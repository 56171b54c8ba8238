"""How this host gets out: directly, or through which proxies, and whether these are known."""

from dlcontainer.doctor.finding import DoctorFinding
from dlcontainer.errors import ConfigError
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.sites.routing import Routing
from dlcontainer.system.environ import proxies, variables
from dlcontainer.system.machine import HostMachine

_NAME = "network"


def examine(routing: Routing, host: HostMachine) -> DoctorFinding:
    """Look at the proxies of a site, or of the host's variables; names only, no address.

    An address may hold a password.
    """
    try:
        addresses = proxies_of(routing, host)
    except ConfigError as error:
        detail = f"{error.where}: {error.what}"
        return DoctorFinding(name=_NAME, state="error", detail=detail, mend=error.next_step)
    named = [name for name in addresses if name != "no_proxy"]
    if not named:
        how = "no proxy variable is set" if routing.proxy == "auto" else "routing.proxy is none"
        return DoctorFinding(name=_NAME, state="ok", detail=f"direct, {how}")
    spelled = variables.proxies(host.environ)
    where = [spelled[name] for name in named if name in spelled]
    detail = f"through a proxy ({', '.join(where) if routing.proxy == 'auto' else 'routing.proxy'})"
    unknown, no_socks = proxies.fault(addresses), proxies.socks_fault(addresses)
    if unknown is not None:
        problem = f"{detail}: {unknown.why}"
        return DoctorFinding(name=_NAME, state="error", detail=problem, mend=unknown.next_step)
    if no_socks is not None:
        problem = f"{detail}: {no_socks.why}; archives and registries cannot be reached"
        return DoctorFinding(name=_NAME, state="warning", detail=problem, mend=no_socks.next_step)
    return DoctorFinding(name=_NAME, state="ok", detail=detail)
