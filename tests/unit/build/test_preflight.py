"""Before a build: where it goes and whether it can end well there."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import preflight
from dlcontainer.errors import BuildError
from dlcontainer.planning.plan import Plan
from dlcontainer.system import machine
from dlcontainer.system.machine import MountPoint
from tests.hostile import open_place
from tests.values import HOST, IMAGE_BASE, folder_of, host, plan_of, site_of

MEMORY = Path("/dev/shm")


@dataclass
class Notes:
    """A Progress that keeps the notes."""

    notes: list[str] = field(default_factory=list)

    def expect(self, count: int) -> None: ...

    def step(self, title: str) -> None: ...

    def phase(self, title: str) -> None: ...

    def line(self, text: str) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path, space_mb=1000))


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give this machine's answers, to be changed: roomy memory, much space."""
    facts: dict[str, Any] = {
        "free": 100_000,
        "available": 100_000,
        "limit": None,
        "kind": "tmpfs",
        "options": frozenset({"rw"}),
    }
    monkeypatch.setattr(machine, "free_mb", lambda path: facts["free"])
    monkeypatch.setattr(machine, "available_memory_mb", lambda: facts["available"])
    monkeypatch.setattr(machine, "cgroup_memory_mb", lambda: facts["limit"])
    monkeypatch.setattr(
        machine,
        "mount_of",
        lambda path: MountPoint(point=Path("/m"), kind=facts["kind"], options=facts["options"]),
    )
    return facts


def test_another_architecture(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path), site=site_of(arch="ppc64le"))
    with pytest.raises(BuildError, match="site demo is ppc64le, and this host cannot run"):
        preflight.check_architecture(plan, HOST, tmp_path)
    preflight.check_architecture(plan, host(arch="ppc64le"), tmp_path)
    folder = tmp_path / "proc/sys/fs/binfmt_misc"
    folder.mkdir(parents=True)
    (folder / "status").write_text("enabled\n")
    (folder / "qemu-ppc64le").write_text("enabled\nflags: PF\n")
    preflight.check_architecture(plan, HOST, tmp_path)


def test_a_host_that_can_t_make_the_base(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path / "r"))
    bare = host(environ={"PATH": str(tmp_path)})
    with pytest.raises(BuildError, match="no mmdebstrap, apt-get, dpkg on PATH") as caught:
        preflight.check_base(plan, bare)
    steps = str(caught.value.next_step)
    for way in (
        "base pin demo --site demo",
        "fetch demo --site demo",
        "base make demo --site demo",
    ):
        assert f"dlcontainer {way}" in steps
    assert "apt-get install" not in steps
    for name in ("apt-get", "dpkg"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(BuildError) as caught:
        preflight.check_base(plan, bare)
    assert "apt-get install mmdebstrap" in str(caught.value.next_step)
    # An image needs none of them.
    preflight.check_base(plan_of(folder_of(tmp_path / "i", base=IMAGE_BASE)), bare)


def test_variables_that_a_sif_of_a_docker_image_would_change(tmp_path: Path) -> None:
    preflight.check_conversion(plan_of(folder_of(tmp_path / "a", environment={"A": "a b'c"})))
    for value in ("`x`", "a$$b", 'a"b', "a\\b"):
        plan = plan_of(folder_of(tmp_path / str(ord(value[1])), environment={"B": value}))
        with pytest.raises(BuildError, match=r"environment\.B would change its value"):
            preflight.check_conversion(plan)


def test_the_order_of_choices(tmp_path: Path, roomy: dict[str, Any]) -> None:
    there, asked = tmp_path / "it's the site's", Path("/asked/for")
    there.mkdir()
    plan = plan_of(folder_of(tmp_path), site=site_of(engine={"tmpdir": str(there)}))
    with_tmpdir = host(environ={"TMPDIR": "/from the environment"})
    assert preflight.choose_tmpdir(plan, with_tmpdir, asked) == asked
    assert preflight.choose_tmpdir(plan, with_tmpdir, None) == there
    there.rmdir()
    chosen = preflight.choose_tmpdir(plan, with_tmpdir, None)
    assert chosen == Path("/from the environment")
    assert preflight.choose_tmpdir(plan, HOST, None) == MEMORY


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("free", 1999),
        ("available", 1999),
        ("limit", 3999),
        ("kind", "ext4"),
        ("options", frozenset({"rw", "noexec"})),
    ],
)
def test_memory_that_is_not_roomy(
    plan: Plan, roomy: dict[str, Any], fact: str, value: object
) -> None:
    roomy[fact] = value
    assert preflight.choose_tmpdir(plan, HOST, None) == Path("/tmp")


def test_memory_that_is_just_roomy_enough(plan: Plan, roomy: dict[str, Any]) -> None:
    roomy |= {"free": 2000, "available": 2000, "limit": 4000}
    assert preflight.choose_tmpdir(plan, host(memory_mb=4000), None) == MEMORY
    assert preflight.choose_tmpdir(plan, host(memory_mb=3999), None) == Path("/tmp")


def test_enough_space(plan: Plan, tmp_path: Path, roomy: dict[str, Any]) -> None:
    said = Notes()
    preflight.check_space(plan, tmp_path, tmp_path, said)
    assert said.notes == []


def test_a_network_file_system_is_noted(plan: Plan, tmp_path: Path, roomy: dict[str, Any]) -> None:
    said = Notes()
    roomy["kind"] = "nfs4"
    preflight.check_space(plan, tmp_path, tmp_path, said)
    assert [note.split(";")[0] for note in said.notes] == [
        f"{tmp_path} is on nfs4, which is slow and may not support the user IDs that a build needs"
    ]


@pytest.mark.parametrize("above", [False, True])
def test_a_folder_that_others_may_exchange_is_noted(
    plan: Plan, tmp_path: Path, roomy: dict[str, Any], *, above: bool
) -> None:
    with open_place() as place:
        scratch = place / "of a group" / "scratch"
        scratch.mkdir(parents=True)
        open_to_all = scratch.parent if above else scratch
        said = Notes()
        open_to_all.chmod(0o777)
        preflight.check_space(plan, tmp_path, scratch, said)
        assert [note.split(" or in a folder")[0] for note in said.notes] == [
            f"other users can rename files in {scratch}"
        ]
        open_to_all.chmod(0o1777)  # as /tmp is
        preflight.check_space(plan, tmp_path, scratch, said)
        assert len(said.notes) == 1


def test_programs_may_not_run(plan: Plan, tmp_path: Path, roomy: dict[str, Any]) -> None:
    roomy["options"] = frozenset({"rw", "noexec"})
    with pytest.raises(BuildError, match=r"is mounted noexec \(/m, tmpfs\)") as caught:
        preflight.check_space(plan, tmp_path, tmp_path, Notes())
    assert caught.value.next_step == "name another folder: --tmpdir"


def test_no_folder(plan: Plan, tmp_path: Path, roomy: dict[str, Any]) -> None:
    with pytest.raises(BuildError, match=r"no folder .*it's not"):
        preflight.check_space(plan, tmp_path, tmp_path / "it's not", Notes())


@pytest.mark.parametrize(("short", "wanted", "option"), [("a", 1000, "--tmpdir"), ("b", 500, "-o")])
def test_too_little_space(
    plan: Plan,
    tmp_path: Path,
    roomy: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    short: str,
    wanted: int,
    option: str,
) -> None:
    scratch, output = tmp_path / "a", tmp_path / "b"
    scratch.mkdir()
    monkeypatch.setattr(
        machine, "free_mb", lambda path: wanted - 1 if path.name == short else 100_000
    )
    with pytest.raises(BuildError) as caught:
        preflight.check_space(plan, output, scratch, Notes())
    message = f"{tmp_path / short} has {wanted - 1} MB free; the build needs about {wanted} MB"
    assert caught.value.what == message
    assert caught.value.next_step == f"free space, or name another folder with {option}"


def test_making_the_folder(tmp_path: Path) -> None:
    target = tmp_path / "it's" / "new"
    preflight.make_folder(target)
    preflight.make_folder(target)
    assert target.is_dir()
    (target / "file").write_text("")
    with pytest.raises(BuildError, match=r"can't make .*: Not a directory"):
        preflight.make_folder(target / "file" / "below")
    with pytest.raises(BuildError, match=r"can't make .*: File exists"):
        preflight.make_folder(target / "file")
