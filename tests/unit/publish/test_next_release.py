"""`publish --release`: the next image of a version, with what its texts and its report say."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.cli import main
from dlcontainer.cli import publish as command
from dlcontainer.errors import PublishError
from dlcontainer.image import published_as
from dlcontainer.image.checks_file import CheckRecord
from dlcontainer.publish.publish import Publication
from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.numbers import Succession
from tests.publishing import BOTH, hidden, image_of, put, seen
from tests.trees import both

NEXT = Succession(days=90)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "it's a (root)"


@pytest.fixture
def images(tmp_path: Path) -> Sequence[Path]:
    return [image_of(tmp_path / f"images {i}", f"image {i}".encode()) for i in range(3)]


def released(image: Path, root: Path) -> Publication:
    return put(image, root, succession=NEXT)


def test_it_stands_beside_the_first(images: Sequence[Path], root: Path) -> None:
    first = released(images[0], root)
    assert (first.number, first.release, first.new, seen(root)) == (1, "demo/1.0-1", True, BOTH)
    second = released(images[1], root)
    assert (second.number, second.module) == (2, "demo/1.0")
    assert (root / "modules/tcl/demo/1.0").resolve().parent == second.folder
    lua, wrapper = ((second.folder / name).read_text() for name in ("module.lua", "bin/python"))
    assert 'setenv("DLCONTAINER_RELEASE", "demo/1.0-2")' in lua
    assert "dlc_pass DLCONTAINER_RELEASE demo/1.0-2" in wrapper
    functions = (second.folder / "job/job-functions.sh").read_text()
    assert "printf 'job: release %s\\n' 'demo/1.0-2' >&2" in functions
    script = (second.folder / "job/job.sh").read_text()
    assert "dlc_inside DLCONTAINER_RELEASE demo/1.0-2" in script
    assert published_as.module(second.folder / "image.sif") == "demo/1.0-2"
    assert published_as.module(images[1]) is None
    # A retry of a publisher that was cut off after the switch.
    again = released(images[1], root)
    assert (again.new, again.number, again.digest) == (False, 2, second.digest)
    # Of an older image: it goes to its own number.
    older = put(images[0], root)
    assert (older.new, older.number, older.digest) == (False, 1, first.digest)


def test_without_the_option_it_is_refused(images: Sequence[Path], root: Path) -> None:
    first = put(images[0], root)
    with pytest.raises(PublishError, match="already published with another image") as caught:
        put(images[1], root)
    error = caught.value
    # What it is of comes first; the tree's long path comes last.
    assert str(error).splitlines()[0] == "demo/1.0 is already published with another image"
    assert str(error.why).endswith(str(first.folder))
    assert "with --release" in str(error.next_step)
    assert seen(root) == BOTH


def test_two_at_once(images: Sequence[Path], root: Path) -> None:
    """Another publisher takes the number while this one checks: it gets the next one."""
    released(images[0], root)
    others: list[Publication] = []

    def check(*_: object) -> list[CheckRecord]:
        others.append(released(images[1], root))
        return [CheckRecord(name="runs", ok=True, detail="x")]

    done = put(images[2], root, succession=NEXT, check=check)
    assert ([other.number for other in others], done.number) == ([2], 3)
    for number, publication in ((2, others[0]), (3, done)):
        text = (publication.folder / "module.lua").read_text()
        assert f'setenv("DLCONTAINER_RELEASE", "demo/1.0-{number}")' in text
    assert [live.release.number for live in changes.listing(root)] == [3, 2, 1]
    assert hidden(root) == []


def test_the_command_says_which(
    images: Sequence[Path], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    released(images[0], root)
    done = released(images[1], root)
    command._show(done, "lmod", as_json=False)
    said = capsys.readouterr().out
    assert "module load demo/1.0   # release 2: demo/1.0-2" in said
    command._show(done, "lmod", as_json=True)
    body = json.loads(capsys.readouterr().out)
    assert (body["module"], body["release"], body["number"]) == ("demo/1.0", "demo/1.0-2", 2)
    kept = both("1.0", "1.0-1", "1.0-2")
    names = sorted(
        path.relative_to(root / "modules").as_posix() for path in root.glob("modules/*/*/1*")
    )
    assert names == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"name": "../x", "version": "1"}',
        '{"name": "a", "version": "1", "number": "x"}',
        '{"name": "a"}',
    ],
)
def test_what_is_no_description(tmp_path: Path, text: str) -> None:
    (tmp_path / "release.json").write_text(text)
    assert published_as.module(tmp_path / "image.sif") is None


def test_the_script_for_cernvm_fs_names_it(
    images: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script publishes later: the word of this line stands in it, and only if it was given."""
    monkeypatch.chdir(tmp_path)
    root = "/cvmfs/sw.example.org/a"
    argv = ["publish", str(images[0]), "--site", "local", "--layout", "tree", "--root", root]
    for words, end in (([], ""), (["--release"], " --release")):
        assert main._run([*argv, "--cvmfs", "x.sh", *words], as_json=False) == 0
        lines = (tmp_path / "x.sh").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("dlcontainer publish"))
        assert line.endswith(f" --root {root} --layout tree{end}")
