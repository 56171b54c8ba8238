"""The build record: what it says, and what is none."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from dlcontainer.build import write_record
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.run_steps import StepResult
from dlcontainer.build.write_record import BuildFacts
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import record
from dlcontainer.registry.base_image import BaseImage
from tests.values import HOST, TRIAL, folder_of, plan_of

TREE = BaseTree(path=Path("/x"), sha256="ab", made_at="2026-01-01T00:00:00Z", cached=True)


def write(tmp_path: Path, base: BaseTree | BaseImage) -> Path:
    image = tmp_path / "it's an image.sif"
    image.write_bytes(b"image")
    path = record.beside(image)
    write_record.write(
        path,
        BuildFacts(
            plan=plan_of(folder_of(tmp_path)),
            host=HOST,
            trial=TRIAL,
            image=image,
            base=base,
            text="text\n",
            provenance={"plan": {"digest": "twice"}, "source_date_epoch": 7},
            packages=({"name": "a", "version": "1", "sha256": "cd"},),
            done=(StepResult(step=STEP, seconds=1.5, kept=None, packages=()),),
            steps=(("base", 1.25), ("pack", 2.0)),
            seconds=3.14159,
        ),
    )
    return path


STEP = BuildStep(name="s", number=1, total=1, script="", files=(), inputs={}, key="ef")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write(tmp_path, TREE)


def test_the_base(tmp_path: Path) -> None:
    body = json.loads(write(tmp_path, TREE).read_text())
    assert body["base"] == {"sha256": "ab", "made": "2026-01-01T00:00:00Z"}
    image = BaseImage(name="e.org/a", tag="1", digest="sha256:a", platform_digest="sha256:b")
    body = json.loads(write(tmp_path, image).read_text())
    assert body["base"] == {
        "image": "e.org/a",
        "tag": "1",
        "digest": "sha256:a",
        "platform_digest": "sha256:b",
    }


def test_what_it_says(written: Path, tmp_path: Path) -> None:
    assert written.name == "it's an image.json"
    body = json.loads(written.read_text())
    plan = plan_of(folder_of(tmp_path))
    assert body["schema"] == "dlcontainer/record/1"
    assert body["image"] == {
        "file": "demo-1.0-demo.sif",
        "sha256": hashlib.sha256(b"image").hexdigest(),
        "size": 5,
    }
    assert (body["digest"], body["seconds"]) == (plan.digest, 3.1)
    assert body["content"] == json.loads(json.dumps(plan.content))
    assert body["text_sha256"] == hashlib.sha256(b"text\n").hexdigest()
    assert body["engine"]["squash"] == [*SQUASH]
    assert body["steps"][0] == {"name": "base", "seconds": 1.25}
    assert body["work"] == [{"name": "s", "key": "ef", "seconds": 1.5, "kept": None}]
    assert body["provenance"] == {"source_date_epoch": 7}
    for private in ("ada", "/home", str(tmp_path)):
        assert private not in written.read_text()


def test_reading_it_back(written: Path) -> None:
    read = record.read(written)
    assert read is not None
    assert (read.image.sha256, read.image.size) == (hashlib.sha256(b"image").hexdigest(), 5)
    assert record.read(written.with_name("other.json")) is None


def test_one_that_is_cut(written: Path) -> None:
    text = written.read_text()
    for end in range(0, len(text) - 2, 97):
        written.write_text(text[:end])
        with pytest.raises(ChecksFailedError, match=r"(incomplete|invalid) record") as caught:
            record.read(written)
        assert str(caught.value.next_step).startswith("copy it again from the folder of the build")


def test_one_of_another_version(written: Path) -> None:
    body = json.loads(written.read_text())
    written.write_text(json.dumps({**body, "schema": "dlcontainer/record/9"}))
    with pytest.raises(ChecksFailedError, match="has version 'dlcontainer/record/9'"):
        record.read(written)


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"schema": "dlcontainer/record/1"}', "{}"])
def test_json_that_is_none(written: Path, text: str) -> None:
    written.write_text(text)
    with pytest.raises(ChecksFailedError, match=r"(incomplete|invalid) record"):
        record.read(written)


def test_what_cannot_be_read(written: Path) -> None:
    written.write_bytes(b"\xff\xfe")
    with pytest.raises(ChecksFailedError, match="can't read"):
        record.read(written)
    with pytest.raises(ChecksFailedError, match="can't read"):
        record.read(written.parent)


WRONG: list[tuple[str, object]] = [
    ("digest", 7),
    ("digest", ["a"]),
    ("digest", None),
    ("image", "x"),
    ("image", {"sha256": "a", "size": "1"}),
    ("image", {"sha256": "a\nb", "size": 1}),
    ("image", {"sha256": "\x1b]0;x", "size": 1}),
    ("base", "x"),
    ("lock", {}),
    ("engine", []),
    ("engine", {"squash": 7}),
    ("engine", {"builder": None}),
    ("provenance", None),
    ("provenance", {"source_date_epoch": "x"}),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_values_of_another_kind(written: Path, key: str, value: object) -> None:
    """What comes out of a record is of the type that it says: nobody asks again."""
    written.write_text(json.dumps({**json.loads(written.read_text()), key: value}))
    with pytest.raises(ChecksFailedError, match=rf"invalid record: {key}"):
        record.read(written)


@pytest.mark.parametrize("key", ["schema", "image", "digest"])
def test_the_missing_key_is_named(written: Path, key: str) -> None:
    body = json.loads(written.read_text())
    del body[key]
    written.write_text(json.dumps(body))
    with pytest.raises(ChecksFailedError, match=f"incomplete record: '{key}' is missing"):
        record.read(written)


def test_one_that_is_nested_too_deeply(written: Path) -> None:
    for inside in ("[" * 100_000, '{"content": ' + "[" * 900 + "]" * 900 + "}"):
        written.write_text(inside)
        with pytest.raises(ChecksFailedError, match="nested too deeply"):
            record.read(written)


@pytest.mark.timeout(60)
def test_one_that_is_no_file(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe.json", tmp_path / "large.json"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(record.MOST_BYTES + 1)
    for path, says in ((pipe, "not a regular file"), (large, "it has 16 MB; the limit is 16 MB")):
        with pytest.raises(ChecksFailedError, match=says):
            record.read(path)


def test_the_record_of_a_link(tmp_path: Path) -> None:
    """It lies beside the image that the link leads to."""
    (tmp_path / "images").mkdir()
    image = tmp_path / "images/demo.sif"
    image.touch()
    link = tmp_path / "latest.sif"
    link.symlink_to("images/demo.sif")
    assert record.beside(link) == record.beside(image) == tmp_path / "images/demo.json"
