"""What is printed of an address: no password, no token, and all the rest."""

import pytest

from dlcontainer.packages import credentials

KEPT = (
    "https://example.org/a?b=c",
    "docker://host:5000/name@sha256:0123",
    "docker://host:5000",
    "http://[::1]:80/x@y",
    "git+ssh://git@example.org/x.git",
    "https://forum.example.org/t/a-page-of-it-with-words/12",
    "no address: a:b@c",
    "https://",
    "/host:/image/a:ro@b",
    "lab.yaml:1:2: https:/",
    "://",
)


@pytest.mark.parametrize("text", KEPT)
def test_an_address_without_a_secret_is_shown(text: str) -> None:
    assert credentials.shown(f"'{text}' x") == f"'{text}' x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@h:1/x", "http://u:***@h:1/x"),
        ("oras://u:PASSWORD@h/n:1", "oras://u:***@h/n:1"),
        ("can't read oras:/u:p@h/n", "can't read oras:/u:***@h/n"),
        ("HTTP://u:pa:ss@h", "HTTP://u:***@h"),
        ("http://u:p/w@h/x", "http://u:***@h/x"),
        ("http://:p@h", "http://:***@h"),
        ("https://ghp_0123456789@h/x", "https://***@h/x"),
        ("https://h/x?a=1&api_token=s3cr3t&b=2#c", "https://h/x?a=1&api_token=***&b=2#c"),
        ("https://h/t/ab-0123456789abcdef0123/ch", "https://h/t/***/ch"),
        (
            "deb [a=b] https://u:p@h/debian stable main",
            "deb [a=b] https://u:***@h/debian stable main",
        ),
        ("https://u:p@h and http://v:q@i", "https://u:***@h and http://v:***@i"),
    ],
)
def test_a_secret_is_not_shown(text: str, shown: str) -> None:
    assert credentials.shown(text) == shown
