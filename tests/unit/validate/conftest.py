import hashlib
import json
from pathlib import Path

import pytest

from tests.unit.validate.inspecting import (
    DIGEST,
    FOREIGN,
    IMAGE,
)
from tests.values import CONTENT


@pytest.fixture
def image(tmp_path: Path) -> Path:
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
