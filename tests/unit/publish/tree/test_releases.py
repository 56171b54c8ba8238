"""Releases of one version: their numbers, what stays loadable, and how they go."""

import json
import shutil
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.catalogue import bills
from dlcontainer.publish.tree import audit, changes, collection, numbers, promotion
from dlcontainer.publish.tree.collection import RetentionPolicy
from dlcontainer.publish.tree.generation import Deprecation, GenerationEntry
from dlcontainer.publish.tree.numbers import Succession
from dlcontainer.publish.tree.store import ImageKey
from dlcontainer.publish.tree.transaction import Publisher
from tests.trees import DAY, Clock, act, both, draft, hand, image_file, put, put_release, seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    return root


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    return [image_file(tmp_path / "images", f"image {i}".encode()) for i in range(4)]


def entry(root: Path) -> GenerationEntry:
    (found, *_) = {listed.entry.module: listed.entry for listed in changes.listing(root)}.values()
    return found


def loads(root: Path, version: str) -> bytes:
    """Return the image that a version's modulefile leads to."""
    text = (root / f"modules/lmod/demo/{version}.lua").read_text()
    return (root / "releases" / text.partition("/releases/")[2][:64] / "image.sif").read_bytes()


def notes(by: Publisher) -> list[str]:
    said: list[str] = by.note.__self__  # type: ignore[attr-defined]
    return said


def faults(root: Path) -> list[str]:
    """Say what the audit finds in the tree, not in the folders above it."""
    found = audit.audit(root)
    return [fault.where for fault in found if Path(fault.where).is_relative_to(root)]


def test_the_next_release_stands_beside_the_first(root: Path, images: list[Path]) -> None:
    assert put_release(root, images[0]) == 1
    assert seen(root) == both("1.0", "1.0-1")
    rc = (root / "modules/lmod/demo/.modulerc.lua").read_text()
    assert rc == 'hide_version("demo/1.0-1")\n'
    first = (root / "modules/lmod/demo/1.0.lua").resolve()
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "stable"))
    with pytest.raises(PublishError, match="already published with another image") as caught:
        put_release(root, images[1], succession=None)
    assert "--release" in str(caught.value.next_step)
    assert put_release(root, images[1]) == 2
    assert seen(root) == both("1.0", "1.0-1", "1.0-2")
    assert (loads(root, "1.0"), loads(root, "1.0-1")) == (b"image 1", b"image 0")
    assert loads(root, "1.0-2") == b"image 1"
    assert (root / "modules/lmod/demo/1.0-1.lua").resolve() == first
    rc = (root / "modules/lmod/demo/.modulerc.lua").read_text()
    assert rc == 'module_version("demo/1.0", "default")\nmodule_version("demo/1.0", "stable")\n'
    assert (
        'setenv("DLCONTAINER_RELEASE", "demo/1.0-2")'
        in (root / "modules/lmod/demo/1.0.lua").read_text()
    )
    assert faults(root) == []


def test_marks_move_with_the_version_in_one_switch(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    warning = Deprecation(message="use 2.0")
    act(root, lambda tree: changes.deprecate(tree, "demo/1.0", warning))
    switches = len(changes.history(root))
    put_release(root, images[1])
    assert len(changes.history(root)) == switches + 1
    assert (entry(root).default, entry(root).deprecated) == (True, warning)
    for version in ("1.0", "1.0-1", "1.0-2"):
        text = (root / f"modules/lmod/demo/{version}.lua").read_text()
        assert f"demo/{version} is deprecated: use 2.0" in text
    act(root, changes.rollback)
    assert (loads(root, "1.0"), entry(root).default) == (b"image 0", True)
    assert seen(root) == both("1.0", "1.0-1")


def test_no_default_is_told_once(root: Path, images: list[Path]) -> None:
    by = hand()
    for image in images[:3]:
        put_release(root, image, by=by)
    (said,) = notes(by)
    assert said.startswith(
        "no version of demo is the default: `module load demo` takes the highest"
    )
    assert said.endswith(f"dlcontainer modules default demo/1.0 --root {root}")


def test_a_tree_of_before_goes_on(root: Path, images: list[Path]) -> None:
    """A version without a number counts as the first release, and its files stay."""
    put(root, images[0])
    path = root / "generations/1/generation.json"
    body = json.loads(path.read_text())
    assert body["schema"] == "dlcontainer/generation/1"
    for key in ("number", "older", "image"):
        del body["entries"][0][key]
    path.write_text(json.dumps(body))
    assert not list(root.rglob(".modulerc*"))
    first = (root / "modules/lmod/demo/1.0.lua").resolve()
    assert put_release(root, images[1]) == 2
    assert (root / "modules/lmod/demo/1.0-1.lua").resolve() == first
    assert json.loads((root / "generations/2/generation.json").read_text())["schema"] == (
        "dlcontainer/generation/2"
    )
    act(root, changes.rollback)
    assert seen(root) == both("1.0")
    assert (root / "modules/lmod/demo/1.0.lua").resolve() == first


def test_the_same_image_keeps_its_number(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    live = (root / "current").readlink()
    assert (put_release(root, images[1]), (root / "current").readlink()) == (2, live)
    # New facts of the site: in the place of the same number, of an older one too.
    assert put_release(root, images[1], facts="new") == 2
    assert put_release(root, images[0], facts="new", succession=None) == 1
    assert (loads(root, "1.0"), loads(root, "1.0-1")) == (b"image 1", b"image 0")
    assert seen(root) == both("1.0", "1.0-1", "1.0-2")
    assert faults(root) == []


def test_a_number_is_given_once(root: Path, images: list[Path]) -> None:
    for image in images[:3]:
        put_release(root, image)
    act(root, lambda tree: changes.rollback(tree, 1))
    # Its own again, and no other's.
    assert put_release(root, images[3]) == 4
    act(root, lambda tree: changes.rollback(tree, 1))
    assert put_release(root, images[2]) == 3
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    assert put_release(root, images[1], succession=None) == 2


def test_a_number_is_given_once_after_a_collection(root: Path, images: list[Path]) -> None:
    """Then the journal alone knows that it was given, and not to which image."""
    put_release(root, images[0])
    put_release(root, images[1])
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    later = Clock(4e9)
    act(root, lambda tree: collection.collect(tree, RetentionPolicy(keep_s=0)), hand(later))
    assert list((root / "releases").iterdir()) == []
    assert put_release(root, images[1]) == 3


@pytest.mark.parametrize("taken", ["version", "alias", "own alias"])
def test_a_number_whose_name_is_taken_is_left_out(
    root: Path, images: list[Path], taken: str
) -> None:
    put_release(root, images[0])
    put_release(root, images[3], "1.0-2" if taken == "version" else "2.0")
    if "alias" in taken:
        module = "demo/1.0" if "own" in taken else "demo/2.0"
        act(root, lambda tree: changes.set_alias(tree, module, "1.0-2"))
    assert put_release(root, images[1]) == 3
    assert loads(root, "1.0-3") == b"image 1"
    assert faults(root) == []


def test_a_version_that_is_called_like_a_release(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    with pytest.raises(PublishError, match=r"demo/1\.0-2 is already the name of a release"):
        put_release(root, images[2], "1.0-2")
    with pytest.raises(PublishError, match="can't be an alias"):
        act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "1.0-1"))


def test_unpublish_of_one_release(root: Path, images: list[Path]) -> None:
    for image in images[:3]:
        put_release(root, image)
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0-2"))
    assert seen(root) == both("1.0", "1.0-1", "1.0-3")
    # The newest: the version is the one before it, with its marks.
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0-3"))
    assert seen(root) == both("1.0", "1.0-1")
    assert (loads(root, "1.0"), entry(root).default, entry(root).number) == (b"image 0", True, 1)
    assert faults(root) == []
    with pytest.raises(PublishError, match=r"demo/1\.0-3 is not published"):
        act(root, lambda tree: changes.unpublish(tree, "demo/1.0-3"))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0-1"))
    assert seen(root) == []


@pytest.mark.parametrize("module", ["demo/1.0-1", "demo/1.0-2"])
def test_marks_belong_to_the_version(root: Path, images: list[Path], module: str) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    with pytest.raises(PublishError, match=rf"{module} is a release of demo/1\.0"):
        act(root, lambda tree: changes.set_default(tree, module))


def test_no_mark_is_lost_in_silence(root: Path, images: list[Path]) -> None:
    by = hand()
    put_release(root, images[0])
    put_release(root, images[3], "2.0")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "stable"))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"), by)
    (said,) = notes(by)
    assert said.startswith("with demo/1.0 go its marks: default, stable; ")
    act(root, lambda tree: changes.set_alias(tree, "demo/2.0", "stable"))
    by = hand()
    put_release(root, images[1], by=by)
    (said,) = notes(by)
    assert said == (
        "demo/1.0 had these marks in generation 4: default, stable; to set them again: "
        f"dlcontainer modules default demo/1.0 --root {root}"
    )


def test_an_older_release_stays_as_long_as_the_site_says(root: Path, images: list[Path]) -> None:
    clock = Clock()
    put_release(root, images[0], by=hand(clock))
    put_release(root, images[1], succession=Succession(days=30), by=hand(clock))
    says = "demo/1.0-1 was replaced by demo/1.0-2, and can be loaded until 2027-02-14"
    assert f'LmodMessage("{says}")' in (root / "modules/lmod/demo/1.0-1.lua").read_text()
    assert f'puts stderr "{says}"' in (root / "modules/tcl/demo/1.0-1").read_text()
    assert "replaced" not in (root / "modules/lmod/demo/1.0-2.lua").read_text()
    assert faults(root) == []
    gone: list[tuple[str, ...]] = []
    for days in (30, 31):
        clock.now = Clock().now + days * DAY
        act(root, lambda tree: gone.append(changes.expire(tree, dry=True)), hand(clock))
        act(root, lambda tree: gone.append(changes.expire(tree)), hand(clock))
    assert gone == [(), (), ("demo/1.0-1",), ("demo/1.0-1",)]
    assert seen(root) == both("1.0", "1.0-2")
    assert changes.history(root)[-1].what == "no longer demo/1.0-1"
    assert faults(root) == []


def test_a_collection_keeps_older_releases(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    act(root, lambda tree: collection.collect(tree, RetentionPolicy(keep_s=0)), hand(Clock(4e9)))
    assert len(list((root / "releases").iterdir())) == 2
    assert faults(root) == []


def test_promoted_with_its_number(root: Path, images: list[Path], tmp_path: Path) -> None:
    test = tmp_path / "test"
    test.mkdir()
    for image in images[:3]:
        put_release(test, image)
    put_release(root, images[0])

    def promote(module: str) -> None:
        act(root, lambda tree: promotion.promote(tree, test, module))

    for module in ("demo/1.0", "demo/1.0-2"):
        with pytest.raises(PublishError, match="already published with another image"):
            promote(module)
    act(root, lambda tree: promotion.promote(tree, test, "demo/1.0", (), Succession()))
    assert seen(root) == both("1.0", "1.0-1", "1.0-3")
    # Not above the newest: a number names one image, and the newest is the highest.
    with pytest.raises(PublishError, match=r"demo/1\.0-2 is the name of another image here"):
        act(root, lambda tree: promotion.promote(tree, test, "demo/1.0-2", (), Succession()))


def test_a_number_that_another_image_has(root: Path, images: list[Path]) -> None:
    """Two publishers at once: the second wrote its draft before the first was done."""
    put_release(root, images[0])
    put_release(root, images[1])

    def late(tree: object) -> None:
        with draft(images[2], number=2) as given:
            changes.publish(tree, given, Succession())  # type: ignore[arg-type]

    with pytest.raises(PublishError, match=r"demo/1\.0-2 is the name of another image here"):
        act(root, late)
    assert loads(root, "1.0") == b"image 1"


@pytest.mark.parametrize(
    "older",
    [
        [{"number": 2, "digest": "a" * 64}],
        [{"number": 0, "digest": "a" * 64}],
        [{"number": True, "digest": "a" * 64}],
        [{"number": 1, "digest": "../x"}],
        [{"number": 1, "digest": "a" * 64, "until": "soon"}],
        [{"number": 1, "digest": "a" * 64, "image": "x"}],
        [{"number": 1, "digest": "a" * 64, "more": 1}],
        [{}],
        "x",
        7,
    ],
)
def test_a_generation_that_was_edited(root: Path, images: list[Path], older: object) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    path = root / "generations/2/generation.json"
    body = json.loads(path.read_text())
    body["entries"][0]["older"] = older
    path.write_text(json.dumps(body))
    with pytest.raises(PublishError):
        put_release(root, images[2])
    assert (root / "current").readlink() == Path("generations/2")


def test_damage_names_the_module_and_the_next_step(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    release = (root / "modules/tcl/demo/1.0-2").resolve().parent
    (release / "bin/tool").write_text("#!/bin/sh\nevil\n")
    (root / "modules/tcl/demo/1.0-1").unlink()
    found = [fault for fault in audit.audit(root) if str(root) in fault.where]
    lines = [audit.line(root, fault) for fault in found]
    assert "demo/1.0-2: bin/tool: its SHA-256 is not the one in SHA256SUMS" in lines
    assert audit.next_step(root, found) == (
        f"withdraw it: dlcontainer modules unpublish demo/1.0-2 --root {root}\n"
        f"        write the links again: dlcontainer modules catalogue --renew --root {root}"
    )
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0-2"))
    assert loads(root, "1.0") == b"image 0"
    assert faults(root) == []
    shutil.rmtree(release)


def test_the_number_is_known_without_the_release(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    shutil.rmtree(root / "releases")
    sha256 = entry_image(root)
    key = ImageKey(name="demo", version="1.0", sha256=sha256)
    got: list[int] = []
    act(root, lambda tree: got.append(numbers.of_image(tree.top, key, None)))
    assert got == [2]


def entry_image(root: Path) -> str:
    body = json.loads((root / "generations/2/generation.json").read_text())
    return str(body["entries"][0]["image"])


def test_find_looks_at_older_releases(root: Path, images: list[Path]) -> None:
    put_release(root, images[0])
    put_release(root, images[1])
    assert [bill.modules for bill in bills.read(root)] == [("demo/1.0",), ("demo/1.0-1",)]
    assert all(bill.is_live for bill in bills.read(root))
