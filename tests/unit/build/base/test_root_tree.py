"""The base: the cache and what it refuses, no device nodes, another architecture."""

import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build.base import bootstrap, root_tree
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from tests.fakes import RecordingRunner
from tests.unit.build.base.making import Making, make, maker, routed
from tests.values import folder_of, plan_of, site_of


def test_a_new_base_and_then_the_kept_one(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    runner = Making()
    made = make(plan, tools, runner, tmp_path)
    assert made.path == tmp_path / "the cache/bases/debian-bookworm-amd64/base.sqfs"
    assert (made.sha256, made.cached) == (hashlib.sha256(made.path.read_bytes()).hexdigest(), False)
    assert list((tmp_path / "work").iterdir()) == []
    # Device nodes can't be made in a user namespace; the folder stays.
    assert sorted(runner.members) == ["./etc", "./etc/os-release", "dev"]
    kept = make(plan, tools, RecordingRunner(strict=True), tmp_path)
    assert (kept.cached, kept.path, kept.sha256, kept.made_at) == (
        True,
        made.path,
        made.sha256,
        made.made_at,
    )


def test_a_refresh_takes_none_of_before_it(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    make(plan, tools, Making(), tmp_path)
    cache, work = tmp_path / "the cache", tmp_path / "work"
    now = time.time() + 5
    assert root_tree.recall(plan, cache, since=now) is None
    runner = Making()
    who = replace(maker(tools, runner, tmp_path), since=now)
    again = root_tree.prepare(plan, routed(work), who, work, tmp_path / "log")
    assert again.cached is False
    # One that another build made since, while this one waited, is new enough.
    who = replace(who, since=again.path.stat().st_mtime - 5)
    kept = root_tree.prepare(plan, routed(work), who, work, tmp_path / "log")
    assert kept.cached is True


def test_the_squash_command(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    runner = Making()
    make(plan, tools, runner, tmp_path)
    work = tmp_path / "work"
    assert runner.argvs[2] == (
        *("/bin/sh", "-c", 'program=$1 tar=$2; shift 2; exec "$program" - "$@" < "$tar"', "sh"),
        *(f"{tmp_path}/it's bin/mksquashfs", f"{work}/clean.tar", f"{work}/base.sqfs"),
        *("-tar", "-comp", "lz4", "-noappend", "-quiet", "-no-progress"),
        *("-root-mode", "0755", "-all-root"),
    )


def spoil(folder: Path, how: str) -> None:
    base, note = folder / "base.sqfs", folder / "base.json"
    record = json.loads(note.read_text())
    if how == "one byte":
        data = bytearray(base.read_bytes())
        data[3] ^= 1
        base.write_bytes(data)
    elif how == "too old":
        then = time.time() - root_tree.MAX_AGE_S - 1
        os.utime(base, (then, then))
    elif how == "of the future":
        os.utime(base, (time.time() + 3600,) * 2)
    elif how == "another maker":
        note.write_text(json.dumps({**record, "maker": record["maker"] - 1}))
    elif how == "no note":
        note.unlink()
    elif how in ("a link", "a linked note"):
        path = note if "note" in how else folder / "base.sqfs"
        (folder.parent / "moved").unlink(missing_ok=True)
        path.rename(folder.parent / "moved")
        path.symlink_to(folder.parent / "moved")
    elif how == "a FIFO":
        note.unlink()
        os.mkfifo(note)
    elif how == "open to others":
        (folder / "base.sqfs").chmod(0o666)
    elif how == "a huge note":
        note.write_text(json.dumps({**record, "more": " " * (2 << 20)}))
    else:
        note.write_text(how)


@pytest.mark.parametrize(
    "how",
    [
        *("one byte", "too old", "of the future", "another maker", "no note"),
        *("a link", "a linked note", "a FIFO", "open to others", "a huge note"),
        *("", "[]", "null", "{}", '{"maker": 2, "sha256": 1}'),
    ],
)
def test_a_kept_base_that_is_not_taken(
    plan: Plan, tools: HostMachine, tmp_path: Path, how: str
) -> None:
    first = make(plan, tools, Making(), tmp_path)
    spoil(first.path.parent, how)
    (first.path.parent / ".base.sqfs.1").write_text("of a killed maker")
    runner = Making()
    second = make(plan, tools, runner, tmp_path)
    assert (second.cached, len(runner.calls)) == (False, 3)
    assert {path.name for path in second.path.parent.iterdir()} == {
        "base.json",
        "base.sqfs",
        "lock",
    }
    assert make(plan, tools, RecordingRunner(strict=True), tmp_path).cached


def test_another_architecture_and_its_companion(tools: HostMachine, tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path), site=site_of(arch="ppc64le"))
    foreign, companion = root_tree.root_tree(plan), root_tree.companion_tree(plan, tools)
    assert foreign.name == "debian-bookworm-ppc64el"
    assert companion.name == "debian-bookworm-amd64-openssl-python3-minimal"
    argv = bootstrap.mmdebstrap_argv(foreign, routed(tmp_path), tools, Path("/t.tar"))
    assert argv[3:5] == ["--architectures=ppc64el", "--skip=check/qemu"]
    argv = bootstrap.mmdebstrap_argv(companion, routed(tmp_path), tools, Path("/t.tar"))
    assert argv[3:5] == ["--architectures=amd64", "--include=openssl,python3-minimal"]
    runner = Making()
    assert make(plan, tools, runner, tmp_path).path.parent.name == foreign.name
    assert [(call.env or {}).get("QEMU_CPU") for call in runner.calls] == [None, "power9", None]
    made = root_tree.prepare_companion(
        plan, routed(tmp_path), maker(tools, Making(), tmp_path), tmp_path / "work", tmp_path / "l"
    )
    assert made.path.parent.name == companion.name
