"""The addresses of proxies: what a site, the host's variables and apt's settings may hold."""

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.proxies import proxies_of
from tests.values import host, site_of

GOOD = (
    "http://proxy.example:3128",
    "https://proxy.example/",
    "http://user:p%40ss@10.0.0.1:8080",
    "http://user:p!*()~+,=&|^d@proxy_1.example",
    "http://[2001:db8::1]:3128/path",
)
# The first ran a command on the host through apt's settings.
BAD = (
    'http://127.0.0.1:9";APT::Update::Pre-Invoke {"touch CANARY"};Acquire::http::Proxy "DIRECT',
    *(f"http://p{sign}SECRET.example" for sign in "'\"\\<>;{}$` \t\n\r\x1b\x7f\u202e\u00a0"),
    *(f"http://u:SECRET{sign}x@p.example:1" for sign in "'\"\\<>;{}$` \n/"),
    *(
        "",
        "proxy.example:3128",
        "ftp://p.example",
        "file:///SECRET",
        "http://",
        "http://u@",
        "DIRECT",
    ),
    *("http://p.example:x", "http://p.example:123456", "HTTP://p.example", "-x", "http:p.example"),
)


@pytest.mark.parametrize("address", GOOD)
def test_addresses(address: str) -> None:
    routing = site_of(routing={"proxy": address}).value.routing
    assert proxies_of(routing, host()) == {"http_proxy": address, "https_proxy": address}
    auto = site_of(routing={"proxy": "auto"}).value.routing
    found = proxies_of(auto, host(environ={"HTTP_PROXY": address}))
    assert found == {"http_proxy": address}
    line = f'Acquire::http::Proxy "{address}";'
    assert apt_config.parse_dump(line) == (line,)


@pytest.mark.parametrize("address", BAD)
def test_a_site_with_another(address: str) -> None:
    with pytest.raises(ConfigError, match=r"routing\.proxy: not 'auto', 'none'") as caught:
        site_of(routing={"proxy": address})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("address", [bad for bad in BAD if bad])
@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy", "ftp_proxy"])
def test_a_variable_with_another(name: str, address: str) -> None:
    routing = site_of().value.routing
    with pytest.raises(ConfigError, match=f"environment variable {name}: not the addr") as caught:
        proxies_of(routing, host(environ={name: address}))
    assert "SECRET" not in str(caught.value)
    assert name in str(caught.value.next_step)
    # Where the host's are not asked, nobody minds.
    none = site_of(routing={"proxy": "none"}).value.routing
    assert proxies_of(none, host(environ={name: address})) == {}


def test_the_proxy_for_all_serves_where_no_other_is_named() -> None:
    routing = site_of().value.routing
    socks = "socks5h://u:p@p.example:1080"
    every = {"all_proxy": socks, "http_proxy": socks, "https_proxy": socks}
    for name in ("ALL_PROXY", "all_proxy"):
        assert proxies_of(routing, host(environ={name: socks})) == every
    given = {"ALL_PROXY": socks, "https_proxy": GOOD[0], "HTTPS_PROXY": GOOD[1]}
    assert proxies_of(routing, host(environ=given)) == {**every, "https_proxy": GOOD[0]}
    none = site_of(routing={"proxy": "none"}).value.routing
    assert proxies_of(none, host(environ=given)) == {}
    with pytest.raises(ConfigError):
        proxies_of(routing, host(environ={"http_proxy": socks}))


def test_an_empty_variable_is_no_proxy() -> None:
    routing = site_of().value.routing
    for given in ({"https_proxy": ""}, {"HTTPS_PROXY": ""}, {"ALL_PROXY": "", "all_proxy": ""}):
        assert proxies_of(routing, host(environ=given)) == {}
    # In lower case it switches off what stands in capitals, as in Python's own programs.
    off = {"https_proxy": "", "HTTPS_PROXY": GOOD[0], "HTTP_PROXY": GOOD[1]}
    assert proxies_of(routing, host(environ=off)) == {"http_proxy": GOOD[1]}


@pytest.mark.parametrize(
    "value",
    ["localhost,.example.org", "*", "10.0.0.0/8, [::1]:80", "a_b.example 127.0.0.1:3128", "::1"],
)
def test_where_no_proxy_is_asked(value: str) -> None:
    routing = site_of().value.routing
    assert proxies_of(routing, host(environ={"no_proxy": value})) == {"no_proxy": value}


@pytest.mark.parametrize("sign", "'\"\\<>;{}$`\n\t\x1b\u202e")
def test_no_such_list(sign: str) -> None:
    routing = site_of().value.routing
    with pytest.raises(ConfigError, match="environment variable NO_PROXY: not a list"):
        proxies_of(routing, host(environ={"NO_PROXY": f"a{sign}b"}))


@pytest.mark.parametrize(
    "value", [bad for bad in BAD if bad not in ("", "DIRECT") and "\n" not in bad]
)
def test_apts_own_settings(value: str) -> None:
    text = f'Acquire::https::m.example::Proxy "{value}";'
    if len(text.splitlines()) > 1:
        assert apt_config.parse_dump(text) == ()
        return
    with pytest.raises(ConfigError) as caught:
        apt_config.parse_dump(text)
    assert "Acquire::https::m.example::Proxy" in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["DIRECT", "false", "", "socks5h://p.example:1"])
def test_apts_own_words(value: str) -> None:
    line = f'Acquire::http::Proxy "{value}";'
    assert apt_config.parse_dump(line) == (line,)
