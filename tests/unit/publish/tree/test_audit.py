"""Audit: each thing that users could meet and that is not as it was published is named."""

import json
import os
import pwd
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import audit, audit_users, changes, generation
from dlcontainer.publish.tree.contents import ReleaseFault
from dlcontainer.publish.tree.generation import Deprecation
from dlcontainer.publish.tree.transaction import opened
from dlcontainer.system.process import CompletedCommand
from tests.fakes import completed
from tests.trees import act, draft, hand, image_file, put


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root, images = tmp_path / "root", tmp_path / "images"
    root.mkdir()
    put(root, image_file(images))
    put(root, image_file(images, b"another"), "2.0")
    act(root, lambda tree: changes.set_default(tree, "demo/1.0"))
    act(root, lambda tree: changes.deprecate(tree, "demo/2.0", Deprecation(message="old")))
    return root


def audited(root: Path, engine: Path | None = None) -> list[str]:
    """List faults below the root: pytest's own folder is closed to other users."""
    inside = str(root)
    return [
        f"{fault.where.removeprefix(inside + '/')}: {fault.why}"
        for fault in audit.audit(root, engine)
        if fault.where.startswith(inside)
    ]


def first(root: Path) -> Path:
    return (root / "modules/lmod/demo/1.0.lua").resolve().parent


def test_a_sound_tree(root: Path) -> None:
    assert audited(root) == []


def test_a_tree_with_nothing_in_it(tmp_path: Path) -> None:
    assert [fault.why for fault in audit.audit(tmp_path)][-1] == "nothing is published"
    with pytest.raises(PublishError, match="can't read"):
        audit.audit(tmp_path / "none")


def one_byte(root: Path) -> None:
    (first(root) / "image.sif").write_bytes(b"an imagE")


def wrapper(root: Path) -> None:
    (first(root) / "bin/tool").write_text("evil")


def wrapper_with_its_sum(root: Path) -> None:
    import hashlib

    old, sums = first(root) / "bin/tool", first(root) / "SHA256SUMS"
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    old.write_text("evil")
    sums.write_text(sums.read_text().replace(before, hashlib.sha256(b"evil").hexdigest()))


def mode(root: Path) -> None:
    (first(root) / "bin/tool").chmod(0o644)


def closed(root: Path) -> None:
    first(root).chmod(0o700)


def closed_farm(root: Path) -> None:
    (root / "generations/4/modules/tcl/demo").chmod(0o700)


def missing_file(root: Path) -> None:
    (first(root) / "launch/site.sh").unlink()


def further_file(root: Path) -> None:
    (first(root) / "bin/more").write_text("")


def link(root: Path) -> None:
    path = root / "generations/4/modules/lmod/demo/1.0.lua"
    target = str(path.readlink()).replace(".lua", ".tcl")
    path.unlink()
    path.symlink_to(target)


def missing_link(root: Path) -> None:
    (root / "generations/4/modules/tcl/demo/1.0").unlink()


def further_module(root: Path) -> None:
    (root / "generations/4/modules/tcl/evil").mkdir()


def warning(root: Path) -> None:
    (root / "generations/4/modules/lmod/demo/2.0.lua").write_text("-- nothing")


def default(root: Path) -> None:
    (root / "generations/4/modules/lmod/demo/.modulerc.lua").write_text("")


def modules(root: Path) -> None:
    (root / "modules").unlink()


def record(root: Path) -> None:
    (first(root) / "record.json").write_text(json.dumps({"image": {"sha256": "0"}}))


def lost_release(root: Path) -> None:
    first(root).rename(root.parent / "gone")


def unjournaled(root: Path) -> None:
    (root / "current").unlink()
    (root / "current").symlink_to("generations/3")


def unreadable(root: Path) -> None:
    with (root / "journal.jsonl").open("a") as file:
        file.write('{"time": "20')


def leftover(root: Path) -> None:
    (root / ".dlcontainer-build-abc").mkdir()


def impossible_rollback(root: Path) -> None:
    (root / "generations/1/generation.json").write_text("{}")


def moved_tree(root: Path) -> None:
    text = (first(root) / "release.json").read_text()
    (first(root) / "release.json").write_text(text.replace(str(root), "/elsewhere"))


def dangling(root: Path) -> None:
    (root / "generations/3/modules/lmod/demo/0.9.lua").symlink_to("../../../../../releases/none")


def leading_out(root: Path) -> None:
    (root / "releases/evil").symlink_to("../../elsewhere")


def absolute(root: Path) -> None:
    (root / "generations/4/modules/lmod/demo/2.0.lua").unlink()
    (root / "generations/4/modules/lmod/demo/2.0.lua").symlink_to(first(root) / "module.lua")


def leading_out_through_another(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / "generations/way").symlink_to(root.parent)
    (root / "releases/evil").symlink_to("../generations/way/elsewhere")


def link_in_a_release(root: Path) -> None:
    image = first(root) / "image.sif"
    image.rename(root.parent / "image.sif")
    image.symlink_to("../../../image.sif")


def edited_modulefile(root: Path) -> None:
    with (first(root) / "module.lua").open("a") as file:
        file.write('setenv("LD_PRELOAD", "evil.so")\n')


def folder_of_a_release(root: Path) -> None:
    (first(root) / "bin").chmod(0o700)


def for_the_group(root: Path) -> None:
    first(root).chmod(0o775)


def for_anybody(root: Path) -> None:
    root.chmod(0o777)


def stale_alias(root: Path) -> None:
    path = root / "generations/4/modules/tcl/demo/.modulerc"
    path.write_text(path.read_text() + "module-version demo/0.9 new\n")


def catalogue(root: Path) -> None:
    path = root / "generations/4/catalogue.html"
    path.write_text(path.read_text().replace("module load", "rm -r"))


def catalogue_sums(root: Path) -> None:
    path = root / "generations/4/SHA256SUMS"
    path.write_bytes(b"`" + path.read_bytes()[1:])


def missing_catalogue(root: Path) -> None:
    (root / "generations/4/catalogue.json").unlink()


def further_in_a_generation(root: Path) -> None:
    (root / "generations/4/more").write_text("")


def lost_generation(root: Path) -> None:
    """Make an older generation point to a release that is missing."""
    path = root / "generations/2/generation.json"
    path.write_text(path.read_text().replace(first(root).name, "0" * 64))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dangling, "demo/0.9.lua: it is a dangling link: "),
        (leading_out, "releases/evil: it points out of the tree: ../../elsewhere"),
        (absolute, "demo/2.0.lua: it points out of the tree: /"),
        (leading_out_through_another, "releases/evil: it points out of the tree through ../gener"),
        (link_in_a_release, "image.sif: it points out of the tree: ../../../image.sif"),
        (edited_modulefile, "module.lua: its SHA-256 is not the one in SHA256SUMS"),
        (folder_of_a_release, "bin: other users can't read it: its mode is 0700"),
        (for_the_group, "can change it: its mode is 0775"),
        (for_anybody, "any user can change it: its mode is 0777"),
        (stale_alias, ".modulerc: its text was changed"),
        (catalogue, "catalogue.html: its SHA-256 is not the one in SHA256SUMS"),
        (catalogue_sums, "SHA256SUMS: line 1 is not a checksum with a unique name"),
        (missing_catalogue, "catalogue.json: it is missing"),
        (further_in_a_generation, "generations/4/more: it was not published"),
        (lost_generation, "generations/2: the release of demo/1.0 is missing"),
        (one_byte, "image.sif: its SHA-256 is not the one in SHA256SUMS"),
        (wrapper, "bin/tool: its SHA-256 is not the one in SHA256SUMS"),
        (wrapper_with_its_sum, "its content does not match its digest"),
        (mode, "bin/tool: its mode is 0644"),
        (closed, "other users can't read it: its mode is 0700"),
        (closed_farm, "tcl/demo: other users can't read it"),
        (missing_file, "launch/site.sh: it is missing"),
        (further_file, "bin/more: it was not published"),
        (link, "demo/1.0.lua: it points to "),
        (missing_link, "tcl/demo/1.0: it is missing"),
        (further_module, "tcl/evil: it was not published"),
        (warning, "2.0.lua: its text was changed"),
        (default, ".modulerc.lua: its text was changed"),
        (modules, "modules: it is not a link to current/modules"),
        (record, "record.json: its SHA-256 is not the one in"),
        (lost_release, "No such file or directory"),
        (unjournaled, "its last switch is to 4, but 3 is live"),
        (unreadable, "unreadable lines: 1"),
        (leftover, "a publication is in progress, or was killed"),
        (impossible_rollback, "generations/1: "),
        (moved_tree, "its content does not match its digest"),
    ],
)
def test_what_is_named(root: Path, change: Callable[[Path], None], says: str) -> None:
    change(root)
    found = audited(root)
    assert any(says in fault for fault in found), found


def test_what_other_users_can_not_reach(root: Path) -> None:
    closed = root / "a/private"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o750)
    engine = closed / "apptainer"
    engine.touch(mode=0o755)
    engine.chmod(0o755)
    found = audited(root, engine)
    assert found == ["a: other users can't enter it: its mode is 0750"]
    closed.parent.chmod(0o755)
    engine.chmod(0o700)
    assert audited(root, engine) == [
        "a/private/apptainer: other users can't run it: its mode is 0700"
    ]
    engine.unlink()
    assert "No such file" in audited(root, engine)[0]


def test_an_engine_that_wrappers_fall_back_on(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrappers name it: nobody has to give it."""
    monkeypatch.setattr(audit, "_unreachable", _inside(tmp_path, audit._unreachable))
    engine = root / "an engine/apptainer"
    engine.parent.mkdir()
    engine.write_text("")
    engine.chmod(0o755)
    fallback = f"for dlc_engine in apptainer singularity '{engine}'; do"
    image = image_file(tmp_path / "images", b"a third")
    with opened(root, hand()) as tree, draft(image, "3.0", fallback=fallback) as given:
        changes.publish(tree, given)
    assert audited(root) == []
    engine.chmod(0o700)
    says = f"an engine/apptainer: demo/3.0 can't fall back on this engine: {engine}: "
    assert audited(root) == [f"{says}other users can't run it: its mode is 0700"]
    engine.unlink()
    assert audited(root) == [f"{says}No such file or directory"]


def _inside(
    folder: Path, real: Callable[[Path], Iterator[ReleaseFault]]
) -> Callable[[Path], Iterator[ReleaseFault]]:
    """Leave pytest's own folders out: they are closed to others."""
    return lambda path: (fault for fault in real(path) if str(folder / "root") in fault.where)


@pytest.mark.usefixtures("as_root")
def test_foreign_owners(root: Path) -> None:
    path = first(root) / "bin/tool"
    os.chown(path, 4242, -1)
    assert audited(root) == [
        f"releases/{first(root).name}/bin/tool: it belongs to 4242, who is not a publisher"
    ]
    os.chown(path, 0, -1)
    os.chown(root / "generations/4/modules/lmod/demo/1.0.lua", 4242, -1, follow_symlinks=False)
    assert "lmod/demo/1.0.lua: it belongs to 4242" in audited(root)[0]
    # All of them are the root's owner's: then they may be.
    for one in (root, *root.rglob("*")):
        os.chown(one, 4242, -1, follow_symlinks=False)
    assert audited(root) == []


@pytest.mark.usefixtures("as_root")
def test_owners_of_a_tree_that_a_group_shares(root: Path) -> None:
    """A colleague may own a release where the group may write; nobody else."""
    nobody = pwd.getpwnam("nobody")
    root.chmod(0o2775)
    os.chown(root, 0, nobody.pw_gid)
    path = first(root) / "bin/tool"
    os.chown(path, nobody.pw_uid, -1)
    assert audited(root) == []
    os.chown(path, 4242, -1)
    assert len(audited(root)) == 1


class Loading:
    """A runner for module systems that answer with a command's path, or with an error."""

    def __init__(self, folder: Path, code: int = 0) -> None:
        self.folder, self.code, self.seen = folder, code, ""

    def __call__(self, argv: Sequence[str], **options: Any) -> CompletedCommand:
        self.seen = options["env"]["MODULEPATH"]
        out = "" if self.code else f"{self.folder}/python\n"
        return completed(*argv, code=self.code, stdout=out, stderr="no such module\n")


def test_what_users_meet(root: Path) -> None:
    path, here = first(root), str(root / "modules/lmod")
    with Folder.at(root / "generations") as generations:
        (entry, _) = generation.read(generations, 4).entries

    def met(runner: Loading, **environ: str) -> list[str]:
        by = audit_users.loader({"LMOD_CMD": "/lmod", "LOADEDMODULES": "x", **environ}, runner)
        assert by is not None
        assert by.kind == "lmod"
        assert "LOADEDMODULES" not in by.environ
        return [fault.why for fault in audit_users.meets(root, [entry], by)]

    fine = Loading(path / "bin")
    assert met(fine) == []
    assert fine.seen == here
    assert met(fine, MODULEPATH=f"/other:{here}") == []
    assert fine.seen == f"/other:{here}"
    assert met(Loading(root / "other")) == [f"users who load demo/1.0 get {root}/other/python"]
    assert met(Loading(path, code=1)) == ["users can't load demo/1.0: no such module"]
    assert audit_users.loader({}, fine) is None
