"""The layer over an adopted image, and the record of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dlcontainer.adopt import layer, trust
from dlcontainer.adopt.layer import ImageOrigin
from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import layout
from dlcontainer.image.contents import TreeEntry, image_survey
from dlcontainer.image.contents.image_survey import MpiLibrary
from dlcontainer.image.record import ImageContent, Record
from dlcontainer.system.guarded_files import MINE
from tests.values import CONTENT, site_of

ORIGIN = ImageOrigin(
    source="docker://e.org/a@sha256:x", digest=f"sha256:{'ab' * 32}", name="a", version="1"
)
PATHS = ("/opt/conda/lib/python3.11/os.py", "/opt/conda/bin/python")
SEEN = image_survey.read([TreeEntry(path=path, kind="-", size=1) for path in PATHS], [])


def content(**site: Any) -> dict[str, object]:
    return layer.content(ORIGIN, site_of(**site).value, SEEN, ("sh", "python"), ("VENDOR",))


def test_the_record_takes_it() -> None:
    body = ImageContent.model_validate_json(json.dumps(content()))
    assert body.recipe is None
    assert body.adopted is not None
    assert body.offer.exposes == ("python", "sh")
    assert body.adopted.python == "/opt/conda/bin/python"


@pytest.mark.parametrize("keys", [("recipe", "adopted"), ()])
def test_a_content_has_exactly_one_origin(keys: tuple[str, ...]) -> None:
    given = {**CONTENT, **content()}
    for key in ("recipe", "adopted"):
        if key not in keys:
            given.pop(key)
    with pytest.raises(ValidationError, match="exactly one"):
        ImageContent.model_validate_json(json.dumps(given))


def test_its_files(tmp_path: Path) -> None:
    site = site_of(filesystems=[{"path": "/scratch", "purpose": "scratch", "kind": "lustre"}]).value
    body = layer.content(ORIGIN, site, SEEN, (), ())
    layer.write(tmp_path, body, site, [], SEEN.interpreters[0])
    manifest = json.loads((tmp_path / layout.MANIFEST[1:]).read_text())
    assert manifest["python"] == "/opt/conda/bin/python"
    assert manifest["digest"] == layer.digest(body)
    assert (tmp_path / layout.PROBE[1:] / "__main__.py").is_file()
    assert (tmp_path / "scratch").is_dir()
    (script,) = (tmp_path / ".singularity.d/env").iterdir()
    assert script.read_text() == 'export PATH="/opt/conda/bin:$PATH"\n'


def test_no_mount_point_below_a_link_or_over_a_file() -> None:
    site = site_of(
        filesystems=[
            {"path": path, "purpose": "scratch", "kind": "lustre"}
            for path in ("/a/b", "/c", "/d/e")
        ]
    ).value
    entries = [
        TreeEntry(path="/a", kind="l", size=0, target="/home"),
        TreeEntry(path="/c", kind="-", size=1),
        TreeEntry(path="/d", kind="d", size=0),
        TreeEntry(path="/mnt", kind="d", size=0),
    ]
    assert layer.mount_points(site, entries) == ["/d/e"]


def recorded(image: Path) -> Path:
    image.write_bytes(b"image")
    body = {
        "schema": "dlcontainer/record/1",
        "image": {
            "sha256": "6105d6cc76af400325e94d588ce511be5bfdbb73b437dc51eca43917d7a43e3d",
            "size": 5,
        },
        "digest": "ab" * 32,
        "content": content(),
        "finished": "kept",
    }
    image.with_suffix(".json").write_text(json.dumps(body))
    return image


def test_trust_is_noted_with_the_rest_kept(tmp_path: Path) -> None:
    image = recorded(tmp_path / "a.sif")
    file = trust.of_others(image, MINE)
    assert file is not None
    assert file.record.is_contained
    trust.write(image, file, "ada")
    again = trust.of_others(image, MINE)
    assert again is not None
    assert again.body["finished"] == "kept"
    assert again.record.trust is not None
    assert again.record.trust.by == "ada"
    assert not again.record.is_contained


def test_trust_in_an_image_that_changed(tmp_path: Path) -> None:
    image = recorded(tmp_path / "a.sif")
    image.write_bytes(b"other")
    file = trust.of_others(image, MINE)
    assert file is not None
    with pytest.raises(ChecksFailedError, match="does not match its record"):
        trust.write(image, file, "ada")


def test_what_was_built_is_not_contained() -> None:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "ab" * 32, "size": 5},
        "digest": "ab" * 32,
        "content": CONTENT,
    }
    assert not Record.model_validate_json(json.dumps(body)).is_contained


@pytest.mark.parametrize(
    ("families", "stack"),
    [
        ((), {}),
        (("mpich",), {"mpi": {"family": "mpich"}}),
        (("mpich", "mpich"), {"mpi": {"family": "mpich"}}),
        (("unknown",), {}),
        (("mpich", "openmpi"), {}),
    ],
)
def test_an_mpi_of_one_known_family_is_stated_as_a_recipe_does(
    families: tuple[str, ...], stack: dict[str, object]
) -> None:
    mpi = tuple(MpiLibrary(library=f"/lib/{n}.so", family=name) for n, name in enumerate(families))
    seen = dataclasses.replace(SEEN, mpi=mpi, glibc="2.36")
    body = layer.content(ORIGIN, site_of().value, seen, (), ())
    adopted = ImageContent.model_validate_json(json.dumps(body)).adopted
    assert adopted is not None
    assert body["adopted"]["stack"] == stack  # type: ignore[index]
    assert (adopted.stack.mpi is not None, adopted.glibc) == (bool(stack), "2.36")
