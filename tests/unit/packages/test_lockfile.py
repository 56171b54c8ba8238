"""The lock file: it reads back as written, a package a line, and refuses what is not whole."""

import json
import os
from pathlib import Path

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.lock_diff import LockChange, compare
from dlcontainer.packages.lockfile import LockedBase, LockedStep, SourcePin
from tests.locks import deb, lock, wheel
from tests.values import IMAGE_BASE, folder_of, plan_of, site_of


def test_it_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a new folder" / "a lock.json"
    locks.write(path, lock())
    assert locks.read(path) == lock()
    assert [left.name for left in path.parent.iterdir()] == ["a lock.json"]


def test_a_package_is_a_line() -> None:
    before = locks.as_text(lock()).splitlines()
    after = locks.as_text(
        lock(base=LockedBase(distribution="debian", release="bookworm", packages=(deb("gawk"),)))
    ).splitlines()
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_the_name_of_a_package_file_is_as_apt_writes_it() -> None:
    name = "libcap2_1%3a2.66-4+deb12u3~b1_amd64.deb"
    assert deb("libcap2", "1:2.66-4+deb12u3~b1").file == name


def spoilt(old: str, new: str) -> str:
    text = locks.as_text(lock())
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (locks.as_text(lock())[:700], "incomplete or damaged lock file"),
        ("", "incomplete or damaged lock file"),
        ("[]", "format version None"),
        (spoilt("dlcontainer/lock/1", "dlcontainer/lock/9"), "version 'dlcontainer/lock/9'"),
        (spoilt("tool-2.0-py3-none-any.whl", "../../evil.whl"), "python_packages.0.file"),
        (spoilt('"name": "mawk"', '"name": "../mawk"'), "base.packages.0.name"),
        (spoilt(deb().sha256, "ab"), "sha256"),
        (spoilt('"name": "mawk"', '"name": "mawk", "more": 1'), "base.packages.0.more"),
        (spoilt('"name": "mawk"', '"name": "libc6-"'), "remove this package"),
        (spoilt('"name": "mawk"', '"name": "python3+"'), "install this package"),
        (spoilt('"name": "python3"', '"name": "python3-"'), "remove this package"),
        (spoilt("x86_64", "sparc"), "arch"),
    ],
)
def test_what_is_no_lock(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        locks.parse(text, "x.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.json:")
    assert "dlcontainer lock" in str(caught.value.next_step)


def test_two_checksums_for_one_file() -> None:
    twice = LockedStep(name="again", os_packages=(deb(data=b"other"),))
    text = locks.as_text(lock(steps=(LockedStep(name="a", os_packages=(deb(),)),)))
    assert locks.parse(text, "x").steps[0].os_packages == (deb(),)
    with pytest.raises(ValueError, match=r"two checksums for mawk_1\.3_amd64\.deb"):
        lock(steps=(twice,))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't read"):
        locks.read(tmp_path / "none.json")


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't write"):
        locks.write(tmp_path / "file" / "lock.json", lock())


def test_a_lock_that_another_wrote_meanwhile_stays(tmp_path: Path) -> None:
    path, before = tmp_path / "a.lock.json", lock()
    newer, other = (
        before.model_copy(update={"base": LockedBase(packages=(deb("bash", version),))})
        for version in ("6", "7")
    )
    locks.write(path, before)
    locks.rewrite(path, other, before)
    with pytest.raises(ConfigError, match="another command wrote the lock") as caught:
        locks.rewrite(path, newer, before)
    assert str(caught.value.where) == str(path)
    assert locks.read(path) == other


def test_of_another_plan_or_architecture(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    plan = plan_of(folder)
    lock(plan).require(plan, "x")
    other = plan_of(folder_of(tmp_path / "other", version="1.1"))
    with pytest.raises(ConfigError, match=r"x belongs to another plan than demo-1\.1-demo"):
        lock(plan).require(other, "x")
    power = plan_of(folder, site=site_of(arch="ppc64le"))
    with pytest.raises(ConfigError, match="x is for x86_64, but site demo is ppc64le"):
        lock(plan).require(power, "x")


def test_of_another_image_than_the_plan_has(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path, base=IMAGE_BASE))
    lock(plan, base=LockedBase(image=IMAGE_BASE["image"])).require(plan, "x")
    for base in (LockedBase(image="docker://evil@sha256:00"), lock().base):
        with pytest.raises(ConfigError, match="x was changed: its base is") as caught:
            lock(plan, base=base).require(plan, "x")
        assert IMAGE_BASE["image"] in str(caught.value.why)


def test_digests_know_packages_and_nothing_of_when() -> None:
    later = lock(made="2027-01-01T00:00:00Z", dlcontainer="9.9")
    assert (later.digest, later.step_keys()) == (lock().digest, lock().step_keys())
    moved = lock(steps=(lock().steps[0], LockedStep(name="wheels", python_packages=(wheel("b"),))))
    assert moved.digest != lock().digest
    assert moved.base_key == lock().base_key
    assert moved.step_keys()["system"] == lock().step_keys()["system"]
    assert moved.step_keys()["wheels"] != lock().step_keys()["wheels"]
    assert lock(arch="ppc64le").base_key != lock().base_key
    assert lock(steps=(LockedStep(name="nothing"),)).step_keys() == {}


def test_what_differs() -> None:
    assert compare(lock(), lock(made="2027-01-01T00:00:00Z")) == []
    more = lock(sources=(SourcePin(name="archive", sha256="ab" * 32),))
    assert compare(lock(), more) == [
        LockChange(part="sources", name="archive", old=None, new="ab" * 6)
    ]
    new = lock(
        plan="cd" * 32,
        base=LockedBase(distribution="debian", release="bookworm", packages=(deb(data=b"x"),)),
        steps=(
            LockedStep(name="system", os_packages=(deb("python3", "1:3.12"), deb("zlib", "1"))),
            LockedStep(name="more", python_packages=(wheel("b"),)),
        ),
    )
    old_sum, new_sum = deb().sha256[:12], deb(data=b"x").sha256[:12]
    assert compare(lock(), new) == [
        LockChange(part="lock", name="plan", old="ab" * 6, new="cd" * 6),
        LockChange(
            part="base",
            name="mawk",
            old=f"1.3 (sha256 {old_sum}…)",
            new=f"1.3 (sha256 {new_sum}…)",
        ),
        LockChange(part="step system", name="python3", old="1:3.11~rc1+b1", new="1:3.12"),
        LockChange(part="step system", name="zlib", old=None, new="1"),
        LockChange(part="step more", name="b", old=None, new="2.0"),
        LockChange(part="step wheels", name="tool", old="2.0", new=None),
    ]


def test_the_text_is_json_without_what_is_empty() -> None:
    body = json.loads(locks.as_text(lock()))
    assert body["schema"] == "dlcontainer/lock/1"
    assert "variant" not in body
    assert body["steps"][1]["python_packages"][0]["file"] == "tool-2.0-py3-none-any.whl"


@pytest.mark.timeout(60)
def test_what_is_no_lock_file(tmp_path: Path) -> None:
    """Nothing that stands there hangs, fills the memory or ends in a traceback."""
    pipe, large, deep = (tmp_path / name for name in ("pipe", "large", "deep"))
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(locks.MOST_BYTES + 1)
    deep.write_text("[" * 100_000)
    (tmp_path / "latin").write_bytes(b"\xff")
    for path, says in (
        (pipe, "it is not a regular file"),
        (large, "it has 64 MB; the limit is 64 MB"),
        (deep, "nested too deeply"),
        (tmp_path / "latin", "it is not UTF-8"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(ConfigError, match=says):
            locks.read(path)


def test_the_line_of_what_is_refused_is_named() -> None:
    text = spoilt('"name": "python3"', '"name": "python3-"')
    number = next(n for n, line in enumerate(text.splitlines(), 1) if '"python3-"' in line)
    with pytest.raises(ConfigError) as caught:
        locks.parse(text, "x.json")
    assert caught.value.where == f"x.json:{number}"


def test_a_name_may_end_in_plus_where_its_version_stands_beside_it() -> None:
    text = spoilt('"name": "python3"', '"name": "ncbi-blast+"')
    assert locks.parse(text, "x.json").os_pins[1].name == "ncbi-blast+"
