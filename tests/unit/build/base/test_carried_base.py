"""A base made elsewhere: taken only if it is the plan's, whole, and of somebody trusted."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build.base import carried_base, finished, root_tree
from dlcontainer.build.base.finished import BaseFinisher
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.errors import BuildError, ConfigError, DlcontainerError
from dlcontainer.packages.bundle import Bundle
from dlcontainer.planning.plan import Plan
from dlcontainer.system import digests, guarded_files
from dlcontainer.system.machine import HostMachine
from tests.fakes import Quiet, RecordingRunner
from tests.locks import lock
from tests.unit.build.base.making import Making
from tests.values import IMAGE_BASE, folder_of, plan_of, site_of


@pytest.fixture
def given(plan: Plan, tmp_path: Path) -> Path:
    """Give a base that somebody made."""
    source, target = tmp_path / "kept.sqfs", tmp_path / "a share" / "it's a base"
    source.write_bytes(b"a root tree")
    sha256 = digests.of_file(source)
    tree = BaseTree(path=source, sha256=sha256, made_at="2026-11-22T12:00:00Z", cached=True)
    carried_base.write(root_tree.root_tree(plan), tree, target)
    return target


def take(plan: Plan, file: Path, work: Path, bundle: Bundle | None = None) -> BaseTree:
    return carried_base.take(plan, file, work, bundle)


def edit(file: Path, **changes: object) -> None:
    path = carried_base.beside(file)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_written_and_taken(plan: Plan, given: Path, tmp_path: Path) -> None:
    tree = take(plan, given, tmp_path)
    assert tree.path.read_bytes() == b"a root tree"
    assert tree.path.is_relative_to(tmp_path)
    assert (tree.sha256, tree.made_at) == (digests.of_file(given), "2026-11-22T12:00:00Z")
    assert sorted(path.name for path in given.parent.iterdir()) == [
        "it's a base",
        "it's a base.json",
    ]


def test_what_a_killed_copy_left_goes(plan: Plan, given: Path, tmp_path: Path) -> None:
    left = given.with_name(f".{given.name}.0123abcd")
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    sha256 = digests.of_file(given)
    tree = BaseTree(path=tmp_path / "kept.sqfs", sha256=sha256, made_at="2026", cached=True)
    carried_base.write(root_tree.root_tree(plan), tree, given)
    assert not left.exists()
    assert given.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("key", "value"), [("distribution", "ubuntu"), ("release", "trixie"), ("arch", "ppc64le")]
)
def test_another_base(plan: Plan, given: Path, tmp_path: Path, key: str, value: str) -> None:
    edit(given, **{key: value})
    with pytest.raises(ConfigError, match="is not the base of this plan") as caught:
        take(plan, given, tmp_path)
    assert value in caught.value.what


def test_a_bundle_wants_the_base_of_its_lock(plan: Plan, given: Path, tmp_path: Path) -> None:
    bundle = Bundle(folder=tmp_path, lock=lock(plan))
    with pytest.raises(ConfigError, match="its lock is none"):
        take(plan, given, tmp_path, bundle)
    edit(given, locked="ab" * 32)
    with pytest.raises(ConfigError, match="its lock is abab"):
        take(plan, given, tmp_path, bundle)
    edit(given, locked=bundle.lock.base_key)
    assert take(plan, given, tmp_path, bundle).path.exists()


def test_a_damaged_base(plan: Plan, given: Path, tmp_path: Path) -> None:
    given.write_bytes(b"another tree")
    with pytest.raises(BuildError, match="does not match its record"):
        take(plan, given, tmp_path)


@pytest.mark.parametrize("spoil", ["no record", "cut", "other schema", "no file", "link"])
def test_what_is_no_base(plan: Plan, given: Path, tmp_path: Path, spoil: str) -> None:
    record = carried_base.beside(given)
    if spoil == "no record":
        record.unlink()
    elif spoil == "cut":
        record.write_text(record.read_text()[:40])
    elif spoil == "other schema":
        edit(given, schema="dlcontainer/base/9")
    else:
        given.rename(tmp_path / "elsewhere")
        if spoil == "link":
            given.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="`dlcontainer base make` did not write"):
        take(plan, given, tmp_path)


def test_others_may_write_in_it(plan: Plan, given: Path, tmp_path: Path) -> None:
    given.chmod(0o666)
    with pytest.raises(BuildError, match="is not trusted") as caught:
        take(plan, given, tmp_path)
    assert caught.value.why == "other users can write to it"


def test_somebody_else_made_it(
    plan: Plan, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 4242)
    monkeypatch.setattr(guarded_files, "name_of", lambda uid: "eve")
    owner = given.stat().st_uid
    if owner == 0:
        import os

        os.chown(given, 4243, 4243)
    with pytest.raises(BuildError, match="is not trusted") as caught:
        take(plan, given, tmp_path)
    assert caught.value.why == "it belongs to eve"
    assert "engine.builders" in str(caught.value.next_step)
    trusting = plan_of(folder_of(tmp_path / "r"), site=site_of(engine={"builders": ["eve"]}))
    assert take(trusting, given, tmp_path).path.exists()


def finisher(tools: HostMachine, runner: RecordingRunner, tmp_path: Path) -> BaseFinisher:
    return BaseFinisher(
        host=tools, runner=runner, cache=tmp_path / "cache", scratch=tmp_path, progress=Quiet()
    )


@pytest.fixture
def complete(tools: HostMachine) -> HostMachine:
    """Give a host that has all that makes a base."""
    for name in ("apt-get", "dpkg"):
        path = Path(tools.environ["PATH"]) / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tools


def plain(tmp_path: Path) -> Plan:
    quiet = {"apt": "default", "pip": "default", "ca": "default", "proxy": "none"}
    return plan_of(folder_of(tmp_path / "r"), site=site_of(routing=quiet))


def test_made_once_and_then_of_the_cache(complete: HostMachine, tmp_path: Path) -> None:
    runner, plan = Making(), plain(tmp_path)
    record = finished.make(plan, None, finisher(complete, runner, tmp_path), tmp_path / "one")
    ran = len(runner.argvs)
    again = finished.make(plan, None, finisher(complete, runner, tmp_path), tmp_path / "two")
    assert (len(runner.argvs), again) == (ran, record)
    assert take(plan, tmp_path / "two", tmp_path).sha256 == record.sha256


@pytest.mark.parametrize("case", ["image", "no programs"])
def test_what_can_t_be_made(tools: HostMachine, tmp_path: Path, case: str) -> None:
    plan = (
        plan_of(folder_of(tmp_path / "i", base=IMAGE_BASE)) if case == "image" else plain(tmp_path)
    )
    bare = replace(tools, environ={"PATH": "/no/such"})
    with pytest.raises(DlcontainerError) as caught:
        finished.make(plan, None, finisher(bare, RecordingRunner(), tmp_path), tmp_path / "one")
    assert "base pin" in str(caught.value.next_step)
    assert not (tmp_path / "one").exists()
