import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlcontainer.image.contents import FolderTree
from dlcontainer.validate.checks import static_rules
from tests import elves
from tests.unit.validate.inspecting import (
    DIGEST,
    FOREIGN,
    IMAGE,
)
from tests.values import CONTENT


def with_tree(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Give the image, which is a header alone, a tree that lies unpacked."""
    tree = FolderTree(folder=root)
    monkeypatch.setattr(static_rules, "SquashfsTree", SimpleNamespace(of=lambda *_: tree))


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_tree(monkeypatch, elves.write(tmp_path / "unpacked", {"/bin/sh": b"#!"}))
    path = tmp_path / "it's an image.sif"
    path.write_bytes(IMAGE)
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": hashlib.sha256(IMAGE).hexdigest(), "size": len(IMAGE)},
        "digest": DIGEST,
        "content": CONTENT,
    }
    path.with_suffix(".json").write_text(json.dumps(body))
    return path


@pytest.fixture
def foreign(image: Path) -> Path:
    """Make it an image for ppc64le."""
    image.write_bytes(FOREIGN)
    body = json.loads(image.with_suffix(".json").read_text())
    body["image"] = {"sha256": hashlib.sha256(FOREIGN).hexdigest(), "size": len(FOREIGN)}
    image.with_suffix(".json").write_text(json.dumps(body))
    return image
