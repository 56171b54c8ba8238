"""Text that enters what apt reads: quoted, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.errors import ConfigError
from dlcontainer.packages.apt import apt_syntax

HOOK = 'http://127.0.0.1:9";APT::Update::Pre-Invoke {"touch CANARY";};Acquire::http::Proxy "DIRECT'


def test_settings() -> None:
    assert apt_syntax.setting("Acquire::Retries", "3") == 'Acquire::Retries "3";'
    # apt knows no escape in a quoted value: what is special elsewhere is itself.
    odd = r"http://a:{b;c}$(d)`e`\@f/#//%41 'g'"
    assert apt_syntax.setting("Acquire::http::Proxy", odd) == f'Acquire::http::Proxy "{odd}";'


@pytest.mark.parametrize("value", [HOOK, '"', "a\nb", "a\tb", "a\0b", "\x7f", "\u202e", "x" * 1001])
def test_values_that_apt_can_not_hold(value: str) -> None:
    with pytest.raises(ConfigError, match="cannot hold the value of A::B") as caught:
        apt_syntax.setting("A::B", value)
    assert value not in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize("name", ["", "A B", 'A"', "A{", "A;", "A::", "::A", "A:B", "A\nB", "-o"])
def test_names_that_apt_can_not_hold(name: str) -> None:
    with pytest.raises(ConfigError):
        apt_syntax.setting(name, "1")


@given(st.text())
def test_what_is_quoted_is_one_setting(value: str) -> None:
    try:
        line = apt_syntax.setting("A::B", value)
    except ConfigError:
        return
    assert list(apt_syntax.dumped(line)) == [("A::B", value)]
    assert line.count('"') == 2
    assert len(line.splitlines()) == 1


def test_lines_of_sources() -> None:
    words = ["http://[::1]:1/it's", "bookworm", "main"]
    assert apt_syntax.source_line(words, keyring=None) == f"deb {' '.join(words)}"
    assert apt_syntax.source_line(words, keyring="/a'b.gpg") == (
        f"deb [signed-by=/a'b.gpg] {' '.join(words)}"
    )


@pytest.mark.parametrize("word", ["", "a b", "a\nb", "a\u00a0b", 'a"b', "a#b", "a\x1bb"])
def test_words_that_sources_can_not_hold(word: str) -> None:
    with pytest.raises(ConfigError):
        apt_syntax.source_line(["http://m.example", word], keyring=None)
    if word:
        with pytest.raises(ConfigError):
            apt_syntax.source_line(["http://m.example", "a"], keyring=word)


@pytest.mark.parametrize("keyring", ["/a]b", "/a[b", "/a,b"])
def test_keyrings_that_brackets_can_not_hold(keyring: str) -> None:
    with pytest.raises(ConfigError):
        apt_syntax.source_line(["http://m.example", "a"], keyring=keyring)
