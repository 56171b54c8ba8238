"""What a command line asks of a network, and what is refused."""

import json

import pytest

from dlcontainer.errors import UsageError
from dlcontainer.lab.slownet import network
from dlcontainer.lab.slownet.network import NetworkOptions


def test_every_pair_has_a_link() -> None:
    found = network.settled(NetworkOptions(hosts=4, latency="100us", rate="1Gbit"))
    assert [link.name for link in found.links] == [
        *("n1-n2", "n1-n3", "n1-n4", "n2-n3", "n2-n4", "n3-n4")
    ]
    assert [link.latency_s for link in found.links] == pytest.approx([1e-4] * 6)
    assert {link.rate for link in found.links} == {1e9}
    assert [host.address for host in found.hosts] == [f"10.99.0.{n}" for n in (1, 2, 3, 4)]


def test_a_link_of_its_own() -> None:
    asked = NetworkOptions(hosts=3, latency="1ms", rate="100Mbit", links=("n3-n1=2.5ms,50Mbit",))
    found = network.settled(asked)
    own = found.link(2, 0)
    assert (own.latency_s, own.rate) == (2.5e-3, 50e6)
    assert found.link(1, 0).latency_s == 1e-3


def test_losses_come_in_their_order() -> None:
    found = network.settled(
        NetworkOptions(hosts=3, down=("n2-n3@5s", "n1-n2@100ms"), kill=("n3@1s",))
    )
    assert [(loss.what, loss.after_s) for loss in found.losses] == [
        ("link n1-n2", 0.1), ("host n3", 1.0), ("link n2-n3", 5.0)
    ]  # fmt: skip


def test_it_comes_back_from_json() -> None:
    asked = NetworkOptions(
        hosts=3, latency="1ms", rate="1Gbit", down=("n2-n3@5s",), kill=("n3@1s",)
    )
    found = network.settled(asked)
    assert network.read(json.loads(json.dumps(found.body()))) == found


def test_a_window_fills_the_link_and_waits_less_than_tcp_does() -> None:
    slow = network.settled(NetworkOptions(latency="100us", rate="100Mbit"))
    assert slow.window is not None
    assert slow.window * 8 / 100e6 < 0.2
    far = network.settled(NetworkOptions(latency="100ms", rate="100Mbit"))
    assert far.window is not None
    assert far.window * 8 > 0.2 * 100e6
    assert network.settled(NetworkOptions(latency="1ms")).window is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (NetworkOptions(hosts=1), "--hosts 1"),
        (NetworkOptions(hosts=5), "--hosts 5"),
        (NetworkOptions(mtu=100), "--mtu 100"),
        (NetworkOptions(latency="100"), "--latency 100"),
        (NetworkOptions(latency="-1ms"), "--latency -1ms"),
        (NetworkOptions(latency="2s"), "--latency 2s"),
        (NetworkOptions(rate="1Gb"), "--rate 1Gb"),
        (NetworkOptions(rate="1Mbit"), "from 10Mbit"),
        (NetworkOptions(rate="200Gbit"), "to 100Gbit"),
        (NetworkOptions(latency="1ms", by="tbf"), "limits rates only"),
        (NetworkOptions(links=("n1-n2=1ms",)), "--link n1-n2=1ms"),
        (NetworkOptions(links=("n1-n3=1ms,1Gbit",)), "the hosts n1, n2"),
        (NetworkOptions(links=("n1-n2=1ms,fast",)), "fast"),
        (NetworkOptions(down=("n1-n2",)), "n1-n2@5s"),
        (NetworkOptions(down=("n1@5s",)), "not a link of two hosts"),
        (NetworkOptions(down=("n1-n1@5s",)), "not a link of two hosts"),
        (NetworkOptions(kill=("n3@5s",)), "not a host"),
        (NetworkOptions(kill=("n1-n2@5s",)), "not a host"),
    ],
)
def test_what_is_refused(asked: NetworkOptions, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        network.settled(asked)
    assert words in str(raised.value)
