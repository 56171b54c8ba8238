"""The loader of the module pack: what it may be; tests/integration/packs has what it does."""

import ast

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
