"""YAML to plain data: what holds for any text."""

import contextlib
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.config import Document, load, parse
from dlcontainer.config.yaml_text.scalars import resolve
from dlcontainer.errors import ConfigError


def read(text: str) -> Document:
    return parse(text, layer="recipe", display="r.yaml")


words = st.text(
    st.characters(
        exclude_categories=["Cc", "Cs", "Zl", "Zp", "Cn", "Co"], exclude_characters="\ufeff"
    ),
    max_size=20,
    # PyYAML writes 1e3 without quotes: it is text in YAML 1.1, a number in 1.2 and here.
).filter(lambda word: not isinstance(resolve(word), float))
scalars = words | st.integers(-(10**18) + 1, 10**18 - 1) | st.booleans() | st.none()
nested = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(words, nested, max_size=5)


def both(text: str) -> list[Document]:
    found = [read(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(yaml, "CSafeLoader", raising=False)
        found.append(read(text))
    return found


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


@given(documents)
def test_round_trip(data: dict[str, object]) -> None:
    text = yaml.dump(data, Dumper=_NoAliases, allow_unicode=True)
    quick, slow = both(text)
    assert quick.data == slow.data == data
    assert quick.origins == slow.origins


@given(st.text() | st.text("a1: -[]{}\n\t'\"#&*!|>%@?,\\<.\x00\r", max_size=60))
def test_nothing_but_config_errors(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            with contextlib.suppress(ConfigError):
                assert isinstance(read(text).data, dict)
            patch.delattr(yaml, "CSafeLoader", raising=False)


@given(st.binary())
def test_nothing_but_config_errors_from_bytes(data: bytes) -> None:
    handle = os.memfd_create("r")
    try:
        os.write(handle, data)
        with contextlib.suppress(ConfigError):
            load(Path(f"/proc/self/fd/{handle}"), layer="recipe")
    finally:
        os.close(handle)
