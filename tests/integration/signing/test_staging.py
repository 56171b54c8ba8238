"""A job's copy of a published image: it runs only if a key of the site holds for it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.signing.tools import typed
from tests.jobs import RECORD, Machine, Ran, images, plan_at
from tests.signers import Pair

Capture = pytest.CaptureFixture[str]
REFUSED = "no key of this site holds for"


class Site:
    """A site that demands signed images: its tree, and a node whose engine verifies for real."""

    def __init__(self, folder: Path, engine: Path, keys: list[Path]) -> None:
        self.root, node_local = folder / "it's root", folder / "node local"
        self.root.mkdir()
        node_local.mkdir()
        self.machine = Machine.made(folder / "a machine")
        noted = folder / "noted"
        noted.mkdir()
        (noted / "apptainer").symlink_to(RECORD)
        program = self.machine.folder / "bin/apptainer"
        program.unlink()
        program.write_text(
            f'#!/bin/sh\n[ "$1" != verify ] || exec {engine} "$@"\nexec {noted}/apptainer "$@"\n'
        )
        program.chmod(0o755)
        self.plan = plan_at(
            folder,
            modules={"root": str(self.root)},
            trust={"keys": [str(key) for key in keys], "require_signed": True},
            jobs={"staging": {"how": "copy", "to": str(node_local)}},
        )

    def job(self, image: Path, **environ: str) -> Ran:
        return self.machine.job(self.plan, DLCONTAINER_IMAGE=str(image), **environ)

    def published(self, image: Path) -> Path:
        return Path(shutil.copy(image, self.root))


@pytest.fixture
def site(tmp_path: Path, signer: Pair, stranger: Pair, engine: Any) -> Site:
    return Site(tmp_path, engine.program, [stranger.public, signer.public])


def test_a_copy_of_a_signed_image_runs(
    site: Site, image: Path, signer: Pair, capsys: Capture
) -> None:
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    ran = site.job(site.published(image))
    assert ran.code == 0, ran.err
    [copy] = images(ran)
    assert "/node local/dlcontainer-" in copy


def test_what_was_put_into_the_tree_by_hand_does_not(site: Site, image: Path) -> None:
    ran = site.job(site.published(image))
    assert ran.code == 3
    assert f"job: {REFUSED}" in ran.err
    assert "next: tell the staff who publish: dlcontainer modules audit" in ran.err
    assert images(ran) == []
    assert list((site.root.parent / "node local").iterdir()) == []


def test_what_was_changed_after_it_was_signed_does_not(
    site: Site, image: Path, signer: Pair, capsys: Capture
) -> None:
    assert typed(capsys, "evidence", "sign", image, "--key", signer.private).code == 0
    changed = site.published(image)
    data = bytearray(changed.read_bytes())
    data[data.index(b"hsqs") + 100] ^= 1
    changed.write_bytes(data)
    ran = site.job(changed)
    assert (ran.code, images(ran)) == (3, [])
    assert "integrity compromised" in ran.err


def test_ones_own_image_is_nobody_else_s_to_sign(site: Site, image: Path) -> None:
    ran = site.job(image)
    assert ran.code == 0, ran.err
    [copy] = images(ran)
    assert "/node local/dlcontainer-" in copy


def test_a_link_to_the_tree_is_the_tree(site: Site, image: Path, tmp_path: Path) -> None:
    link = tmp_path / "mine.sif"
    link.symlink_to(site.published(image))
    assert REFUSED in site.job(link).err
