"""The transaction: whatever a user can see works, whoever publishes, whenever they are killed."""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import publish as publishing
from dlcontainer.errors import ConfigError, PublishError
from dlcontainer.publish import Published, Shop, publish
from dlcontainer.siteconfig import Site
from dlcontainer.workspace import PREFIX
from tests.fakes import RecordingRunner
from tests.values import TEMPLATES, site_of

SITE = site_of(name="lab").value
RECIPE: dict[str, Any] = {
    "name": "demo",
    "version": "1.0",
    "summary": "a demo",
    "homepage": None,
    "license": "MIT",
    "prefix": "/opt/demo",
    "exposes": ["python", "tool"],
    "steps": "whatever else a recipe has",
}


class Quiet:
    """A progress that notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, title: str) -> None:
        self.said.append(title)

    note = line = step


def image_of(folder: Path, data: bytes = b"an image", **changes: Any) -> Path:
    """Make an image's file, its record and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "demo-1.0-lab.sif"
    image.write_bytes(data)
    content = {"site": "lab", "recipe": {**RECIPE, **changes}}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)},
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "content": content,
    }
    image.with_suffix(".json").write_text(json.dumps(body))
    image.with_suffix(".log").write_text("a log")
    return image


def shop(*, ok: bool = True, **changes: Any) -> Shop:
    given = Shop(
        engine=Path("/opt/bin/apptainer"),
        runner=RecordingRunner(strict=True),
        templates=(TEMPLATES,),
        progress=Quiet(),
        check=lambda: [{"name": "runs", "ok": ok, "detail": "x"}],
    )
    return replace(given, **changes)


def put(image: Path, root: Path | None, site: Site = SITE, **changes: Any) -> Published:
    return publish(image, site, root, shop(**changes))


def seen(root: Path) -> list[str]:
    """List what module users see, after a look that each thing works."""
    found = []
    for link in sorted((root / "modules").rglob("*")):
        if link.is_dir():
            continue
        text = link.read_text()
        assert text.startswith(("-- Written by", "#%Module1.0"))
        folder = link.resolve().parent
        record = json.loads((folder / "record.json").read_text())
        image = (folder / "image.sif").read_bytes()
        assert hashlib.sha256(image).hexdigest() == record["image"]["sha256"]
        assert json.loads((folder / "checks.json").read_text())["checks"][0]["ok"]
        for command in ("python", "tool"):
            assert os.access(folder / "bin" / command, os.X_OK)
        assert f"{folder}/bin" in text
        found.append(link.relative_to(root / "modules").as_posix())
    return found


def hidden(root: Path) -> list[Path]:
    return list(root.glob(f"{PREFIX}*"))


BOTH = ["lmod/demo/1.0.lua", "tcl/demo/1.0"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "new" / "it's a (root)"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return image_of(tmp_path / "images")


@pytest.fixture(params=[0o022, 0o077, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


def test_the_tree_under_any_umask(image: Path, root: Path, umask: int) -> None:
    done = put(image, root)
    assert (done.new, done.place.folder) == (True, root / "images/demo/1.0")
    assert seen(root) == BOTH
    modes = {}
    for path in [root.parent, root, *sorted(root.rglob("*"))]:
        if not path.is_symlink() and path.name != ".lock":
            modes[path.relative_to(root.parent).as_posix()] = stat.S_IMODE(path.stat().st_mode)
    programs = {f"{root.name}/images/demo/1.0/bin/{name}" for name in ("python", "tool")}
    folders = {name for name in modes if (root.parent / name).is_dir()}
    assert {modes[name] for name in folders | programs} == {0o755}
    assert {modes[name] for name in modes.keys() - folders - programs} == {0o644}
    assert {name.rsplit("/", 1)[-1] for name in modes.keys() - folders - programs} == {
        *("image.sif", "record.json", "checks.json", "build.log", "module.lua", "module.tcl")
    }
    assert all(not link.readlink().is_absolute() for link in root.rglob("1.0.lua"))
    assert hidden(root) == []


def test_a_shared_root(image: Path, root: Path) -> None:
    root.mkdir(parents=True)
    root.chmod(0o2775)
    put(image, root)
    modes = {
        name: stat.S_IMODE((root / name).stat().st_mode)
        for name in ("images", "images/demo", "modules/tcl/demo", "images/demo/1.0")
    }
    # Colleagues add versions; nobody changes one.
    assert modes == {
        "images": 0o2775,
        "images/demo": 0o2775,
        "modules/tcl/demo": 0o2775,
        "images/demo/1.0": 0o2755,
    }


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to any group")
def test_the_group(image: Path, tmp_path: Path) -> None:
    import grp

    ours, theirs = grp.getgrgid(0).gr_name, grp.getgrall()[3]
    for number, group in ((theirs.gr_gid, None), (0, theirs.gr_name)):
        root = tmp_path / str(number)
        root.mkdir()
        os.chown(root, -1, number)
        site = site_of(name="lab", modules={"group": group} if group else {}).value
        put(image, root, site)
        assert {path.lstat().st_gid for path in root.rglob("*")} == {theirs.gr_gid}
    assert ours != theirs.gr_name


def test_an_unknown_group(image: Path, root: Path) -> None:
    site = site_of(name="lab", modules={"group": "no-such-group"}).value
    with pytest.raises(PublishError, match="no group 'no-such-group'"):
        put(image, root, site)
    assert list(root.iterdir()) == []


def test_no_root(image: Path, root: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        put(image, None)
    assert "--root DIR" in str(caught.value)
    assert "modules.root" in str(caught.value)
    site = site_of(name="lab", modules={"root": str(root)}).value
    assert put(image, None, site).place.root == root


@pytest.mark.parametrize("name", ["a:b", "a$b", "a[b", "a{b", "a\\b", 'a"b', "a\nb", "a`b"])
def test_a_root_that_no_module_system_loads_from(image: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="can't publish in"):
        put(image, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_again_is_nothing_new(image: Path, root: Path) -> None:
    put(image, root)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}

    def never() -> list[dict[str, object]]:
        raise AssertionError("it was checked again")

    assert not put(image, root, check=never).new
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
    (root / "modules/tcl/demo/1.0").unlink()
    assert not put(image, root, check=never).new
    assert seen(root) == BOTH


def test_another_image_of_that_version(image: Path, root: Path, tmp_path: Path) -> None:
    put(image, root)
    other = image_of(tmp_path / "other", b"another image")
    with pytest.raises(PublishError, match=r"demo/1\.0 is published already"):
        put(other, root)
    assert seen(root) == BOTH
    third = image_of(tmp_path / "third", b"another image", version="1.1")
    put(third, root)
    assert seen(root) == [
        *("lmod/demo/1.0.lua", "lmod/demo/1.1.lua", "tcl/demo/1.0", "tcl/demo/1.1")
    ]


def spoil_record(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def spoil(image: Path) -> None:
        path = image.with_suffix(".json")
        body = json.loads(path.read_text())
        change(body)
        path.write_text(json.dumps(body))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda image: image.unlink(), "there is no image"),
        (lambda image: image.with_suffix(".json").unlink(), "has no record"),
        (lambda image: image.with_suffix(".json").write_text('{"sch'), "no whole record"),
        (lambda image: image.write_bytes(b"changed"), "not the image of its record"),
        (spoil_record(lambda body: body.update(schema="dlcontainer/record/9")), "record/9"),
        (spoil_record(lambda body: body["content"].update(site="x")), "was changed"),
        (spoil_record(lambda body: body["content"]["recipe"].update(name="../x")), "no whole"),
        (spoil_record(lambda body: body.pop("content")), "no whole record"),
    ],
)
def test_an_image_that_is_not_its_records(
    image: Path, root: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(image)
    with pytest.raises(PublishError, match=message) as caught:
        put(image, root)
    assert caught.value.exit_code == 6
    assert not root.exists() or (seen(root), hidden(root)) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../x"},
        {"version": "../1"},
        {"summary": "two\nlines"},
        {"exposes": ["../python"]},
        {"prefix": "/opt/$(x)"},
    ],
)
def test_a_record_with_names_that_are_none(
    tmp_path: Path, root: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(PublishError, match="no whole record"):
        put(image_of(tmp_path / "images", **changes), root)


def test_an_image_of_another_site(image: Path, root: Path) -> None:
    with pytest.raises(PublishError, match="built for the site lab, not for elsewhere"):
        put(image, root, site_of(name="elsewhere").value)


def test_an_image_that_fails_a_check(image: Path, root: Path) -> None:
    with pytest.raises(PublishError, match="1 of 1 checks failed: runs"):
        put(image, root, ok=False)
    assert (seen(root), hidden(root), (root / "images").exists()) == ([], [], False)


def test_a_root_that_cannot_be_written(image: Path) -> None:
    with pytest.raises(PublishError, match="can't publish in /proc/x") as caught:
        put(image, Path("/proc/x"))
    assert "--root DIR" in str(caught.value.next_step)


def test_no_space(image: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "free_mb", lambda path: 0)
    with pytest.raises(PublishError, match=r"the image needs 1 MB, .* has 0 MB"):
        put(image, root)
    assert (seen(root), hidden(root)) == ([], [])


class Faults:
    """Makes the Nth change to a file system an error, or the end of the process."""

    names = ("mkdir", "chmod", "chown", "rename", "symlink", "fsync", "open", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
        self.left, self.act = at, act
        for name in self.names:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.act()
            return real(*args, **kwargs)

        return changed


def disk_full() -> None:
    raise OSError(28, "No space left on device")


def test_an_error_at_each_step(image: Path, root: Path) -> None:
    """Whichever change fails: all or nothing is seen, nothing hidden stays."""
    for at in range(1, 500):
        with pytest.MonkeyPatch.context() as monkeypatch:
            faults = Faults(monkeypatch, at, disk_full)
            with contextlib.suppress(PublishError):
                put(image, root)
        visible = seen(root) if root.exists() else []
        assert visible in ([], BOTH[:1], BOTH), at
        assert hidden(root) == [], at
        if faults.left > 0:
            break
    assert 40 < at < 499
    assert seen(root) == BOTH


def test_killed_at_each_step(tmp_path: Path) -> None:
    """Whichever change is the last of a killed publisher: the next one succeeds, and cleans up."""
    image = image_of(tmp_path / "images")
    other = image_of(tmp_path / "other", b"another image")
    for at in range(1, 500):
        root = tmp_path / f"root {at}"
        root.mkdir()
        child = os.fork()
        if child == 0:
            try:
                with pytest.MonkeyPatch.context() as monkeypatch:
                    faults = Faults(monkeypatch, at, lambda: os._exit(9))
                    put(image, root)
                    os._exit(0 if faults.left > 0 else 1)
            finally:  # never back into pytest
                os._exit(2)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 9)
        visible = seen(root)
        assert visible in ([], BOTH[:1], BOTH), at
        # Nothing is visible: then a half-made version hinders nobody, whatever they publish.
        put(image if visible else other, root)
        assert seen(root) == BOTH
        leftovers = [path for path in hidden(root) if (path / "lock").exists()]
        assert leftovers == [], at
        if code == 0:
            break
    assert 40 < at < 499


def test_two_at_once(image: Path, root: Path, tmp_path: Path) -> None:
    """One of many wins; the others see that it is there, or that it is another image."""
    other = image_of(tmp_path / "other", b"another image")
    root.mkdir(parents=True)
    children = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            try:
                new = put(other if number % 2 else image, root).new
                os._exit(10 if new else 11)
            except PublishError as error:
                os._exit(12 if "is published already" in str(error) else 13)
            finally:
                os._exit(2)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [10, 11, 11, 11, 12, 12, 12, 12]
    assert (seen(root), hidden(root)) == (BOTH, [])
