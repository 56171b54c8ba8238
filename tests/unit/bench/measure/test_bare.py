"""The bare arm: an unpacked image's Python, its loader and libraries; what is refused, and why."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import pytest

from dlcontainer.bench.measure.bare import tree
from dlcontainer.bench.measure.bare.tree import CannotStartError
from dlcontainer.bench.report.text import scope_text, verdict_text
from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError
from dlcontainer.image.contents import elf
from dlcontainer.system.process import CompletedCommand, RunOptions
from tests.benchrunner import Bench, ProbeRunner
from tests.judging import analyse
from tests.unit.bench.samples.test_continuation import interrupted

LOADER = "/lib64/ld-linux-x86-64.so.2"
BOTH: dict[str, Any] = {"arms": ("bare", "container"), "looks": (2,), "native": None}


def program(name: str | None = LOADER, order: str = "<") -> bytes:
    """Make the head of an ELF program that asks for a loader."""
    text = b"" if name is None else name.encode() + b"\0"
    head = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + bytes(10)
    head += struct.pack(f"{order}HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    kinds = (6, 1 if name is None else 3)
    table = b"".join(
        struct.pack(f"{order}IIQQQQQQ", kind, 4, 176, 0, 0, len(text), len(text), 1)
        for kind in kinds
    )
    return head + table + text


def unpacked(root: Path) -> Path:
    """Make a tree as Debian's, with an environment over its Python."""
    for name in ("usr/bin", "usr/lib/x86_64-linux-gnu", "etc/ld.so.conf.d", "opt/demo/bin"):
        (root / name).mkdir(parents=True)
    (root / "usr/lib64").mkdir()
    for name in ("lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "usr/lib/x86_64-linux-gnu/ld.so").touch()
    (root / "usr/lib64/ld-linux-x86-64.so.2").symlink_to("/usr/lib/x86_64-linux-gnu/ld.so")
    (root / "usr/bin/python3.11").write_bytes(program())
    (root / "opt/demo/bin/python").symlink_to("/usr/bin/python3.11")
    (root / "opt/demo/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    own = root / "etc/ld.so.conf.d"
    (own / "a.conf").write_text("# the usual\n/usr/local/lib\n/usr/lib/x86_64-linux-gnu\n")
    (own / "again.conf").write_text("include ld.so.conf.d/again.conf\n")
    return root


@dataclass(slots=True)
class Unpacker(ProbeRunner):
    """Unpacks an image, and says what the bare Python has mapped."""

    mapped: str = ""
    failing: str = ""

    def __call__(self, argv: Sequence[str], **options: Unpack[RunOptions]) -> CompletedCommand:
        if "--sandbox" in argv:
            root = unpacked(Path(argv[-2]))
            packages = root / "opt/demo/lib/python3.11/site-packages"
            packages.mkdir(parents=True)
            for name in ("bin", "pth", "py"):
                (packages / f"_dlcontainer_pack.{name}").touch()
        done = ProbeRunner.__call__(self, argv, **options)
        if "-S" in argv and "dlc-start" not in "".join(argv):
            root = Path(argv[0]).parents[1]
            return replace(done, stdout=self.mapped or f"{root}/usr/lib/libc.so.6\n")
        return done


def test_a_program_names_its_loader(tmp_path: Path) -> None:
    for order in "<>":
        (tmp_path / "python").write_bytes(program(order=order))
        assert elf.interpreter(tmp_path / "python") == LOADER
    (tmp_path / "python").write_bytes(program(None))
    assert elf.interpreter(tmp_path / "python") is None


@pytest.mark.parametrize("data", [b"#!/bin/sh\n", program()[:100], b"", b"\x7fELF\x01" + bytes(80)])
def test_what_is_no_program(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "python").write_bytes(data)
    with pytest.raises(ValueError, match=r"ELF program|is truncated in"):
        elf.interpreter(tmp_path / "python")


def test_a_tree_leads_into_itself(tmp_path: Path) -> None:
    root = unpacked(tmp_path / "tree")
    (root / "etc/above").symlink_to("../../../usr/bin")
    (root / "etc/within").symlink_to("../usr/bin")
    found = tree.prepare(root, "/opt/demo", "/opt/demo/bin/python")
    assert found.python.resolve() == root / "usr/bin/python3.11"
    assert (root / "opt/demo/pyvenv.cfg").read_text().startswith(f"home = {root}/usr/bin\n")
    assert (root / "etc/above").readlink() == root / "usr/bin"
    assert (root / "etc/within").readlink() == Path("../usr/bin")
    words = found.started({"LD_LIBRARY_PATH": "/opt/demo/lib"})
    assert words[:3] == (f"{root}{LOADER}", "--inhibit-cache", "--library-path")
    folders = words[3].split(":")
    # The image's variable, its list, the loader's own folder, the usual ones that are there.
    assert folders[:2] == [f"{root}/opt/demo/lib", f"{root}/usr/lib/x86_64-linux-gnu"]
    assert f"{root}/usr/local/lib" not in folders
    assert all(folder.startswith(f"{root}/") for folder in folders)
    given = {"LD_LIBRARY_PATH": "/opt/demo/lib", "LANG": "C.UTF-8", "DEMO": "/opt/demo/x:/tmp"}
    assert found.environment(given) == {"LANG": "C.UTF-8", "DEMO": f"{root}/opt/demo/x:/tmp"}


def test_a_tree_whose_python_can_t_be_started(tmp_path: Path) -> None:
    root = unpacked(tmp_path / "tree")
    (root / "usr/lib64/ld-linux-x86-64.so.2").unlink()
    with pytest.raises(CannotStartError, match=r"the loader .* is missing"):
        tree.prepare(root, "/opt/demo", "/opt/demo/bin/python")
    root = unpacked(tmp_path / "other")
    (root / "usr/bin/python3.11").write_text("#!/bin/sh\n")
    with pytest.raises(CannotStartError, match="not an ELF program"):
        tree.prepare(root, "/opt/demo", "/opt/demo/bin/python")
    root = unpacked(tmp_path / "third")
    with pytest.raises(CannotStartError, match="No such file"):
        tree.prepare(root, "/opt/demo", "/opt/demo/bin/python4")


def measured(bench: Bench, runner: ProbeRunner | None = None, **changes: Any) -> Series:
    bench.run(runner or Unpacker(), **{**BOTH, **changes})
    return bench.read()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, planned=True)


def test_the_engine_alone(bench: Bench) -> None:
    runner = Unpacker(wall=lambda inside: 1.5 if inside else 1.0)
    series = measured(bench, runner, looks=(8,))
    assert series.session.declared.arms == ("bare", "container")
    argv = series.session.arms["bare"].argv
    root = Path(next(word for word in argv if word.endswith(LOADER)).removesuffix(LOADER))
    assert str(root / "opt/demo/bin/python") in argv
    # The probe that the image carries, as in the container.
    assert str(root / "opt/dlcontainer/probe") in argv
    (packing,) = [argv for argv in runner.others if "--everywhere" in argv]
    assert packing[0] == f"{root}{LOADER}"
    assert packing[-1] == "torch"
    assert not list((root / "opt/demo/lib/python3.11/site-packages").glob("_dlcontainer_pack.*"))
    analysis = analyse(series)
    assert analysis.verdict.word == "SLOWER"
    assert "in the container than in the image's own Python" in verdict_text.sentence(analysis)
    assert "what differs is the engine." in scope_text.scope(analysis)
    assert "not the container's cost against a native stack" in scope_text.scope(analysis)


def test_the_build_alone(bench: Bench) -> None:
    series = measured(bench, arms=("native", "bare"), native=bench.folder / "native")
    assert {sample.arm for sample in series.samples} == {"native", "bare"}
    text = scope_text.scope(analyse(series))
    assert "what differs is the build." in text
    assert "No container ran" in text


def test_a_cut_session_goes_on(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(bench, Unpacker(odd=interrupted(4)))
    series = measured(bench, cut=continuation.read(bench.folder / "samples.jsonl"))
    assert series.complete


def test_what_lies_in_a_tree_moves_with_it() -> None:
    facts: dict[str, Any] = {
        "sys_prefix": "/a/bare/opt/demo",
        "sys_path": ["/a/bare/usr/lib", "/elsewhere"],
    }
    assert continuation.moved(facts, "/b/bare/opt/demo", inside="/opt/demo") == {
        "sys_prefix": "/b/bare/opt/demo",
        "sys_path": ["/b/bare/usr/lib", "/elsewhere"],
    }


def test_libraries_of_the_host_are_refused(bench: Bench) -> None:
    runner = Unpacker(mapped="/usr/lib/locale/C.utf8/LC_CTYPE\n/usr/lib/libc.so.6\n")
    with pytest.raises(BenchDataError, match="the bare arm can't run") as caught:
        measured(bench, runner)
    assert caught.value.why == "its Python loads libraries of the host: /usr/lib/libc.so.6"
    assert "--arms native,unpacked,container" in str(caught.value.next_step)
    assert not runner.launches


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"planned": False}, "was built from"), ({"adopted": True}, "somebody else's")],
)
def test_only_an_image_of_this_recipe(bench: Bench, changes: dict[str, Any], words: str) -> None:
    runner = Unpacker()
    arms = ("native", "bare", "container")
    with pytest.raises(BenchDataError, match=words):
        measured(replace(bench, **changes), runner, arms=arms, native=bench.folder / "native")
    # Nothing of it was unpacked, let alone run.
    assert not runner.others
