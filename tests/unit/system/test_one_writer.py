"""One piece of code writes a file whole, one takes a file's SHA-256; all others call it."""

import ast

import pytest

from tests.values import ROOT

# Where another way is right. The list only shrinks: who needs none of this comes off it.
MOVES = {
    "benchmarks/planted/planted_launcher.py": "a data set, behind a slow mount and back",
    "dlcontainer/build/cache/step_cache.py": "two files at once, between two open folders",
    "dlcontainer/build/step_errors.py": "a failed build's log, maybe to another file system",
    "dlcontainer/engine_setup/trees.py": "a link",
    "dlcontainer/formats/output_folder.py": "a folder as a whole, and the old one back",
    "dlcontainer/packages/apt/apt_config.py": "apt's lists, between folders of one build",
    "dlcontainer/probe/pack_modules.py": "runs inside images, without the package",
    "dlcontainer/probe/process_watch.py": "runs on nodes, without the package",
    "dlcontainer/probe/prove_place.py": "runs inside images, without the package",
    "dlcontainer/probe/ranks.py": "runs inside images, without the package",
    "dlcontainer/probe/trace_profilers.py": "runs inside images, without the package",
    "dlcontainer/publish/open_folder.py": "the folders of a publication, by descriptor",
    "dlcontainer/publish/tree/layout.py": "folders and links of a published tree, by descriptor",
    "dlcontainer/system/atomic_files.py": "the writer",
    "dlcontainer/system/workspace.py": "a lock that is held before it has its name",
}


def moves(call: ast.Call) -> bool:
    """Tell whether a call renames: of `os`, `shutil`, a path or a folder of a publication."""
    if not isinstance(call.func, ast.Attribute):
        return False
    of, name = ast.unparse(call.func.value), call.func.attr
    if of in {"os", "shutil"}:
        return name in {"replace", "rename", "renames", "move"}
    # A text's `replace` has two arguments, that of a date or a value has names.
    return name == "rename" or (name == "replace" and len(call.args) == 1 and not call.keywords)


def digests(call: ast.Call) -> bool:
    """Tell whether a call takes the digest of a file by itself."""
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != "hashlib":
        return False
    read = any("read_bytes()" in ast.unparse(argument) for argument in call.args)
    return call.func.attr == "file_digest" or read


def calls(text: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]


def test_others_call_them() -> None:
    moving, digesting = set(), set()
    for room in ("dlcontainer", "tools", "benchmarks"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            if not any(word in text for word in ("rename", "replace(", "move(", "hashlib")):
                continue
            name = path.relative_to(ROOT).as_posix()
            made = calls(text)
            moving |= {name for call in made if moves(call)}
            digesting |= {name for call in made if digests(call)}
    assert moving == MOVES.keys()
    assert digesting == set()


@pytest.mark.parametrize(
    "text",
    ["os.rename(a, b)", "os.replace(a, b, src_dir_fd=c)", "path.replace(target)", "a.rename(b)"],
)
def test_a_move_is_seen(text: str) -> None:
    assert [moves(call) for call in calls(text)] == [True]


@pytest.mark.parametrize("text", ["'a'.replace('b', 'c')", "replace(one, name=2)", "now.replace()"])
def test_what_is_no_move(text: str) -> None:
    assert [moves(call) for call in calls(text)] == [False]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("hashlib.file_digest(file, 'sha256')", True),
        ("hashlib.sha256(path.read_bytes())", True),
        ("hashlib.sha256(text.encode())", False),
    ],
)
def test_a_digest_is_seen(text: str, *, seen: bool) -> None:
    assert any(digests(call) for call in calls(text)) is seen
