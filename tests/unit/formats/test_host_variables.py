"""Text that the host fills in: variables where they stand, everything else as it is."""

import shlex
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.config.templating import Literal
from dlcontainer.formats import host_variables
from tests.values import HOSTILE

PLAIN = [text for text in HOSTILE if "$" not in text]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("$A/lib", '"${A}"/lib'),
        ("${A}b:$C_1", '"${A}"b:"${C_1}"'),
        ("~/x y", "'~/x y'"),
        ("", "''"),
        ("a;b$A", "'a;b'\"${A}\""),
        ("$LD_LIBRARY_PATH", '"${LD_LIBRARY_PATH-}"'),
    ],
)
def test_a_word_of_a_shell(text: str, word: str) -> None:
    assert host_variables.shell(text) == word


@given(st.text(alphabet=st.characters(exclude_characters="$", exclude_categories=["Cs", "Cc"])))
def test_what_is_no_variable_is_literal(text: str) -> None:
    assert shlex.split(host_variables.shell(text)) == [text]
    assert shlex.split(host_variables.launch_word(text.replace("{", "("))) == [
        text.replace("{", "(")
    ]
    if text.isprintable():
        assert tomllib.loads(f"a = {host_variables.toml(text)}") == {"a": text}


def test_counts_in_the_words_of_a_launcher() -> None:
    assert host_variables.launch_word("-n{ranks} x") == "-n\"$dlc_ranks\"' x'"
    assert (
        host_variables.launch_word("{nodes}{ranks_per_node}") == '"$dlc_nodes""$dlc_ranks_per_node"'
    )
    assert host_variables.launch_word("${A}{nodes}") == '"${A}""$dlc_nodes"'
    # Nowhere else.
    assert host_variables.shell("{nodes}") == "'{nodes}'"


def test_an_edf_fills_in_its_variables() -> None:
    texts = ("$A/b", "c", "$LD_LIBRARY_PATH", Literal("$ORIGIN"))
    found = tomllib.loads(f"a = {host_variables.toml(*texts)}")
    assert found == {"a": "${A}/b:c:${LD_LIBRARY_PATH:-}:$$ORIGIN"}


def test_which_variables_must_be_set() -> None:
    texts = ["$B/$A", "${B}", "$LD_LIBRARY_PATH", "$PWD", "none", Literal("$C")]
    assert host_variables.variables(texts) == ["B", "A"]


@pytest.mark.parametrize("text", PLAIN)
def test_hostile_text_is_one_word(text: str) -> None:
    assert shlex.split(host_variables.shell(text)) == [text]
    assert tomllib.loads(f"a = {host_variables.toml(text)}") == {"a": text}
