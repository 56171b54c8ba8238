"""The loader of the module pack: what it may be; tests/integration/packs has what it does."""

import ast
import importlib
import json
import marshal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.values import ROOT

LOADER = ROOT / "dlcontainer" / "probe" / "module_pack.py"
# Each start of the image's Python reads it.
MOST_LINES = 60


def test_it_stays_small() -> None:
    text = LOADER.read_text()
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            words |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = [
        line
        for number, line in enumerate(text.splitlines(), start=1)
        if number not in words and line.strip() and not line.strip().startswith("#")
    ]
    assert len(lines) <= MOST_LINES


def test_it_imports_what_a_start_has_loaded_or_is_compiled_in() -> None:
    tree = ast.parse(LOADER.read_text())
    names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert names == {"_frozen_importlib_external", "marshal", "mmap", "os", "sys"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_it_never_touches_the_finders_of_all_modules() -> None:
    assert "meta_path" not in LOADER.read_text()


def test_an_import_reads_the_front_of_a_pack_whatever_a_training_step_adds(tmp_path: Path) -> None:
    writer = loaded("pack_modules")
    names = {"a": (b"later", 1), "b": (b"first", 0), "c": (b"later", 1), "d": (b"", 0)}
    packed = {
        tail: writer.Packed("module" if code else "extension", f"{tail}.py", code, when)
        for tail, (code, when) in names.items()
    }
    folder = str(tmp_path)
    pack = writer.render({folder: packed}, {folder: 1.0}, False, folder)
    size = int.from_bytes(pack[24:32], "little")
    stamp, _, index = marshal.loads(pack[64 : 64 + size])[folder]
    assert (stamp, writer.check(pack)) == (1.0, "")
    assert pack[64 + size :] == b"firstlater"
    code = {tail: pack[start:stop] for tail, (_, _, start, stop) in index.items()}
    assert code == {"a": b"later", "b": b"first", "c": b"later", "d": b""}


def test_a_folder_that_is_not_stamped_is_for_a_private_copy_alone(tmp_path: Path) -> None:
    # its time may be its time of change too, on a machine that was unpacked from a disk image
    stamped = loaded("pack_modules").stamped
    inside, outside = str(tmp_path / "environment" / "alpha"), str(tmp_path / "library")
    for folder in (inside, outside):
        Path(folder).mkdir(parents=True)
    folders: dict[str, dict[str, object]] = {inside: {}, outside: {}}
    root = str(tmp_path / "environment")
    assert list(stamped(folders, root, False)) == [inside]
    assert stamped(folders, "", False) == {}
    assert stamped(folders, root, True)[outside] == Path(outside).stat().st_mtime


def test_folders_of_an_environment_are_named_from_the_pack() -> None:
    seen_from = loaded("pack_modules").seen_from
    target = "/env/lib/python3/site-packages"
    assert seen_from(target, f"{target}/alpha/sub", "/env") == "alpha/sub"
    assert seen_from(target, target, "/env/") == "."
    assert seen_from(target, "/env/lib64/python3/site-packages/a", "/env") == (
        "../../../lib64/python3/site-packages/a"
    )
    # Of another tree, which stays where it is.
    assert seen_from(target, "/usr/lib/python3", "/env") == "/usr/lib/python3"
    assert seen_from(target, "/environment/lib", "/env") == "/environment/lib"
    assert seen_from("/elsewhere", "/env/lib", "/env") == "/env/lib"


def test_a_trace_has_the_files_that_an_image_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = loaded("pack_trace")
    monkeypatch.setattr(tracer, "OUTSIDE", ("/proc/", f"{tmp_path}/bound/"))
    for name in ("b c", "a", "bound/x", "libfakeroot.so", "line\nbreak", "bad\udcff"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    monkeypatch.setenv("LD_PRELOAD", f"/usr/lib/libother.so:{tmp_path}/libfakeroot.so")
    names = ["b c", "bound/../a", "link", "none", "bound", "bound/x", "libfakeroot.so"]
    opened = [f"{tmp_path}/{name}" for name in [*names, "line\nbreak", "bad\udcff"]]
    opened += ["relative", "/proc/self/maps", "/dev/null"]
    assert tracer.kept([*opened, 3, b"/etc/passwd", None]) == [f"{tmp_path}/a", f"{tmp_path}/b c"]


def test_what_lies_first_is_what_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    imports = loaded("pack_imports")
    told = {
        "one": {"start": ["/p"], "opened": ["/s2", "/s1"], "mapped": ["/l1", "/p"]},
        "two": {"start": ["/p"], "opened": ["/s0", "/l1"], "mapped": ["/l0"]},
    }

    def traced(name: str, out: str) -> None:
        if name in told:  # else it was killed
            Path(out).write_text(json.dumps(told[name]))

    monkeypatch.setattr(imports, "_traced", traced)
    assert imports.opened_by(["two", "killed", "one"]) == ["/p", "/l1", "/s0", "/s1", "/s2", "/l0"]
    assert imports.opened_by([]) == []


def loaded(name: str) -> Any:
    sys.path.insert(0, str(LOADER.parent))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(LOADER.parent))
