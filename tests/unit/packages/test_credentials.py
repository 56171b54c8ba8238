"""Credentials in addresses: which parts they are, in which forms they are found and hidden."""

import base64
from urllib.parse import quote

import pytest

from dlcontainer.packages import credentials


def forms(*texts: str) -> set[bytes]:
    return {form for one in credentials.of({"x": texts}) for form in one.forms}


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        ("http://puser:s3cretword@proxy.example:3128/", "s3cretword"),
        ("https://glpat-0123456789@git.example/simple", "glpat-0123456789"),
        ("https://m.example/simple?arch=any&token=s3cretword", "s3cretword"),
        ("https://conda.example/t/s3cretword/channel", "s3cretword"),
        ('Acquire::http::Proxy "http://u:s3cretword@p.example:1";', "s3cretword"),
        ("deb [signed-by=/k] https://u:s3cretword@m.example/debian trixie main", "s3cretword"),
    ],
)
def test_passwords_and_tokens(address: str, secret: str) -> None:
    assert secret.encode() in forms(address)


def test_all_forms_that_a_tool_writes() -> None:
    password = "p@ss w/ö"
    address = f"http://us%40er:{quote(password, safe='')}@proxy.example:3128"
    basic = base64.b64encode(f"us@er:{password}".encode()).rstrip(b"=")
    assert {password.encode(), quote(password, safe="").encode(), basic} <= forms(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://proxy.example:3128",
        "https://m.example/simple?arch=any",
        "/srv/wheels",
        "file:///opt/simple",
        "http://[::1:2]/x",
    ],
)
def test_addresses_without_any(address: str) -> None:
    assert forms(address) == set()


@pytest.mark.parametrize("password", ["abc", "password", "12345678"])
def test_what_stands_anywhere_is_looked_for_together_with_its_user(password: str) -> None:
    basic = base64.b64encode(f"user:{password}".encode()).rstrip(b"=")
    assert forms(f"http://user:{password}@p.example") == {basic, f"user:{password}".encode()}


def test_a_users_name_is_no_secret() -> None:
    assert forms("ssh://git@host.example/x", "https://someone@m.example/simple") == set()


def test_they_are_hidden_whatever_stands_around_them() -> None:
    known = credentials.of({"http_proxy": ["http://u:s3cretword@p.example"]})
    text = "curl: http://u:s3cretword@p.example \udcff dTpzM2NyZXR3b3Jk"
    assert credentials.masked(text, known) == "curl: http://***@p.example \udcff ***"


def test_what_holds_another_form_is_not_looked_for_itself() -> None:
    known = credentials.of({"x": ["http://u:s3cretword@p.example"]})
    basic = base64.b64encode(b"u:s3cretword").rstrip(b"=")
    own = base64.b64encode(b"s3cretword").rstrip(b"=")
    assert set(credentials.shortest(known)) == {b"s3cretword", basic, own}
