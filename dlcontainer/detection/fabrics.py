"""The network of a node: its fabric, its interfaces, the libraries that drive it."""

import re
from collections.abc import Iterator, Mapping

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact, either, known, listed, unknown

_VERBS, _CXI, _NET = "/sys/class/infiniband", "/sys/class/cxi", "/sys/class/net"
_ACTIVE = "4: ACTIVE"


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield what connects the node; addresses by their kind alone."""
    yield from _fabric(evidence)
    devices = listed([*evidence.folders.get(_CXI, ()), *evidence.folders.get(_VERBS, ())])
    yield known("network.devices", devices, f"{_CXI}, {_VERBS}")
    interfaces = [
        f"{name} ({_state(evidence, name)}, {evidence.addresses.get(name, 'no IPv4 address')})"
        for name in evidence.folders.get(_NET, ())
        if name != "lo"
    ]
    yield known("network.interfaces", tuple(interfaces), f"{_NET}/*, ioctl(2): SIOCGIFADDR")
    yield _version(evidence, "network.libfabric", "fi_info --version", r"libfabric: *(\S+)")
    yield _version(
        evidence, "network.ucx", "ucx_info -v", r"(?:Library version:|UCT version=) *(\d\S*)"
    )


def _version(evidence: NodeEvidence, name: str, command: str, pattern: str) -> NodeFact:
    answer = evidence.answer(command)
    match = re.search(pattern, answer.out) if answer.failure is None else None
    return either(
        name, match[1] if match else None, command, answer.failure or "it says no version"
    )


def _state(evidence: NodeEvidence, name: str) -> str:
    speed = evidence.number(f"{_NET}/{name}/speed")
    state = evidence.text(f"{_NET}/{name}/operstate") or "state unknown"
    driver = evidence.links.get(f"{_NET}/{name}/device/driver")
    words = [state, *([f"{speed} Mb/s"] if speed else []), *([driver] if driver else [])]
    return ", ".join(words)


def _fabric(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Name the fabric by its devices' drivers: a cable that is not plugged in is no fabric."""
    cxi = evidence.folders.get(_CXI, ())
    if cxi:
        yield known("network.kind", "slingshot", _CXI)
        yield known("network.model", f"{len(cxi)} x HPE Slingshot (cxi)", _CXI)
        return
    ports = _active(evidence)
    how = f"{_VERBS}/*/ports/*/state, link_layer; device/driver"
    if ports:
        kind = _kind(ports)
        rates = listed([port["rate"] for port in ports.values()])
        yield (
            known("network.kind", kind, how)
            if kind
            else unknown("network.kind", how, f"ports of several kinds: {', '.join(ports)}")
        )
        yield known("network.model", f"{len(ports)} x {_common(ports)}, {' or '.join(rates)}", how)
        return
    cards = [
        name
        for name in evidence.folders.get(_NET, ())
        if evidence.text(f"{_NET}/{name}/operstate") == "up"
        and f"{_NET}/{name}/device/driver" in evidence.links
        and evidence.links[f"{_NET}/{name}/device/driver"] not in ("virtio_net", "veth")
    ]
    if cards:
        yield known("network.kind", "ethernet", f"{_NET}: no other fabric, and these are up")
        states = [f"{name}: {_state(evidence, name)}" for name in cards]
        yield known("network.model", "; ".join(states)[:120], f"{_NET}/*/speed, device/driver")
        return
    why = "no device of a fabric, and no interface of a card that is up"
    yield unknown("network.kind", f"{_CXI}, {_VERBS}, {_NET}", why)
    yield unknown("network.model", f"{_CXI}, {_VERBS}, {_NET}", why)


def _active(evidence: NodeEvidence) -> dict[str, dict[str, str]]:
    """Return the ports that are up, by device: driver, link layer, rate, the card's name."""
    ports = {}
    for path, state in evidence.matching(f"{_VERBS}/*/ports/*/state"):
        device = path.parents[2].name
        if state == _ACTIVE:
            port = str(path.parent)
            ports[f"{device}:{path.parent.name}"] = {
                "driver": evidence.links.get(f"{_VERBS}/{device}/device/driver", ""),
                "layer": evidence.text(f"{port}/link_layer") or "",
                "rate": evidence.text(f"{port}/rate") or "rate unknown",
                "card": evidence.text(f"{_VERBS}/{device}/hca_type") or "",
            }
    return ports


def _kind(ports: Mapping[str, Mapping[str, str]]) -> str | None:
    kinds = {_of_port(port) for port in ports.values()}
    # Beside a fabric there are often Ethernet ports, for storage and logins.
    fabrics = kinds - {"ethernet"} or kinds
    return fabrics.pop() if len(fabrics) == 1 else None


def _of_port(port: Mapping[str, str]) -> str:
    if port["driver"].startswith("hfi1"):
        return "omni-path"
    if port["driver"] == "efa":
        return "other"
    return "infiniband" if port["layer"] == "InfiniBand" else "ethernet"


def _common(ports: Mapping[str, Mapping[str, str]]) -> str:
    names = listed([port["card"] or port["driver"] or "port" for port in ports.values()])
    return " or ".join(names)
