"""A bundle: checked file by file, its lists its own, and a routing that leads nowhere else."""

import hashlib
import json
import shutil
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from dlcontainer.build import build_steps
from dlcontainer.build.base import bootstrap, root_tree
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.formats import build_context
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages import carried_image, locked_base, routing
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import Lock, LockedBase, SourcePin
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.registry import oci_layout
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system.process import CommandFailedError
from tests import fakeregistry
from tests.fakes import RecordingRunner, completed
from tests.layers import packed, put
from tests.locks import deb, lock, wheel
from tests.values import folder_of, host, plan_of, site_of

URL = "https://example.org/whl"
STEPS = [
    {"name": "system", "os_packages": ["python3"]},
    {"name": "wheels", "python_packages": {"packages": ["tool==2.0"], "upstream": "up"}},
]
RECIPE = {"steps": STEPS, "upstreams": {"up": {"url": URL, "source": "a page"}}}
PLAIN = {"apt": "default", "pip": "default", "ca": "default", "proxy": "none"}
CONTROL = "Package: {name}\nVersion: {version}\nArchitecture: amd64\nEssential: yes\n"


def write_bundle(folder: Path, held: Lock) -> Bundle:
    for place in ("debs", "wheels"):
        (folder / place).mkdir(parents=True)
    for pin in held.os_pins:
        (folder / "debs" / pin.file).write_bytes(b"deb")
    for one in held.wheels:
        (folder / "wheels" / one.file).write_bytes(b"wheel")
    locks.write(folder / "lock.json", held)
    return Bundle(folder=folder, lock=held)


def controls(held: Lock) -> RecordingRunner:
    text = "".join(
        CONTROL.format(name=pin.name, version=pin.version) + "\n" for pin in held.os_pins
    )
    return RecordingRunner(answers=[completed("sh", stdout=text)], strict=True)


def test_a_whole_one(tmp_path: Path) -> None:
    held = write_bundle(tmp_path / "a b", lock())
    assert bundles.opened(held.folder) == held


def test_one_whose_fetch_was_cut_off(tmp_path: Path) -> None:
    held = write_bundle(tmp_path / "b", lock())
    (held.folder / "lock.json").unlink()
    with pytest.raises(ConfigError, match="is an incomplete bundle"):
        bundles.opened(held.folder)


def test_wrong_and_missing_files_are_named(tmp_path: Path) -> None:
    held = write_bundle(tmp_path / "b", lock())
    (held.folder / "debs" / deb().file).write_bytes(b"dex")
    (held.folder / "wheels" / wheel().file).unlink()
    with pytest.raises(BuildError) as caught:
        bundles.opened(held.folder)
    why = str(caught.value.why)
    sha256 = hashlib.sha256(b"dex").hexdigest()
    assert f"debs/mawk_1.3_amd64.deb has the checksum {sha256[:12]}…" in why
    assert "wheels/tool-2.0-py3-none-any.whl is missing" in why


@pytest.fixture
def carried(tmp_path: Path) -> Bundle:
    """Give a bundle with an image of one layer, by an index."""
    with fakeregistry.serving() as fake:
        reference = put(fake, [packed({"a": b"b"})], in_index=True)
        base = LockedBase(image=str(reference), distribution="debian", release="bookworm")
        held = write_bundle(tmp_path / "b", lock(base=base, steps=()))
        carried_image.fetch(str(reference), "x86_64", RegistryAccess(), held.folder / "base")
    return bundles.opened(held.folder)


def blobs(bundle: Bundle) -> list[Path]:
    return sorted((bundle.folder / "base/blobs/sha256").iterdir())


@pytest.mark.parametrize("number", range(4))
def test_one_byte_of_a_carried_image(carried: Bundle, number: int) -> None:
    blob = blobs(carried)[number]
    body = bytearray(blob.read_bytes())
    body[len(body) // 2] ^= 1
    blob.write_bytes(body)
    with pytest.raises(BuildError, match="does not match its lock") as caught:
        bundles.opened(carried.folder)
    assert f"base/blobs/sha256/{blob.name} has a wrong checksum: " in str(caught.value.why)
    blob.unlink()
    with pytest.raises(BuildError) as caught:
        bundles.opened(carried.folder)
    assert f"base/blobs/sha256/{blob.name} is missing" in str(caught.value.why)


def test_what_the_folder_says_of_its_image_counts_for_nothing(
    carried: Bundle, tmp_path: Path
) -> None:
    index = carried.folder / "base/index.json"
    index.write_text(index.read_text().replace("sha256:", "sha256:0"))
    opened = bundles.opened(carried.folder)
    assert opened.image == carried.image
    assert opened.image is not None
    oci_layout.lay(opened.image, tmp_path / "own")
    (entry,) = json.loads((tmp_path / "own/index.json").read_text())["manifests"]
    assert entry["digest"] == opened.image.manifest
    manifest = tmp_path / "own/blobs/sha256" / opened.image.manifest.removeprefix("sha256:")
    assert manifest.stat().st_size == entry["size"]


def test_a_bundle_without_its_image_and_half_of_one(carried: Bundle) -> None:
    shutil.rmtree(carried.folder / "base/blobs")
    with pytest.raises(BuildError, match="does not match its lock"):
        bundles.opened(carried.folder)
    shutil.rmtree(carried.folder / "base")
    assert bundles.opened(carried.folder).image is None


@pytest.mark.parametrize("image", ["debian:12", "docker://debian:12"])
def test_a_lock_whose_image_was_changed(carried: Bundle, image: str) -> None:
    base = carried.lock.base.model_copy(update={"image": image})
    locks.write(carried.folder / "lock.json", carried.lock.model_copy(update={"base": base}))
    with pytest.raises(ConfigError, match="the base of the lock is not a pinned image"):
        bundles.opened(carried.folder)


def test_an_image_that_has_all_that_is_needed_sees_no_mirror(
    carried: Bundle, tmp_path: Path
) -> None:
    folder = tmp_path / "routing"
    folder.mkdir()
    binds, lines = bundles.route(carried, folder, RecordingRunner(strict=True))
    assert binds == []
    assert "export APT_CONFIG=/mnt/apt.conf" in lines
    assert (folder / "sources.list").read_text() == "deb [trusted=yes] file:/mnt ./\n"
    assert (folder / "Packages").read_text() == ""


def test_the_lists_are_made_of_the_packages(tmp_path: Path) -> None:
    held = lock()
    bundles.write_lists(held, held.os_pins, tmp_path / "debs", tmp_path, controls(held))
    packages = (tmp_path / "Packages").read_text()
    assert packages.startswith("Package: mawk\nVersion: 1.3\n")
    assert "Filename: debs/python3_1%3a3.11~rc1+b1_amd64.deb\n" in packages
    assert packages.count(f"Size: 3\nSHA256: {deb().sha256}\n") == 2
    release = (tmp_path / "Release").read_text()
    digest = hashlib.sha256(packages.encode()).hexdigest()
    assert f" {digest} {len(packages)} Packages\n" in release
    assert "Codename: bookworm\n" in release


def test_a_package_that_is_none(tmp_path: Path) -> None:
    error = CommandFailedError(completed("sh", code=2, stderr="dpkg-deb: error: not a Debian …"))
    with pytest.raises(BuildError, match="cannot read"):
        bundles.write_lists(
            lock(), lock().os_pins, tmp_path, tmp_path, RecordingRunner(answers=[error])
        )


def test_the_routing_leads_nowhere_else(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path / "r", **RECIPE), site=site_of(routing=PLAIN))
    held = write_bundle(tmp_path / "b", lock(plan))
    folder = tmp_path / "routing"
    folder.mkdir()
    routed = routing.prepare(plan, host(), controls(held.lock), folder, held)
    assert (folder / "routing.sh").read_text().splitlines() == [
        "export PIP_REPORT=/mnt/pip-report.json",
        "export PIP_CONFIG_FILE=/mnt/pip.conf",
        "export APT_CONFIG=/mnt/apt.conf",
        "export DLC_UPSTREAM_UP=''",
    ]
    assert "no-index = true\n" in (folder / "pip.conf").read_text()
    assert (folder / "sources.list").read_text() == "deb [trusted=yes] file:/mnt ./\n"
    assert routed.binds == (
        (folder, "/mnt"),
        (held.folder / "debs", "/mnt/debs"),
        (held.folder / "wheels", "/mnt/wheels"),
    )
    assert all((folder / name).is_dir() for name in ("debs", "wheels"))
    assert routed.credentials == ()
    assert routed.bundle == held


def test_archives_are_carried_and_snippets_keep_their_upstreams(tmp_path: Path) -> None:
    upstreams = {
        "archive": {"url": f"{URL}/a.tar.gz", "source": "a page", "sha256": "ab" * 32},
        "site": {"url": URL, "source": "a page"},
    }
    site = site_of(routing={**PLAIN, "upstreams": {URL: "https://mirror.example"}})
    plan = plan_of(folder_of(tmp_path / "r", upstreams=upstreams), site=site)
    pin = SourcePin(name="archive", sha256=deb().sha256)
    held = lock(plan, base=LockedBase(distribution="debian", release="bookworm"), steps=())
    held = held.model_copy(update={"sources": (pin,)})
    bundle = write_bundle(tmp_path / "b", held)
    (bundle.folder / "sources").mkdir()
    with pytest.raises(BuildError, match="does not match its lock"):
        bundles.opened(bundle.folder)
    (bundle.folder / "sources" / "archive").write_bytes(b"deb")
    assert bundles.opened(bundle.folder) == bundle
    folder = tmp_path / "routing"
    folder.mkdir()
    routed = routing.prepare(plan, host(), RecordingRunner(strict=True), folder, bundle)
    lines = (folder / "routing.sh").read_text().splitlines()
    assert "export DLC_UPSTREAM_ARCHIVE=file:///mnt/sources/archive" in lines
    assert "export DLC_UPSTREAM_SITE=https://mirror.example" in lines
    assert (bundle.folder / "sources", "/mnt/sources") in routed.binds


def test_the_keys_of_steps_follow_their_packages(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path / "r", **RECIPE), site=site_of(routing=PLAIN))
    build_context.stage(plan, tmp_path / "context")

    def keys(held: Lock | None) -> dict[str, str]:
        sums = held.step_keys() if held else {}
        pins = {step: {"locked packages": sum_} for step, sum_ in sums.items()}
        return {
            step.name: step.key for step in build_steps.work(plan, tmp_path / "context", {}, pins)
        }

    other = lock(steps=(lock().steps[0],))
    assert keys(lock())["system"] == keys(other)["system"] != keys(None)["system"]
    assert keys(lock())["wheels"] != keys(other)["wheels"]


def tree(path: Path, *packages: tuple[str, str]) -> Path:
    text = "\n".join(CONTROL.format(name=name, version=version) for name, version in packages)
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("./var/lib/dpkg/status")
        member.size = len(text)
        tar.addfile(member, BytesIO(text.encode()))
    return path


def test_a_base_that_is_another(tmp_path: Path) -> None:
    locked_base.check(lock(), tree(tmp_path / "a.tar", ("mawk", "1.3")))
    with pytest.raises(BuildError) as caught:
        locked_base.check(lock(), tree(tmp_path / "b.tar", ("mawk", "1.4"), ("more", "1")))
    why = str(caught.value.why)
    assert "mawk 1.3 is in the lock, but not in the base" in why
    assert "mawk 1.4 is in the base, but not in the lock" in why
    assert "more 1 is in the base" in why


def test_an_empty_tree_is_another(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w"):
        pass
    with pytest.raises(BuildError, match="differs from the locked one"):
        locked_base.check(lock(), tmp_path / "a.tar")


def test_mmdebstrap_gets_the_locked_packages_alone(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mmdebstrap").write_text("#!/bin/sh\n")
    (tools / "mmdebstrap").chmod(0o755)
    plan = plan_of(folder_of(tmp_path / "r"))
    held = write_bundle(tmp_path / "b", lock(plan))
    routed = replace(PreparedRouting.nothing(tmp_path), bundle=held)
    work = tmp_path / "it's work"
    argv = bootstrap.mmdebstrap_argv(
        root_tree.root_tree(plan, held),
        routed,
        host(environ={"PATH": str(tools)}),
        work / "rootfs.tar",
    )
    assert "--include=mawk" in argv
    quoted = str(work / "locked-debs").replace("'", "'\"'\"'")
    assert f"--setup-hook=copy-in '{quoted}' /" in argv
    work.mkdir()
    locked_base.stage(held, work, controls(lock(base=held.lock.base, steps=())))
    staged = sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.is_file())
    assert staged == [
        "locked-debs/Packages",
        "locked-debs/Release",
        "locked-debs/debs/mawk_1.3_amd64.deb",
    ]


def test_an_image_base_needs_no_apt(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path / "r"), site=site_of(routing=PLAIN))
    image = lock(base=LockedBase(image="docker://x"), steps=())
    folder = tmp_path / "routing"
    folder.mkdir()
    runner = RecordingRunner(strict=True)
    routed = routing.prepare(plan, host(), runner, folder, Bundle(folder=tmp_path, lock=image))
    assert routed.binds == ((folder, "/mnt"),)
    assert not (folder / "apt.conf").exists()
