"""How collectives reach the fabric: what surrounds jobs, what is said, what is refused."""

from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.sites import fabric_jobs
from dlcontainer.sites.site import Site
from tests.values import site_of

GPU = {
    "vendor": "nvidia",
    "model": "A100",
    "per_node": 4,
    "remembered": ["vendor", "model", "per_node"],
}
FABRIC = {"kind": "slingshot", "model": "Slingshot-11", "remembered": ["kind", "model"]}
LIBRARY = "/opt/ofi/lib/libnccl-net.so"


def made(**changes: Any) -> Site:
    collectives = changes.pop("collectives", None)
    if collectives is not None:
        changes["collectives"] = {**collectives, "remembered": list(collectives)}
    site = site_of(**{"accelerator": GPU, "network": FABRIC, **changes})
    fabric_jobs.require_brought(site)
    return fabric_jobs.settle(site.value)


def test_the_host_s_plug_in_is_bound_and_named() -> None:
    facts = {
        "plugin": "host", "library": LIBRARY, "abi": [8, 9], "interface": "hsn",
        "gloo_interface": "hsn0", "environment": {"FI_CXI_DEFAULT_CQ_SIZE": "131072"},
    }  # fmt: skip
    site = made(collectives=facts)
    assert site.jobs.binds == ("/opt/ofi/lib:/opt/ofi/lib",)
    assert site.jobs.inside == {
        "NCCL_NET_PLUGIN": LIBRARY,
        "NCCL_SOCKET_IFNAME": "hsn",
        "GLOO_SOCKET_IFNAME": "hsn0",
        "FI_CXI_DEFAULT_CQ_SIZE": "131072",
    }
    assert fabric_jobs.said(site) == f"Slingshot-11, by the host's plug-in {LIBRARY}"


def test_what_jobs_say_themselves_wins() -> None:
    jobs = {
        "inside": {"NCCL_SOCKET_IFNAME": "eth0"}, "binds": ["/opt/ofi/lib:/opt/ofi/lib"],
        "remembered": ["inside", "binds"],
    }  # fmt: skip
    facts = {"plugin": "host", "library": LIBRARY, "interface": "hsn"}
    site = made(collectives=facts, jobs=jobs)
    assert site.jobs.inside["NCCL_SOCKET_IFNAME"] == "eth0"
    assert site.jobs.binds == ("/opt/ofi/lib:/opt/ofi/lib",)


@pytest.mark.parametrize(
    ("kind", "facts", "said"),
    [
        ("slingshot", None, "TCP: nothing at this site brings NCCL a plug-in for Slingshot-11"),
        ("slingshot", {"interface": "hsn"}, "TCP on hsn: nothing at this site brings"),
        ("slingshot", {"plugin": "image"}, "TCP, unless the image brings NCCL a plug-in"),
        ("slingshot", {"plugin": "hook"}, "by the plug-in that the runtime brings"),
        ("infiniband", None, "by NCCL's own transport"),
        ("infiniband", {"plugin": "none"}, "TCP: nothing at this site brings"),
        ("ethernet", None, None),
    ],
)
def test_what_is_said(kind: str, facts: dict[str, Any] | None, said: str | None) -> None:
    found = fabric_jobs.said(made(network={**FABRIC, "kind": kind}, collectives=facts))
    assert found is None if said is None else found is not None and said in found


def test_a_plug_in_for_images_without_an_mpi() -> None:
    site = made(collectives={"plugin": "hook", "without_mpi": True})
    assert str(fabric_jobs.said(site)).endswith("by the plug-in that the runtime brings")
    assert str(fabric_jobs.said(site, uses_mpi=True)).startswith("TCP: nothing at this site brings")


def test_a_site_without_gpus_says_nothing() -> None:
    assert fabric_jobs.said(site_of(network=FABRIC).value) is None


@pytest.mark.parametrize("name", ["NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER"])
@pytest.mark.parametrize("place", ["collectives", "inside", "environment", "site"])
def test_what_nothing_brings_is_refused(name: str, place: str) -> None:
    named = {name: "cxi"}
    ways: dict[str, dict[str, Any]] = {
        "collectives": {"collectives": {"environment": named}},
        "inside": {"jobs": {"inside": named, "remembered": ["inside"]}},
        "environment": {"jobs": {"environment": named, "remembered": ["environment"]}},
        "site": {"environment": named},
    }
    changes = ways[place]
    with pytest.raises(ConfigError, match=f"{name}: nothing at this site brings") as refused:
        made(**changes)
    assert "collectives.plugin" in str(refused.value.next_step)
    if place != "collectives":
        made(**changes, collectives={"plugin": "hook"})


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"plugin": "host"}, "'library' and 'plugin: host' must be given together"),
        ({"library": LIBRARY}, "'library' and 'plugin: host' must be given together"),
        ({"plugin": "own", "abi": [8]}, "'abi' is of a plug-in, and 'plugin' is own"),
        ({"plugin": "magic"}, "plugin"),
        ({"interface": "hsn0 $(touch x)"}, "interface"),
        ({"plugin": "host", "library": "lib/libnccl-net.so"}, "library"),
        ({"plugin": "host", "library": "/opt/a:/etc/lib.so"}, "library"),
        ({"plugin": "hook", "abi": [0]}, "abi"),
    ],
)
def test_facts_that_exclude_each_other(facts: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made(collectives=facts)
