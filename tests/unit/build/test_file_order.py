"""The order of an image's files: traces, and the sort files made of them."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.build import file_order
from dlcontainer.build.file_order import SquashOrder
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.errors import BenchDataError, ConfigError
from dlcontainer.image import layout, open_trace, record
from dlcontainer.image.contents import FolderTree, TreeEntry
from dlcontainer.image.open_trace import HEADER, Trace
from dlcontainer.lab.filesystem.counting import Count, CountingResult

HOSTILE = ("a b", "#c", "back\\slash", "it's", "ünï 空", '"q"', "-d", "x/ -32768", "$(y)")


def counted(*files: str, tool: str = "strace") -> CountingResult:
    node = Count(operations={"open": len(files)}, bytes=0, files=files)
    return CountingResult(tool=tool, ranks=(), node=node, slowest_s=1.0)  # type: ignore[arg-type]


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "it's a trace"
    trace = Trace(paths=HOSTILE)
    open_trace.write(trace, path)
    assert path.read_text().splitlines()[0] == HEADER
    assert open_trace.read(path) == trace
    assert open_trace.read(path).digest != Trace(paths=HOSTILE[::-1]).digest


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (b"", 1, "the first line is not"),
        (b"# dlcontainer/trace/2\na\n", 1, "the first line is not"),
        (b"# dlcontainer/trace/1\r\na\r\n", 1, "the first line is not"),
        (b"# dlcontainer/trace/1\n", 2, "the trace lists no file"),
        (b"# dlcontainer/trace/1\na\n/b\n", 3, "'/b': a path from '/'"),
        (b"# dlcontainer/trace/1\na\n\nb\n", 3, "an empty line"),
        (b"# dlcontainer/trace/1\na\nb/../../c\n", 3, "not a plain path"),
        (b"# dlcontainer/trace/1\n./a\n", 2, "not a plain path"),
        (b"# dlcontainer/trace/1\na//b\n", 2, "not a plain path"),
        (b"# dlcontainer/trace/1\na\tb\n", 2, "a control character"),
        (b"# dlcontainer/trace/1\na\nb\na\n", 4, "line 2 lists it already"),
        (b"# dlcontainer/trace/1\n\xff\n", 2, "not UTF-8"),
        (b"\x7fELF\x00\x01", 1, "the first line is not"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, text: bytes, where: int, message: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        open_trace.read(path)
    assert caught.value.where == f"{path}:{where}"
    assert "lab count --trace" in str(caught.value.next_step)


def test_a_trace_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't read .*none: No such file"):
        open_trace.read(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"can't write .*No such file"):
        open_trace.write(Trace(paths=("a",)), tmp_path / "no folder" / "trace")


def test_what_was_opened_makes_a_trace() -> None:
    files = ("/t/b", "/t/a", "/t/b", "/tree/c", "/t", "/t/line\nbreak", "/t/bad\udcff")
    assert counted(*files).trace(Path("/t")).paths == ("b", "a")
    assert counted("/x/y", "/x").trace(None).paths == ("x/y", "x")
    assert counted("b", "a", tool="slowfs").trace(Path("/t")).paths == ("b", "a")
    with pytest.raises(BenchDataError, match="opened no file in the traced folder"):
        counted("/elsewhere").trace(Path("/t"))


def entries(files: Sequence[str], **links: str) -> list[TreeEntry]:
    found = [TreeEntry(path=f"/{name}", kind="-", size=1) for name in files]
    found.append(TreeEntry(path="/folder", kind="d", size=0))
    targets = [(name.replace("_", "/"), target) for name, target in links.items()]
    return found + [TreeEntry(path=f"/{name}", kind="l", size=0, target=to) for name, to in targets]


def lines(trace: Sequence[str], tree: list[TreeEntry]) -> tuple[list[str], int]:
    made = file_order.sort(Trace(paths=tuple(trace)), tree)
    text = made.text.decode()
    assert made.files == len(text.splitlines())
    return text.splitlines(), made.strangers


def test_first_opened_first_in_the_image() -> None:
    found, strangers = lines(["c", "none", "a", "folder"], entries(["a", "b", "c"]))
    assert (found, strangers) == (["c 32767", "a 32766"], 1)


def test_links_of_the_tree_are_followed() -> None:
    tree = entries(
        ["usr/lib/x.so", "usr/bin/python3.11"],
        lib="usr/lib",
        opt_python="/usr/bin/python3",
        usr_bin_python3="python3.11",
        up="../../usr",
        ring="ring",
    )
    found, strangers = lines(
        ["lib/x.so", "usr/lib/x.so", "opt/python", "up/lib/x.so", "ring", "ring/x"], tree
    )
    assert (found, strangers) == (["usr/lib/x.so 32767", "usr/bin/python3.11 32766"], 2)


def test_names_that_mean_something_to_mksquashfs() -> None:
    # Its own reading: a backslash takes the next byte as it is, white space ends the name.
    text = file_order.sort(Trace(paths=HOSTILE), entries(HOSTILE)).text
    for line, name in zip(text.splitlines(), HOSTILE, strict=True):
        read = re.fullmatch(rb"((?:\\.|[^\\\s#])+) (\d+)", line, re.DOTALL)
        assert read is not None
        assert re.sub(rb"\\(.)", rb"\1", read[1]).decode() == name
        assert int(read[2]) > 32750


def test_more_files_than_numbers() -> None:
    names = [f"f{number}" for number in range(70_000)]
    made = file_order.sort(Trace(paths=tuple(names)), entries(names))
    numbers = [int(line.split()[1]) for line in made.text.splitlines()]
    assert numbers == sorted(numbers, reverse=True)
    assert (numbers[0], min(numbers) >= 1) == (32767, True), "0 is what no list names"


def test_what_is_passed_over_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    assert file_order.arranger(None, notes.append, has_pack=False) is None
    (tmp_path / "a").touch()
    made = file_order.arranger(Trace(paths=("a", "x", "y")), notes.append, has_pack=False)
    assert made is not None
    assert made(FolderTree(folder=tmp_path), tmp_path) == SquashOrder(
        sort=b"a 32767\n", actions=b""
    )
    assert notes == [
        "ordered 1 files of the image as in the trace",
        "skipped 2 paths of the trace that are not in the image",
    ]


def test_a_record_names_the_order(tmp_path: Path) -> None:
    from tests.unit.image.test_record import TREE, write

    path = write(tmp_path, TREE)
    told = record.read(path)
    assert told is not None
    assert (told.engine.squash, told.engine.order) == (SQUASH, None)
    path.write_text(path.read_text().replace('"order": null', '"order": "ab"'))
    other = record.read(path)
    assert other is not None
    assert (other.engine.squash, other.engine.order) == (SQUASH, "ab")


def test_the_module_pack_lies_first() -> None:
    tree = entries(["a", "opt/x/site-packages/_dlcontainer_pack.bin", "c"])
    first = "opt/x/site-packages/_dlcontainer_pack.bin 32767"
    assert lines(["c", "a"], tree)[0] == [first, "c 32766", "a 32765"]
    assert lines(["c", first.split(maxsplit=1)[0]], tree)[0] == [first, "c 32766"]


def packed_tree(folder: Path, trace: str | None) -> Path:
    """Make the tree of an image with a module pack, as the build is about to pack it."""
    names = ["a", "b", "c", "opt/x/site-packages/_dlcontainer_pack.bin"]
    names += [".singularity.d/env/90-environment.sh", ".singularity.d/labels.json"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if trace is not None:
        path = folder / layout.TRACE.lstrip("/")
        path.parent.mkdir(parents=True)
        path.write_text(trace)
    return folder


FIRST = ["opt/x/site-packages/_dlcontainer_pack.bin", r".singularity.d/env/90-environment.sh"]


@pytest.mark.parametrize(
    ("trace", "wanted"),
    [
        (f"{HEADER}\nc\nnone\na\n", ["c", "a"]),
        (f"{HEADER}\n", []),  # no import could be traced
        ("not a trace\n", []),  # a recipe's snippet has written over it
        (None, []),
    ],
)
def test_a_packed_image_has_the_order_of_its_own_trace(
    tmp_path: Path, trace: str | None, wanted: list[str]
) -> None:
    notes: list[str] = []
    made = file_order.arranger(None, notes.append, has_pack=True)
    assert made is not None
    text = made(FolderTree(folder=packed_tree(tmp_path, trace)), tmp_path).sort.decode()
    assert [line.split()[0] for line in text.splitlines()] == FIRST + wanted
    assert notes == []


def test_a_trace_that_was_given_is_better_than_the_pack_s(tmp_path: Path) -> None:
    tree = FolderTree(folder=packed_tree(tmp_path, f"{HEADER}\nc\n"))
    notes: list[str] = []
    made = file_order.arranger(Trace(paths=("b",)), notes.append, has_pack=True)
    assert made is not None
    text = made(tree, tmp_path).sort.decode()
    assert [line.split()[0] for line in text.splitlines()] == [*FIRST, "b"]
    assert notes == ["ordered 3 files of the image as in the trace"]


def test_the_libraries_that_the_pack_s_imports_open_lie_as_they_are(tmp_path: Path) -> None:
    names = ["opt/x/liba.so.1", "opt/x/odd [name].so", "opt/x/not-opened.so", "opt/x/one.py"]
    opened = [name for name in names if name != "opt/x/not-opened.so"]
    folder = packed_tree(tmp_path, "\n".join([HEADER, *opened, ""]))
    for name in names:
        (folder / name).write_bytes(bytes(5000))
    notes: list[str] = []
    for trace in (None, Trace(paths=("opt/x/not-opened.so",))):  # it decides the order alone
        made = file_order.arranger(trace, notes.append, has_pack=True, raw_libraries=True)
        assert made is not None
        arranged = made(FolderTree(folder=folder), tmp_path)
        assert arranged.actions == b'uncompressed@pathname("opt/x/liba.so.1")\n'
