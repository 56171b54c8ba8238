"""The record of an extended image: whose word it keeps, and what it names."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.adopt import layer
from dlcontainer.authoring.extension import layer_record
from dlcontainer.authoring.extension.base_copy import BaseCopy, FileIdentity
from dlcontainer.authoring.extension.layer_record import BaseProof, RecordFacts
from dlcontainer.image.record import Record, RecordFile
from dlcontainer.validate.inspected import CheckResult
from tests.fakes import RecordingRunner
from tests.values import execution_of

BASE = {"name": "below", "version": "1", "sha256": "a" * 64, "tree_sha256": "b" * 64}
OFFER = {"name": "above", "version": "1", "summary": "s", "prefix": "/opt/x", "exposes": []}


def content(**base: str) -> dict[str, Any]:
    extended = {**OFFER, "python": "/opt/x/bin/python", "base": BASE | base}
    return {"site": "local", "extended": extended}


def below(**changes: Any) -> RecordFile:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "a" * 64, "size": 1},
        "digest": "c" * 64,
        "content": {"site": "local", "recipe": OFFER},
        **changes,
    }
    stranger = body.pop("stranger", None)
    record = Record.model_validate_json(json.dumps(body)).model_copy(update={"stranger": stranger})
    return RecordFile(data=b"", body=body, record=record)


def written(tmp_path: Path, base: RecordFile | None, *, trusted: bool = False) -> Record:
    image = tmp_path / "image.sif"
    image.write_bytes(b"image")
    copy = BaseCopy(
        path=Path("/appl/below.sif"),
        copy=image,
        sha256="a" * 64,
        tree_sha256="b" * 64,
        is_signed=False,
        record=base,
        identity=FileIdentity.of(image.stat()),
    )
    facts = RecordFacts(
        content=content(**({"digest": base.record.digest} if base else {})),
        image=image,
        name="above-1-local.sif",
        base=copy,
        execution=execution_of(tmp_path, RecordingRunner()),
        trusted=trusted,
    )
    return layer_record.write(tmp_path / "record.json", facts)


def test_an_image_on_one_of_ours(tmp_path: Path) -> None:
    record = written(tmp_path, below())
    assert not record.is_contained
    assert record.base is not None
    assert (record.base.path, record.base.sha256) == ("/appl/below.sif", "a" * 64)
    assert record.digest == layer.digest(content(digest="c" * 64))


def test_an_image_on_somebody_else_s(tmp_path: Path) -> None:
    record = written(tmp_path, None)
    assert record.content.is_foreign
    assert record.is_contained
    assert record.came == "was made on an image of others"
    assert not written(tmp_path, None, trusted=True).is_contained


@pytest.mark.parametrize(
    "changes",
    [{"stranger": "mallory"}, {"unverified": {"source": "docker://x", "at": "today"}}],
)
def test_a_stranger_s_word_is_not_lifted(tmp_path: Path, changes: dict[str, Any]) -> None:
    record = written(tmp_path, below(**changes))
    assert record.is_contained
    assert record.unverified is not None
    assert record.unverified.source in ("docker://x", "below.sif, whose record belongs to mallory")
    assert not written(tmp_path, below(**changes), trusted=True).is_contained


def test_who_trusted_the_base_trusts_the_layer(tmp_path: Path) -> None:
    trust = {"by": "me", "sha256": "a" * 64, "at": "today"}
    mark = {"source": "docker://x", "at": "today"}
    assert not written(tmp_path, below(trust=trust, unverified=mark)).is_contained
    other = {**trust, "sha256": "d" * 64}
    assert written(tmp_path, below(trust=other, unverified=mark)).is_contained


def test_proofs_stand_beside_each_other(tmp_path: Path) -> None:
    written(tmp_path, below())
    check = CheckResult(name="verify below", ok=True, detail="after", state="ok")
    layer_record.add_proofs(
        tmp_path / "record.json", [BaseProof(of="below", detail="before")], [check]
    )
    body = json.loads((tmp_path / "record.json").read_text())
    assert body["base_verify"] == [{"recipe": "below", "before": "before", "after": "after"}]
