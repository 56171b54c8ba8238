"""Publishing: the tree, its modes and group, and what is refused."""

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.adopt import trust
from dlcontainer.errors import ConfigError, PublishError
from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.image.record import Record
from dlcontainer.proof import reach
from dlcontainer.publish import publish as publishing
from dlcontainer.publish import roots
from dlcontainer.publish.tree import changes
from dlcontainer.system.guarded_files import MINE
from tests.fakes import RecordingRunner
from tests.publishing import BOTH, RECIPE, hidden, image_of, put, seen
from tests.skips import skip
from tests.trees import act, both
from tests.unit.proof.cases import content, gpu_site, write
from tests.unit.proof.cases import image as proved
from tests.values import site_of


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
    assert (done.new, done.generation) == (True, 1)
    assert done.folder == root / "releases" / done.digest
    assert seen(root) == BOTH
    modes = {}
    for path in [root.parent, root, *sorted(root.rglob("*"))]:
        if not path.is_symlink() and path.name not in (".lock", "journal.jsonl"):
            modes[path.relative_to(root.parent).as_posix()] = stat.S_IMODE(path.stat().st_mode)
    names = ("python", "tool", "pip", "dlcontainer-venv")
    programs = {f"{root.name}/releases/{done.digest}/bin/{name}" for name in names}
    folders = {name for name in modes if (root.parent / name).is_dir()}
    assert {modes[name] for name in folders | programs} == {0o755}
    assert {modes[name] for name in modes.keys() - folders - programs} == {0o644}
    assert {name.rsplit("/", 1)[-1] for name in modes.keys() - folders - programs} == {
        *("image.sif", "record.json", "checks.json", "build.log", "module.lua", "module.tcl"),
        *("SHA256SUMS", ".dlcontainer", "site.sh", "release.json", "generation.json"),
        *("catalogue.html", "catalogue.json", "job.sh", "job-functions.sh"),
        *(".modulerc", ".modulerc.lua"),
    }
    assert all(not link.readlink().is_absolute() for link in root.rglob("1.0.lua"))
    assert hidden(root) == []


def test_a_shared_root(image: Path, root: Path) -> None:
    root.mkdir(parents=True)
    root.chmod(0o2775)
    digest = put(image, root).digest
    names = ("releases", "generations", f"releases/{digest}", "generations/1/modules/tcl/demo")
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in names]
    # Colleagues add releases and generations; nobody changes one.
    assert modes == [0o2775, 0o2775, 0o2755, 0o2755]


def test_the_group(image: Path, tmp_path: Path) -> None:
    if os.getuid() != 0:
        skip("only root can give a file to any group", elsewhere="a run as root")
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
    assert put(image, None, site).root == root


@pytest.mark.parametrize("name", ["a:b", "a$b", "a[b", "a{b", "a\\b", 'a"b', "a\nb", "a`b"])
def test_a_root_that_no_module_system_loads_from(image: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="can't publish in"):
        put(image, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_again_is_nothing_new(image: Path, root: Path) -> None:
    put(image, root)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}

    def never(image: Path, written: Record) -> list[dict[str, object]]:
        raise AssertionError("it was checked again")

    assert not put(image, root, check=never).new
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
    assert put(image, root, check=never).generation == 1


@pytest.mark.parametrize("name", BOTH)
def test_a_link_that_is_gone_is_made_again(image: Path, root: Path, name: str) -> None:
    put(image, root)
    (root / "modules" / name).unlink()
    assert put(image, root).generation == 2
    assert seen(root) == BOTH
    (root / "modules" / name).unlink()
    (root / "modules" / name).symlink_to("/etc/passwd")
    assert put(image, root).generation == 3
    assert seen(root) == BOTH


def test_new_facts_of_the_site_are_a_new_release(image: Path, root: Path) -> None:
    """The image is the same file; whoever has loaded the old release keeps it."""
    old = put(image, root)
    site = site_of(name="lab", modules={"pass_environment": ["LAB_X"]}).value
    new = put(image, root, site)
    assert (new.new, new.generation, new.digest != old.digest) == (True, 2, True)
    assert (new.folder / "image.sif").samefile(old.folder / "image.sif")
    assert "LAB_X" not in (old.folder / "bin/python").read_text()
    assert "LAB_X" in (new.folder / "bin/python").read_text()
    assert seen(root) == BOTH


def test_new_facts_are_checked_like_a_new_image(image: Path, root: Path) -> None:
    put(image, root)
    site = site_of(name="lab", modules={"pass_environment": ["LAB_X"]}).value
    with pytest.raises(PublishError, match="checks failed"):
        put(image, root, site, ok=False)
    assert not (root / "generations/2").exists()


def test_another_time_is_no_other_release(
    image: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(image, root)
    monkeypatch.setattr(time, "strftime", lambda *_: "2099-01-01T00:00:00Z")
    assert not put(image, root).new


def test_taken_back_while_it_is_compared(
    image: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not checked in this run becomes live in no case."""
    put(image, root)
    real = publishing._require_image

    def slow(work: object) -> None:
        real(work)  # type: ignore[arg-type]
        act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))

    monkeypatch.setattr(publishing, "_require_image", slow)
    with pytest.raises(PublishError, match="changed while dlcontainer read it"):
        put(image, root)
    assert seen(root) == []


def test_another_image_of_that_version(image: Path, root: Path, tmp_path: Path) -> None:
    put(image, root)
    other = image_of(tmp_path / "other", b"another image")
    with pytest.raises(PublishError, match=r"demo/1\.0 is already published"):
        put(other, root)
    assert seen(root) == BOTH
    third = image_of(tmp_path / "third", b"another image", version="1.1")
    put(third, root)
    assert seen(root) == both("1.0", "1.0-1", "1.1", "1.1-1")


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
        (
            lambda image: image.with_suffix(".json").write_text('{"sch'),
            "invalid record: incomplete JSON",
        ),
        (lambda image: image.write_bytes(image.read_bytes() + b"x"), "does not match its record"),
        (lambda image: image.write_bytes(b"changed"), "is not a SIF image"),
        (spoil_record(lambda body: body.update(schema="dlcontainer/record/9")), "record/9"),
        (spoil_record(lambda body: body["content"].update(site="x")), "was changed"),
        (
            spoil_record(lambda body: body["content"]["recipe"].update(name="../x")),
            "content.recipe.name",
        ),
        (spoil_record(lambda body: body.pop("content")), "'content' is missing"),
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
    with pytest.raises(PublishError, match=r"invalid record: content\.recipe"):
        put(image_of(tmp_path / "images", **changes), root)


ELSEWHERE = [
    *("/../../../victim", "/../../other/9.9", "..", ".", "", "/", "a/b", "A", "-x", ".x"),
    *("a\nb", "a\0b", "x" * 64, "\u202e", 7, ["a"], {"a": "b"}, True),
]


@pytest.mark.parametrize("key", ["epoch", "node_type", "site"])
@pytest.mark.parametrize("value", ELSEWHERE)
def test_a_record_that_leads_elsewhere(tmp_path: Path, key: str, value: object) -> None:
    """The record is consistent: only the value is none. Nothing is removed, nothing is made."""
    root, victim = tmp_path / "root", tmp_path / "victim"
    (victim / "images/other").mkdir(parents=True)
    (victim / "key").write_text("secret")
    (root / "releases/1.0-").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    image = image_of(tmp_path / "given", more={key: value})
    with pytest.raises(PublishError, match=rf"invalid record: content\.{key}"):
        put(image, root)
    assert sorted(path for path in tmp_path.rglob("*") if "given" not in path.parts) == before


def test_an_epoch_and_a_node_type(tmp_path: Path, root: Path) -> None:
    image = image_of(tmp_path / "given", more={"epoch": "2026", "node_type": "gpu.a100"})
    assert put(image, root).version == "1.0-2026-gpu.a100"
    assert len(seen(root)) == 4


def test_an_image_of_another_site(image: Path, root: Path) -> None:
    with pytest.raises(PublishError, match="built for the site lab, not for elsewhere"):
        put(image, root, site_of(name="elsewhere").value)


def test_an_image_that_fails_a_check(image: Path, root: Path) -> None:
    with pytest.raises(PublishError, match="1 of 1 checks failed: runs"):
        put(image, root, ok=False)
    assert (seen(root), hidden(root), (root / "releases").exists()) == ([], [], False)


def test_an_image_that_nobody_checked(image: Path, root: Path) -> None:
    with pytest.raises(PublishError, match="0 of 0 checks failed"):
        put(image, root, check=lambda image, written, site: [])
    untried = [CheckRecord(name="runs", ok=False, state="not tried", detail="x")]
    assert put(image, root, check=lambda image, written, site: untried).new


def test_another_image_with_the_record_of_a_published_one(image: Path, root: Path) -> None:
    """The same version again is compared by its bytes, not by its record's word."""
    put(image, root)
    with image.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    with pytest.raises(PublishError, match="does not match its record"):
        put(image, root)
    assert seen(root) == BOTH


def test_a_root_that_cannot_be_written(image: Path) -> None:
    with pytest.raises(PublishError, match="can't publish in /proc/x") as caught:
        put(image, Path("/proc/x"))
    assert "--root DIR" in str(caught.value.next_step)


def test_no_space(image: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "free_mb", lambda path: 0)
    with pytest.raises(PublishError, match=r"the image needs 1 MB, but .* has 0 MB"):
        put(image, root)
    assert (seen(root), hidden(root)) == ([], [])


def test_an_adopted_image_is_published_once_it_is_trusted(tmp_path: Path, root: Path) -> None:
    told = {key: RECIPE[key] for key in ("name", "version", "summary", "prefix", "exposes")}
    told |= {
        "source": "vendor.sif",
        "digest": f"sha256:{'cd' * 32}",
        "python": "/opt/demo/bin/python",
    }
    image = image_of(tmp_path / "given", more={"adopted": told, "recipe": None})
    with pytest.raises(PublishError, match="nobody trusted it yet") as caught:
        put(image, root)
    assert str(caught.value.next_step).endswith("--site lab --trust")
    assert not root.exists() or not seen(root)
    file = trust.of_others(image, MINE)
    assert file is not None
    trust.write(image, file, "ada")
    assert put(image, root).version == "1.0"
    with pytest.raises(PublishError, match="built for the site lab") as caught:
        put(image, root, site=site_of(name="elsewhere").value)
    assert (
        caught.value.next_step
        == "adopt it for this site: dlcontainer adopt SOURCE --site elsewhere"
    )


def test_the_module_s_help_says_how_far_the_site_got(
    image: Path, root: Path, tmp_path: Path
) -> None:
    site = gpu_site(name="lab")
    given = content(image=proved(site="lab"), date="2026-11-22T10:00:00Z")
    files = reach.read([write(tmp_path / "proof.json", given)])
    done = put(image, root, site, proofs=files)
    for name in ("module.lua", "module.tcl"):
        text = (done.folder / name).read_text()
        assert "How far this site got, by the files given when this was published:" in text
        assert "  built: 2026-11-22, an image for it ran in a job" in text
        assert "  validated: not shown" in text


def test_without_a_proof_the_help_says_nothing_of_it(
    image: Path, root: Path, tmp_path: Path
) -> None:
    site = gpu_site(name="lab")
    done = put(image, root, site)
    assert "How far" not in (done.folder / "module.lua").read_text()
    # The job ran with the published image; then its proof comes into the help.
    given = content(image=proved(site="lab"), date="2026-11-22T10:00:00Z")
    files = reach.read([write(tmp_path / "proof.json", given)])
    again = put(image, root, site, proofs=files)
    assert again.new
    assert "How far" in (root / "modules/lmod/demo/1.0.lua").read_text()
    assert (again.folder / "image.sif").samefile(done.folder / "image.sif")


DEBIAN = {"distribution": "debian", "release": "bookworm"}
VENDOR = {"image": f"docker.io/library/x@sha256:{'0' * 64}"}
TORCH = {"imports": {"torch": "2.13.0"}}


@pytest.mark.parametrize(
    ("packages", "base", "verify", "says"),
    [
        (["gcc", "libstdc++6", "g++-12-base-x"], DEBIAN, TORCH, True),
        (["g++", "g++-12"], DEBIAN, TORCH, False),
        (["gcc-c++"], DEBIAN, TORCH, False),
        (["clang-16"], DEBIAN, TORCH, False),
        (["gcc"], VENDOR, TORCH, False),
        (["gcc"], DEBIAN, {"imports": {"numpy": "2"}}, False),
        (None, DEBIAN, TORCH, False),
    ],
)
def test_help_says_that_torch_compile_has_no_compiler(
    tmp_path: Path,
    root: Path,
    packages: list[str] | None,
    base: dict[str, str],
    verify: dict[str, Any],
    *,
    says: bool,
) -> None:
    image = image_of(tmp_path / "i", base=base, verify=verify)
    if packages is not None:
        bill = {"bomFormat": "CycloneDX", "components": [{"name": name} for name in packages]}
        image.with_suffix(".cdx.json").write_text(json.dumps(bill))
    folder = put(image, root).folder
    for name in ("module.lua", "module.tcl"):
        assert ("torch.compile needs a C++ compiler" in (folder / name).read_text()) is says


def test_the_site_s_commands_and_its_log(image: Path, root: Path) -> None:
    """The image's folder is striped, the switch followed, and users read that starts are logged."""
    modules: dict[str, list[str]] = {
        "after_publish": ["update", "-d", "/c"],
        "stripe": ["lfs", "setstripe", "-c", "8"],
        "usage": ["logger", "-t", "it's"],
    }
    runner = RecordingRunner()
    site = site_of(name="lab", modules=modules).value
    done = put(image, root, site, runner=runner)
    (*striped, folder), followed = runner.argvs
    assert (striped, followed) == (modules["stripe"], ("update", "-d", "/c"))
    assert folder.startswith(f"{root}/.dlcontainer-")
    help_text = (done.folder / "module.lua").read_text()
    assert "This site logs each start, with module, release and job" in help_text
    wrapper = next((done.folder / "bin").iterdir()).read_text()
    assert """ logger -t 'it'"'"'s' "module=""" in wrapper
    assert put(image, root, site, runner=runner).new is False
    assert len(runner.argvs) == 2
