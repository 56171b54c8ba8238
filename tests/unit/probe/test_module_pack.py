"""The loader of the module pack: what it may be; tests/integration/packs has what it does."""

import ast
import importlib
import marshal
import sys
from pathlib import Path
from typing import Any

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


def loaded(name: str) -> Any:
    sys.path.insert(0, str(LOADER.parent))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(LOADER.parent))
