"""One byte of every file that we keep, carry or publish: refused and named, or the same meaning."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.base import carried_base, root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import (
    BuildError,
    ChecksFailedError,
    ConfigError,
    DlcontainerError,
    PublishError,
)
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages import lockfile
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import Lock, SourcePin
from dlcontainer.planning.plan import Plan
from dlcontainer.publish import checksums
from dlcontainer.publish.tree import audit
from tests import publishing
from tests.locks import lock
from tests.trees import image_file
from tests.trees import put as put_release
from tests.unit.build.cache import test_step_cache as steps
from tests.values import folder_of, plan_of

# Of a lock: for people, and what says when and with what it was made. The image's record has the
# SHA-256 of all the rest.
FOR_PEOPLE = {"name", "recipe", "site", "variant", "python", "dlcontainer", "made", "host"}


def changed(path: Path, step: int = 1) -> Iterator[int]:
    """Change one bit of one byte after the other; the file is as it was in the end."""
    whole = path.read_bytes()
    mode = path.stat().st_mode & 0o777
    path.chmod(0o644)
    for at in range(0, len(whole), step):
        body = bytearray(whole)
        body[at] ^= 1 << at % 8
        path.write_bytes(body)
        path.chmod(mode)
        yield at
        path.chmod(0o644)
    path.write_bytes(whole)
    path.chmod(mode)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path))


@pytest.fixture
def bundle(plan: Plan, tmp_path: Path) -> Bundle:
    """Give a bundle with each kind of file, and a finished base."""
    folder = tmp_path / "bundle"
    sha256 = hashlib.sha256(b"source").hexdigest()
    held = lock(plan, sources=(SourcePin(name="up", sha256=sha256),))
    files = {f"debs/{pin.file}": b"deb" for pin in held.os_pins}
    files |= {f"wheels/{pin.file}": b"wheel" for pin in held.wheels} | {"sources/up": b"source"}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    lockfile.write(folder / "lock.json", held)
    source = tmp_path / "kept.sqfs"
    source.write_bytes(b"a root tree")
    made = BaseTree(
        path=source,
        sha256=hashlib.sha256(b"a root tree").hexdigest(),
        made_at="2026-11-22T12:00:00Z",
        cached=True,
    )
    opened = bundles.opened(folder)
    (folder / "base").mkdir()
    carried_base.write(root_tree.root_tree(plan, opened), made, folder / "base" / "base.sqfs")
    return opened


def test_every_byte_of_a_bundle(bundle: Bundle) -> None:
    files = [name for name, _ in bundles.named_files(bundle.lock)]
    assert {name.partition("/")[0] for name in files} == {"debs", "wheels", "sources"}
    for name in files:
        for _ in changed(bundle.folder / name):
            with pytest.raises(BuildError, match="does not match its lock") as caught:
                bundles.opened(bundle.folder)
            assert f"{name} has the checksum" in str(caught.value.why)
    assert bundles.opened(bundle.folder) == bundle


def test_every_byte_of_a_bundle_s_base(bundle: Bundle, plan: Plan, tmp_path: Path) -> None:
    """Its record may tell another time of making, or another version of ours: nothing else."""
    base = bundle.base
    assert base is not None
    sha256 = hashlib.sha256(base.read_bytes()).hexdigest()
    for path in (base, carried_base.beside(base)):
        for at in changed(path):
            work = tmp_path / "work"
            work.mkdir()
            try:
                tree = carried_base.take(plan, base, work, bundle)
            except DlcontainerError as error:
                refusal = str(error)
            else:
                refusal = ""
                assert tree.sha256 == sha256, at
                assert path != base, at
            shutil.rmtree(work)
            assert not refusal or base.name in refusal or "base" in refusal


def differing(one: Lock, other: Lock) -> set[str]:
    first, second = one.model_dump(mode="json"), other.model_dump(mode="json")
    return {key for key, value in first.items() if value != second[key]}


def test_every_byte_of_a_lock(bundle: Bundle, plan: Plan) -> None:
    """Taken is only what is for people: each pin names its file, and each file has its sum."""
    path = bundle.folder / "lock.json"
    taken: set[str] = set()
    for _ in changed(path):
        try:
            opened = bundles.opened(bundle.folder)
            opened.lock.require(plan, "lock.json")
        except (ConfigError, BuildError):
            continue
        differs = differing(opened.lock, bundle.lock)
        assert differs <= FOR_PEOPLE | {"steps", "base"}
        taken |= differs
        assert sums(opened.lock) == sums(bundle.lock)
    assert {"name", "recipe", "site", "python"} <= taken


def sums(held: Lock) -> list[tuple[str, str, str]]:
    """Give what is installed: name, file and checksum of each package."""
    debs = [(pin.name, pin.file, pin.sha256) for pin in held.os_pins]
    return debs + [(pin.name, pin.file, pin.sha256) for pin in held.wheels]


def kept(folder: Path) -> StepCache:
    cache = StepCache(folder=folder, builders=(), on_note=lambda _: None)
    steps.keep(cache, "ab12", b"a tree")
    return cache


@pytest.mark.parametrize("find", [steps.tree_of, steps.note_of])
def test_every_byte_of_a_kept_step(tmp_path: Path, find: Callable[[StepCache, str], Path]) -> None:
    size = find(kept(tmp_path / "first"), "ab12").stat().st_size
    refused = 0
    for at in range(0, size, 2):
        cache = kept(tmp_path / str(at))
        path = find(cache, "ab12")
        body = bytearray(path.read_bytes())
        body[at] ^= 1 << at % 8
        path.write_bytes(body)
        if cache.recall("ab12") is None:
            refused += 1
            continue
        try:
            assert steps.used(cache, "ab12", tmp_path) == b"a tree"
        except DamagedError:
            refused += 1
    # What a note says for people (its time, its packages' names) may be other.
    assert refused == 3 if find is steps.tree_of else refused > 60


def test_every_byte_of_an_image_and_its_record(tmp_path: Path) -> None:
    """The image: a sample, for its 33 kB are hashed as one. The record: each fifth."""
    image = publishing.image_of(tmp_path / "made")
    record = image.with_suffix(".json")
    whole = json.loads(record.read_bytes())
    for number, path in enumerate((image, record)):
        for at in changed(path, 4999 if number == 0 else 5):
            root = tmp_path / "root"
            root.mkdir()
            with contextlib.suppress(ChecksFailedError, PublishError):
                publishing.put(image, root)
                assert path == record, at
                said = json.loads(record.read_bytes())
                assert (said["content"], said["image"]) == (whole["content"], whole["image"]), at
            shutil.rmtree(root)


def release_of(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    put_release(root, image_file(tmp_path / "images"))
    return root


def named(root: Path, path: Path) -> bool:
    """Tell whether an audit names a file, or the release that it is a part of."""
    found = [fault.where for fault in audit.audit(root) if fault.where.startswith(str(root))]
    if path.name == checksums.FILE:  # the file whose sum it was is named
        return bool(found)
    return any(str(path) == where or str(path).startswith(f"{where}/") for where in found)


def audited(root: Path, step: int) -> None:
    unnamed = set()
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file() or not path.stat().st_size:
            continue
        for at in changed(path, step):
            try:
                seen = named(root, path)
            except DlcontainerError:
                seen = True  # it says which file it can't read
            if not seen:
                unnamed.add((path.name, at))
    # A journal's time, and who did what, are for people; so are generation.json's.
    # The mark says by being there that the folder is ours.
    assert {name for name, _ in unnamed} <= {"journal.jsonl", "generation.json", ".dlcontainer"}, (
        unnamed
    )


def test_bytes_of_every_published_file(tmp_path: Path) -> None:
    audited(release_of(tmp_path), 97)


@pytest.mark.long
def test_every_byte_of_every_published_file(tmp_path: Path) -> None:
    """Road: test_bytes_of_every_published_file."""
    audited(release_of(tmp_path), 1)
