"""Where a resolver finds packages, and what bounds it besides the wishes: a site's routing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from dlcontainer.errors import ConfigError
from dlcontainer.packages import routing
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.proxies import proxies_of
from dlcontainer.packages.resolve.wishes import Wish
from dlcontainer.sites.routing import Routing
from dlcontainer.system.machine import HostMachine

# A file that names itself by `-c` ends here; no centre's cap is as deep.
_DEEPEST = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexAccess:
    """Indexes and folders of wheels, the variables of proxies and CA, the host's own caps.

    `upstreams` are further indexes of the parent recipe; `notes` says which of them is left out.
    """

    settings: PipSettings
    environment: Mapping[str, str]
    upstreams: tuple[str, ...] = ()
    caps: tuple[Wish, ...] = ()
    notes: tuple[str, ...] = ()


def access_of(
    site_routing: Routing, host: HostMachine, upstreams: Sequence[str] = ()
) -> IndexAccess:
    """Settle how a site reaches its indexes from this host; `upstreams` are a recipe's addresses.

    Raises ConfigError for a wheel folder, a CA or a file of constraints that is not there.
    """
    proxies = proxies_of(site_routing, host)
    ca = routing.ca_of(site_routing, host)
    environment = proxies | {name.upper(): address for name, address in proxies.items()}
    if ca is not None:
        environment |= dict.fromkeys(routing.CA_VARIABLES, str(ca))
    settings = routing.pip_of(site_routing, host)
    reached, notes = [], []
    for url in dict.fromkeys(upstreams):
        address, note = routing.upstream_of(site_routing, url, proxies, ca)
        reached += [address] if address else []
        notes += [note] if note else []
    return IndexAccess(
        settings=settings,
        environment=environment,
        upstreams=tuple(reached),
        caps=tuple(cap for name in settings.constraints for cap in _caps(name, _DEEPEST)),
        notes=tuple(notes),
    )


def _caps(name: str, deepest: int) -> list[Wish]:
    """Read a file of constraints: `-c` in it is followed, other options are pip's own."""
    if "://" in name and not name.startswith("file://"):
        raise ConfigError(
            "the constraints of pip's settings stand at an address",
            where="constraint of pip.conf, or PIP_CONSTRAINT",
            why="dlcontainer reads them from files alone",
            next_step="save the file on this host, and name its path there",
        )
    path = Path(name.removeprefix("file://")).expanduser()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read the constraints of pip's settings: {path}",
            where="constraint of pip.conf, or PIP_CONSTRAINT",
            why=getattr(error, "strerror", None) or "the file is no UTF-8 text",
            next_step="correct the path, or remove the setting",
        ) from None
    caps: list[Wish] = []
    for number, line in enumerate(lines, 1):
        text = line.partition(" #")[0].strip()
        option, _, rest = text.partition(" ")
        if option in {"-c", "--constraint"} and deepest:
            caps += _caps(str(path.parent / rest.strip()), deepest - 1)
        elif text and text[0] not in "-#":
            caps.append(_cap(text, f"{path}:{number}"))
    return caps


def _cap(text: str, origin: str) -> Wish:
    try:
        return Wish(requirement=Requirement(text), origin=origin)
    except InvalidRequirement as error:
        raise ConfigError(
            "not a constraint of Python packages",
            where=origin,
            why=str(error).splitlines()[0],
            next_step="correct the line, or remove the setting `constraint` of pip",
        ) from None
