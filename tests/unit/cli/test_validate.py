"""`validate`: which epoch and kind of node of a site an image is held against."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import validate
from dlcontainer.planning import built_for
from tests import values


def image_for(folder: Path, **content: Any) -> Path:
    """Write the record of an image that was built for such a site; without one: no record."""
    image = folder / "x.sif"
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "ab" * 32, "size": 1},
        "digest": "cd" * 32,
        "content": {**values.CONTENT, **content},
    }
    if content:
        image.with_suffix(".json").write_text(json.dumps(body))
    return image


@pytest.mark.parametrize(
    ("content", "given", "held_against"),
    [
        # as `publish` does: the image's own epoch and kind of node
        ({"site": "perlmutter", "node_type": "cpu"}, "perlmutter", "perlmutter:cpu"),
        ({"site": "summit", "epoch": "2021"}, "summit", "summit@2021"),
        # what is named is meant
        ({"site": "perlmutter", "node_type": "cpu"}, "perlmutter:gpu", "perlmutter:gpu"),
        # another site's, one that the site no longer has, and none: the usual one
        ({"site": "local", "node_type": "cpu"}, "perlmutter", "perlmutter:gpu"),
        ({"site": "perlmutter", "node_type": "gone"}, "perlmutter", "perlmutter:gpu"),
        ({}, "perlmutter", "perlmutter:gpu"),
    ],
)
def test_the_site_is_read_as_the_image_was_built_for_it(
    tmp_path: Path, content: dict[str, Any], given: str, held_against: str
) -> None:
    image = image_for(tmp_path, **content)
    site = validate._site(values._world(values.HOST), given, image)
    assert built_for.named(site) == held_against
