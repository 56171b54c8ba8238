"""Changes of a tree: each makes a generation beside the live one, and one switch."""

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import modulefiles
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import changes, promotion, transaction
from dlcontainer.publish.tree.generation import Deprecation
from dlcontainer.publish.tree.layout import PublishedTree
from dlcontainer.system import guarded_files
from tests.skips import skip
from tests.trees import Clock, act, both, draft, hand, hidden, image_file, put, seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "it's a; (root) é"
    root.mkdir()
    root.chmod(0o755)  # under any umask: members of its group may not write
    return root


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return image_file(tmp_path / "images")


def live(root: Path) -> str:
    return str((root / "current").readlink())


def rc(root: Path) -> list[str]:
    paths = [root / "modules/lmod/demo/.modulerc.lua", root / "modules/tcl/demo/.modulerc"]
    return [path.read_text() for path in paths]


def test_the_first_publication(root: Path, image: Path) -> None:
    assert put(root, image) == 1
    assert seen(root) == seen(root, "current/modules") == both("1.0")
    assert (live(root), str((root / "modules").readlink())) == ("generations/1", "current/modules")
    (release,) = (root / "releases").iterdir()
    link = str((root / "modules/lmod/demo/1.0.lua").readlink())
    assert link == f"../../../../../releases/{release.name}/module.lua"
    with draft(image) as given:
        for name, quote in (("module.lua", modulefiles.lua), ("module.tcl", modulefiles.tcl)):
            bare = given.files[name].decode()
            wanted = bare.replace("/@release@", quote(str(release))[1:-1])
            wanted = wanted.replace("/@root@", quote(str(root))[1:-1])
            assert (release / name).read_text() == wanted != bare
            assert quote(f"{release}/bin") in wanted
    assert hidden(root) == []


def test_modes_under_any_umask(root: Path, image: Path) -> None:
    old = os.umask(0o077)
    try:
        put(root, image)
        act(root, lambda tree: changes.deprecate(tree, "demo/1.0", Deprecation(message="old")))
    finally:
        os.umask(old)
    modes = {
        path.relative_to(root).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in root.rglob("*")
        if not path.is_symlink() and path.name not in (".lock", "journal.jsonl")
    }
    programs = {name for name in modes if "/bin/" in name}
    folders = {name for name in modes if (root / name).is_dir()}
    assert {modes[name] for name in programs | folders} == {0o755}
    assert {mode for name, mode in modes.items() if name not in programs | folders} == {0o644}


def test_the_same_again_changes_nothing(root: Path, image: Path) -> None:
    assert (put(root, image), put(root, image)) == (1, 1)
    assert len(changes.history(root)) == 1


def test_new_facts_of_the_site_link_the_same_image(root: Path, image: Path) -> None:
    put(root, image)
    assert put(root, image, facts="a new epoch") == 2
    first, second = (path / "image.sif" for path in (root / "releases").iterdir())
    assert first.samefile(second)
    assert seen(root) == both("1.0")
    assert (
        "a new epoch"
        in (root / "modules/lmod/demo/1.0.lua")
        .resolve()
        .parent.joinpath("launch/site.sh")
        .read_text()
    )


@pytest.mark.parametrize("code", [18, 31, 1, 95])  # EXDEV, EMLINK, EPERM, ENOTSUP
def test_without_hard_links_it_is_copied(
    root: Path, image: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    put(root, image)
    monkeypatch.setattr(os, "link", refuse)
    put(root, image, facts="new")
    first, second = (path / "image.sif" for path in (root / "releases").iterdir())
    assert not first.samefile(second)
    assert first.read_bytes() == second.read_bytes()


def test_a_damaged_image_is_not_linked(root: Path, image: Path) -> None:
    put(root, image)
    (release,) = (root / "releases").iterdir()
    (release / "image.sif").write_bytes(b"an imagE")
    put(root, image, facts="new")
    (new,) = set((root / "releases").iterdir()) - {release}
    assert (new / "image.sif").read_bytes() == b"an image"


@pytest.mark.parametrize("change", ["group", "mode"])
def test_an_image_of_another_group_or_mode_is_copied(root: Path, image: Path, change: str) -> None:
    """Group and mode are of all names of a file: a link would publish them too."""
    put(root, image)
    (old,) = root.glob("releases/*/image.sif")
    if change == "mode":
        old.chmod(0o640)
    elif os.getuid() == 0:
        os.chown(old, -1, 65534)
    else:
        skip("needs root, which can give a file to another group", elsewhere="a run as root")
    before = old.stat()
    put(root, image, facts="new")
    images = [path.stat() for path in root.glob("releases/*/image.sif")]
    (new,) = (info for info in images if info.st_ino != before.st_ino)
    assert (stat.S_IMODE(new.st_mode), new.st_gid) == (0o644, root.stat().st_gid)


def test_a_private_folder_that_is_not_ours(
    root: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write in ROOT puts another folder in the place of the one just made."""

    @contextlib.contextmanager
    def swapped(parent: Path, runner: object, note: object, *, hands_on: bool) -> Iterator[Path]:
        made = parent / ".dlcontainer-build-other"
        made.mkdir(mode=0o755)
        made.chmod(0o777)
        yield made
        made.rmdir()

    monkeypatch.setattr(transaction, "workspace", swapped)
    with pytest.raises(PublishError, match="was replaced while dlcontainer created it"):
        put(root, image)
    assert not (root / "releases").exists()


def test_another_image_needs_another_version(root: Path, image: Path, tmp_path: Path) -> None:
    put(root, image)
    other = image_file(tmp_path / "other", b"another")
    with pytest.raises(PublishError, match=r"demo/1\.0 is already published"):
        put(root, other)
    assert live(root) == "generations/1"
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    put(root, other)
    assert live(root) == "generations/3"


def test_the_image_of_another_record_is_refused(root: Path, image: Path) -> None:
    def lying(tree: PublishedTree) -> None:
        with draft(image) as given:
            image.write_bytes(b"exchanged")
            changes.publish(tree, given)

    with pytest.raises(PublishError, match="does not match its record"):
        act(root, lying)
    assert not (root / "current").exists()
    assert list((root / "releases").iterdir()) == []


def test_rollback_and_back_again(root: Path, image: Path) -> None:
    put(root, image)
    put(root, image, "2.0")
    act(root, changes.rollback)
    assert (live(root), seen(root)) == ("generations/1", both("1.0"))
    act(root, lambda tree: changes.rollback(tree, 2))
    assert seen(root) == both("1.0", "2.0")
    with pytest.raises(PublishError, match="there is no generation 7"):
        act(root, lambda tree: changes.rollback(tree, 7))
    act(root, changes.rollback)
    with pytest.raises(PublishError, match="generation 1 is the first one"):
        act(root, changes.rollback)
    # A number is used once: 2 stays what it was.
    assert put(root, image, "3.0") == 3
    said = [(line.what, line.left, line.entered) for line in changes.history(root)]
    assert said == [
        ("publish demo/1.0", 0, 1),
        ("publish demo/2.0", 1, 2),
        ("rollback to 1", 2, 1),
        ("rollback to 2", 1, 2),
        ("rollback to 1", 2, 1),
        ("publish demo/3.0", 1, 3),
    ]


def test_a_rollback_to_what_is_not_complete(root: Path, image: Path) -> None:
    put(root, image)
    put(root, image, "2.0")
    (tcl,) = (root / "generations/1/modules/tcl/demo").iterdir()
    tcl.resolve().parent.rename(root / "gone")
    with pytest.raises(PublishError, match=r"the release of demo/1\.0 is missing"):
        act(root, changes.rollback)
    assert live(root) == "generations/2"


def test_unpublish_takes_aliases_along(root: Path, image: Path) -> None:
    put(root, image)
    put(root, image, "2.0")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.set_alias(tree, "demo/2.0", "test"))
    assert rc(root) == [
        'module_version("demo/1.0", "default")\nmodule_version("demo/2.0", "test")\n',
        "#%Module1.0\nmodule-version demo/1.0 default\nmodule-version demo/2.0 test\n",
    ]
    act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "test"))
    assert 'module_version("demo/1.0", "test")' in rc(root)[0]
    assert "2.0" not in rc(root)[1]
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    assert seen(root) == both("2.0")
    assert list((root / "modules").rglob(".modulerc*")) == []
    with pytest.raises(PublishError, match=r"demo/1\.0 is not published in generation 6"):
        act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))


def test_a_new_release_keeps_default_and_aliases(root: Path, image: Path) -> None:
    put(root, image)
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.set_alias(tree, "demo/1.0", "stable"))
    put(root, image, facts="new")
    assert 'module_version("demo/1.0", "default")' in rc(root)[0]
    act(root, lambda tree: changes.remove_alias(tree, "demo", "stable"))
    assert "stable" not in rc(root)[0]
    with pytest.raises(PublishError, match="there is no alias demo/stable"):
        act(root, lambda tree: changes.remove_alias(tree, "demo", "stable"))


@pytest.mark.parametrize("alias", ["default", "2.0", "../x", ".hidden", 'a"b', ""])
def test_what_is_no_alias(root: Path, image: Path, alias: str) -> None:
    put(root, image)
    put(root, image, "2.0")
    with pytest.raises(PublishError, match="alias"):
        act(root, lambda tree: changes.set_alias(tree, "demo/1.0", alias))
    assert live(root) == "generations/2"


def test_deprecated_and_no_longer(root: Path, image: Path) -> None:
    put(root, image)
    release = (root / "modules/lmod/demo/1.0.lua").read_text()
    warning = Deprecation(message='use "2.0" [exit]', removal="2027-01-31")
    act(root, lambda tree: changes.deprecate(tree, "demo/1.0", warning))
    lua = (root / "modules/lmod/demo/1.0.lua").read_text()
    tcl = (root / "modules/tcl/demo/1.0").read_text()
    assert lua.startswith(release)
    says = "demo/1.0 is deprecated and will be removed on 2027-01-31: use"
    assert f'LmodMessage("{says} \\"2.0\\" [exit]")' in lua
    assert f'puts stderr "{says} \\"2.0\\" \\[exit\\]"' in tcl
    assert seen(root) == both("1.0")
    act(root, lambda tree: changes.deprecate(tree, "demo/1.0", None))
    assert (root / "modules/lmod/demo/1.0.lua").read_text() == release


@pytest.mark.parametrize(("removal", "said"), [("2027-01-14", 1), ("2027-01-15", 0)])
def test_a_removal_that_is_past_is_said(root: Path, image: Path, removal: str, said: int) -> None:
    put(root, image)
    notes: list[str] = []
    by = replace(hand(Clock()), note=notes.append)  # of 15 January 2027
    warning = Deprecation(message="old", removal=removal)
    act(root, lambda tree: changes.deprecate(tree, "demo/1.0", warning), by)
    assert len([note for note in notes if "is past" in note]) == said


@pytest.mark.parametrize(
    ("message", "removal"), [("", None), ("two\nlines", None), ("x" * 501, None), ("x", "soon")]
)
def test_what_is_no_warning(message: str, removal: str | None) -> None:
    with pytest.raises(PublishError, match="not a"):
        Deprecation(message=message, removal=removal)


def test_promoted_is_the_same_release(root: Path, image: Path, tmp_path: Path) -> None:
    test = tmp_path / "test"
    test.mkdir()
    put(test, image)
    act(test, lambda tree: changes.deprecate(tree, "demo/1.0", Deprecation(message="a test")))
    act(root, lambda tree: promotion.promote(tree, test, "demo/1.0"))
    (tested,), (published,) = (test / "releases").iterdir(), (root / "releases").iterdir()
    assert tested.name == published.name
    assert (tested / "image.sif").samefile(published / "image.sif")
    assert str(test) not in (published / "module.lua").read_text()
    assert seen(root) == both("1.0")
    assert not (root / "modules/lmod/demo/1.0.lua").read_text().count("deprecated")


def test_what_is_damaged_is_not_promoted(root: Path, image: Path, tmp_path: Path) -> None:
    test = tmp_path / "test"
    test.mkdir()
    put(test, image)
    (release,) = (test / "releases").iterdir()
    (release / "bin/python").write_text("#!/bin/sh\nevil\n")
    with pytest.raises(PublishError, match="is damaged"):
        act(root, lambda tree: promotion.promote(tree, test, "demo/1.0"))
    assert list((root / "releases").iterdir()) == []
    with pytest.raises(PublishError, match=r"demo/2\.0 is not published"):
        act(root, lambda tree: promotion.promote(tree, test, "demo/2.0"))


def test_list_and_history_need_no_lock(root: Path, image: Path) -> None:
    assert (changes.listing(root), changes.history(root)) == ([], [])
    clock = Clock()
    put(root, image, by=hand(clock))
    act(root, lambda tree: [changes.listing(root), changes.history(root)])
    (listed,) = changes.listing(root)
    assert (listed.entry.module, listed.folder.parent) == ("demo/1.0", root / "releases")
    (line,) = changes.history(root)
    assert (line.at, line.time) == (clock.now, "2027-01-15T08:00:00Z")
    assert "@" in line.who


def test_a_root_that_is_none(root: Path, tmp_path: Path) -> None:
    none = tmp_path / "none"
    for act_on in (changes.listing, changes.history):
        with pytest.raises(PublishError, match="can't read"):
            act_on(none)
    with pytest.raises(PublishError, match="can't read"):
        act(root, lambda tree: promotion.promote(tree, none, "demo/1.0"))
    with pytest.raises(PublishError, match="can't change"):
        act(none, changes.rollback)


@pytest.mark.parametrize("name", ["../x", "bin/.hidden", "a/b/c", "launch/x\ny", "/etc/x", ""])
def test_files_that_can_not_be_named(root: Path, image: Path, name: str) -> None:
    def named(tree: PublishedTree) -> None:
        with draft(image) as given:
            changes.publish(tree, replace(given, files={**given.files, name: b""}))

    with pytest.raises(PublishError, match="has an unsupported name"):
        act(root, named)
    assert list((root / "releases").iterdir()) == []


def no_tree(root: Path) -> None:
    (root / "modules/lmod/demo").mkdir(parents=True)


def strange_current(root: Path) -> None:
    (root / "current").symlink_to("../elsewhere")


def strange_modules(root: Path) -> None:
    (root / "modules").symlink_to("/tmp")


def planted_releases(root: Path) -> None:
    (root / "releases").symlink_to(root.parent)


def planted_lock(root: Path) -> None:
    (root / ".lock").symlink_to(root.parent / "victim")


def planted_journal(root: Path) -> None:
    (root / "journal.jsonl").symlink_to(root.parent / "victim")


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (no_tree, "a tree of dlcontainer 0.5 or earlier"),
        (strange_current, "which is not a generation"),
        (strange_modules, "not to current/modules"),
        (planted_releases, "is a symbolic link"),
        (planted_lock, "is not a lock"),
        (planted_journal, "symbolic link"),
    ],
)
def test_what_others_put_in_its_places(
    root: Path, image: Path, plant: Callable[[Path], None], says: str
) -> None:
    plant(root)
    before = sorted(root.parent.iterdir())
    with pytest.raises(PublishError, match=says):
        put(root, image)
    assert sorted(root.parent.iterdir()) == before
    assert hidden(root) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("number", 9),
        ("schema", "x"),
        ("entries", [{}]),
        ("entries", [{"name": "../x"}]),
        ("number", "1"),
    ],
)
def test_a_generation_that_was_edited(root: Path, image: Path, key: str, value: object) -> None:
    put(root, image)
    path = root / "generations/1/generation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(PublishError, match="damaged"):
        put(root, image, "2.0")
    assert live(root) == "generations/1"


@pytest.mark.parametrize("look", [changes.listing, changes.history, changes.require_published])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_stale_handle_is_opened_again(
    root: Path,
    image: Path,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Path], object],
    times: int,
) -> None:
    """NFS: what a cached name leads to is no longer on the server; twice is bad luck."""
    put(root, image)
    usual, real, left = look(root), os.readlink, [times]

    def stale(*args: Any, **kwargs: Any) -> str:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return str(real(*args, **kwargs))

    monkeypatch.setattr(os, "readlink", stale)
    if times < 3:
        assert look(root) == usual
    else:
        with pytest.raises(PublishError, match="Stale file handle"):
            look(root)
    assert left == [0]


def test_a_reader_of_the_old_generation_goes_on(root: Path, image: Path) -> None:
    """A client that resolved the names before the switch, and one whose names are old."""
    put(root, image)
    with Folder.at(root / "current") as held, (root / "modules/lmod/demo/1.0.lua").open() as file:
        act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
        assert seen(root) == []
        text = file.read()
        assert "/releases/" in text
        # All that was live is there, through what it holds open and by the old number.
        with held.sub("modules") as modules:
            assert sorted(guarded_files.names(modules.number)) == ["lmod", "tcl"]
        assert seen(root, "generations/1/modules") == both("1.0")
