"""A proof is read whole or refused: edited, cut, of another version, no file."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.proof import proof
from tests.unit.proof.cases import content, write


def test_a_proof_is_read_with_its_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / proof.FILE, content())
    found = proof.read(path)
    assert {node: len(ranks) for node, ranks in found.nodes.items()} == {"n1": 4, "n2": 4}
    # The folder that the job left will do.
    assert proof.read(tmp_path).digest == found.digest


def test_a_proof_edited_by_hand_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / proof.FILE, content())
    path.write_text(path.read_text().replace('"busbw": 40.0', '"busbw": 90.0'))
    with pytest.raises(ChecksFailedError, match="changed after the job wrote it") as caught:
        proof.read(path)
    assert caught.value.exit_code == 1
    assert "an edited proof does not count" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "incomplete JSON"),
        ('{"schema": "dlcontainer/proof/1", ', "incomplete JSON"),
        ("[]", "not a proof of version"),
        ('{"schema": "dlcontainer/proof/2"}', "not a proof of version"),
        ('{"schema": "dlcontainer/proof/1"}', "changed after"),
        ('{"schema": "dlcontainer/proof/1", "content": NaN}', "NaN is not JSON"),
    ],
)
def test_what_is_no_proof(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ChecksFailedError, match=says):
        proof.read(path)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"asked": 0}, "asked"),
        ({"ranks": [{}]}, "ranks.0.rank"),
        ({"date": "a\nb"}, "date"),
        ({"image": {"plan": "x"}}, "image.plan"),
    ],
)
def test_a_value_that_is_none_is_named(tmp_path: Path, change: Any, key: str) -> None:
    path = write(tmp_path / "a.json", {**content(), **change})
    with pytest.raises(ChecksFailedError, match=f"invalid proof: {key}: "):
        proof.read(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ChecksFailedError, match="can't read"):
        proof.read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(ChecksFailedError, match="not a regular file"):
        proof.read(tmp_path / "a.json")


def test_canonical_json_has_one_form() -> None:
    assert proof.canonical(json.loads('{"b": 1.0, "a": "ü"}')) == '{"a":"\\u00fc","b":1.0}'
