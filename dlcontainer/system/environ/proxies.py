"""Requests through proxies: which one an address takes, and which of them is at fault."""

import contextlib
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from dlcontainer.errors import DlcontainerError

_SCHEMES = ("http", "https")
_VARIABLES = ("https_proxy", "http_proxy", "all_proxy")
# How apt, pip, curl, conda and the engine say that nothing was reached.
_UNREACHED = re.compile(
    r"resolv|name or service|no such host|proxy|unreachable|can(?:'t|not) be reached|timed? ?out|"
    r"failed to (establish|fetch)|connection|no matching distribution",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Why no request gets through a proxy, and what to do; its address is not repeated."""

    why: str
    next_step: str


def of_url(url: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the proxies for one address as `requests` takes them; "" for none, whatever its own.

    `variables` has variables in lower case: http_proxy, https_proxy, all_proxy, no_proxy.
    """
    from requests.utils import should_bypass_proxies

    bypassed = should_bypass_proxies(url, no_proxy=variables.get("no_proxy", ""))
    every = variables.get("all_proxy", "")
    return {
        scheme: "" if bypassed else variables.get(f"{scheme}_proxy") or every for scheme in _SCHEMES
    }


def fault(variables: Mapping[str, str]) -> Fault | None:
    """Look for a proxy that no request gets through, since its name can't be resolved.

    Asked after a request failed: a name that can't be resolved may take seconds.
    """
    for address in dict.fromkeys(variables.get(name, "") for name in _VARIABLES):
        host = _host(address)
        if host is not None and not _resolves(host):
            return Fault(
                why=f"cannot resolve the proxy's host name: {host}",
                next_step="correct routing.proxy of the site, or the proxy variable if "
                f"routing.proxy is 'auto'; `getent hosts {host}` must print a line",
            )
    return None


def socks_fault(variables: Mapping[str, str]) -> Fault | None:
    """Return why this Python can't use a SOCKS proxy; None where it can, or there is none."""
    if _has_socks() or not any(variables.get(name, "").startswith("socks") for name in _VARIABLES):
        return None
    return Fault(
        why="the proxy is a SOCKS proxy, and this Python has no PySocks",
        next_step="install PySocks with pip beside dlcontainer, or name an HTTP proxy in "
        "routing.proxy of the site or in https_proxy",
    )


def request_fault(url: str, variables: Mapping[str, str]) -> Fault | None:
    """Return why a request of this Python did not get through its proxy; None without such a
    cause.
    """
    scheme = url.partition(":")[0]
    address = of_url(url, variables).get(scheme)
    if not address:
        return None
    used = {name: value for name, value in variables.items() if value == address}
    return socks_fault(used) or fault(used)


@contextlib.contextmanager
def naming_faults(variables: Mapping[str, str]) -> Iterator[None]:
    """Name the proxy as the cause of an error of a block that says that nothing was reached."""
    try:
        yield
    except DlcontainerError as error:
        cause = fault(variables) if _UNREACHED.search(f"{error.what}\n{error.why}") else None
        if cause is not None and cause.why not in str(error.why):
            error.why = f"{cause.why}\n{error.why or ''}".rstrip()
            error.next_step = cause.next_step
        raise


def _has_socks() -> bool:
    import importlib.util

    return importlib.util.find_spec("socks") is not None


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True
