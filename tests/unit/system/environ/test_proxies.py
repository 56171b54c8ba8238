"""Which proxy an address takes, and the proxy as the cause of a failure."""

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.system.environ import proxies

HERE, GONE = "http://here.example:3128", "http://u:secret@gone.example:3128"
SOCKS = "socks5h://here.example:1080"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "_resolves", lambda host: host == "here.example")


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, ("", "")),
        ({"https_proxy": HERE}, ("", HERE)),
        ({"all_proxy": SOCKS}, (SOCKS, SOCKS)),
        ({"all_proxy": SOCKS, "http_proxy": HERE}, (HERE, SOCKS)),
        ({"all_proxy": SOCKS, "no_proxy": ".example.org"}, ("", "")),
        ({"https_proxy": HERE, "no_proxy": "other.example"}, ("", HERE)),
    ],
)
def test_of_an_address(
    given: dict[str, str], taken: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What this process's own variables say is none of a site's.
    monkeypatch.setenv("https_proxy", "http://another.example")
    monkeypatch.setenv("NO_PROXY", "mirror.example.org")
    found = proxies.of_url("https://mirror.example.org/x", given)
    assert (found["http"], found["https"]) == taken


def test_a_name_that_is_not_known() -> None:
    assert proxies.fault({}) is None
    assert proxies.fault({"https_proxy": HERE, "no_proxy": "gone.example"}) is None
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        fault = proxies.fault({"https_proxy": HERE, name: GONE})
        assert fault is not None
        assert fault.why == "cannot resolve the proxy's host name: gone.example"
        assert "getent hosts gone.example" in fault.next_step
        assert "secret" not in f"{fault}"


def test_socks_needs_pysocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "_has_socks", lambda: False)
    fault = proxies.request_fault("https://x.example/", {"all_proxy": SOCKS})
    assert fault is not None
    assert "no PySocks" in fault.why
    assert "install PySocks" in fault.next_step
    assert proxies.request_fault("https://x.example/", {"http_proxy": SOCKS}) is None
    assert proxies.socks_fault({"https_proxy": HERE}) is None
    monkeypatch.setattr(proxies, "_has_socks", lambda: True)
    assert proxies.request_fault("https://x.example/", {"all_proxy": SOCKS}) is None


@pytest.mark.parametrize(
    ("why", "named"),
    [
        ("W: Failed to fetch http://m/dists/x: Temporary failure resolving 'gone.example'", True),
        ("Cannot connect to proxy.', NameResolutionError", True),
        ("ERROR: No matching distribution found for six==1.17.0", True),
        ("gcc: error: no such file", False),
    ],
)
def test_errors_name_the_proxy(why: str, named: bool) -> None:
    with (
        pytest.raises(BuildError) as caught,
        proxies.naming_faults({"https_proxy": GONE}),
    ):
        raise BuildError("cannot make the base", why=why, next_step="try later")
    first, _, rest = str(caught.value.why).partition("\n")
    assert (rest or first) == why
    assert first.startswith("cannot resolve the proxy's host name") == named
    assert ("getent hosts" in str(caught.value.next_step)) == named


def test_a_proxy_that_is_known_is_not_blamed() -> None:
    with pytest.raises(BuildError) as caught, proxies.naming_faults({"https_proxy": HERE}):
        raise BuildError("x", why="connection timed out", next_step="try later")
    assert (caught.value.why, caught.value.next_step) == ("connection timed out", "try later")
