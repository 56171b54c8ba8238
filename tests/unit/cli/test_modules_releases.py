"""`dlcontainer modules` where a version has several releases."""

import time
from pathlib import Path

import pytest

from dlcontainer.publish.tree.numbers import Succession
from tests.trees import DAY, both, hand, image_file, put_release, seen
from tests.unit.cli.test_modules import Run, body, of_site, run

__all__ = ("run",)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Publish two releases, ten days ago: the first stays for eight."""
    root, images = tmp_path / "a root", tmp_path / "images"
    root.mkdir()
    by = hand(lambda: time.time() - 10 * DAY)
    put_release(root, image_file(images), by=by)
    put_release(root, image_file(images, b"another"), succession=Succession(days=8), by=by)
    return root


def test_list(run: Run, root: Path) -> None:
    newest, older = body(run("list", "--json"))["modules"]
    assert (newest["module"], newest["number"], newest["newest"]) == ("demo/1.0", 2, True)
    assert (older["module"], older["number"], older["newest"]) == ("demo/1.0-1", 1, False)
    head, *rows = run("list")[1].splitlines()
    assert head.split() == ["module", "release", "marks", "image", "checked", "checks"]
    assert [row.split()[:2] for row in rows] == [["demo/1.0", "2"], ["demo/1.0-1", "1"]]
    assert f"until {older['until']}" in rows[1]
    assert "releases/" not in "".join(rows)


def test_gc_takes_back_what_is_over(run: Run, root: Path) -> None:
    assert "would take back  demo/1.0-1" in run("gc", "--keep", "30", "--dry-run")[1]
    assert seen(root) == both("1.0", "1.0-1", "1.0-2")
    assert body(run("gc", "--keep", "30", "--json"))["expired"] == ["demo/1.0-1"]
    assert seen(root) == both("1.0", "1.0-2")
    assert body(run("gc", "--keep", "30", "--json"))["expired"] == []
    # Its files stay: the generation that had it was left just now.
    assert len(list((root / "releases").iterdir())) == 2


def test_unpublish_and_promote_one_release(run: Run, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    promoted = run("promote", "demo/1.0-1", "--from", root, root=other)
    assert promoted[0] == 0, promoted
    refused = run("promote", "demo/1.0", "--from", root, root=other)
    assert (refused[0], "--release" in refused[2]) == (6, True)
    assert run("promote", "demo/1.0", "--from", root, "--release", root=other)[0] == 0
    assert seen(other) == both("1.0", "1.0-1", "1.0-2")
    assert run("unpublish", "demo/1.0-2")[0] == 0
    assert seen(root) == both("1.0", "1.0-1")
    code, _, err = run("default", "demo/1.0-1")
    assert (code, "name the version: demo/1.0" in err) == (6, True)


def test_a_site_whose_jobs_outlast_a_pin(run: Run, root: Path, tmp_path: Path) -> None:
    site = of_site(tmp_path, keep_days=40, longest_job_days=30, release_days=29)
    code, _, err = run("gc", "--site", site)
    assert code == 3
    assert "release_days is 29, less than longest_job_days, 30" in err
