"""The commands that compile an environment's files are run with this Python."""

import importlib.util
import py_compile
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlcontainer.config.templating import Text, quote
from dlcontainer.formats import byte_code

UNCHECKED = b"\1\0\0\0"


def run(command: Callable[[Text, Text], Text], folder: Path) -> str:
    script = command(Text(shlex.quote(sys.executable)), Text(quote(folder)))
    done = subprocess.run(
        ["sh", "-euc", script], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout + done.stderr


def code_of(file: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(file)))


def head_of(file: Path) -> bytes:
    hashed = importlib.util.source_hash(file.read_bytes())
    return importlib.util.MAGIC_NUMBER + UNCHECKED + hashed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "it's an environment" / "lib"
    (folder / "deep" / "deeper").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("command", [byte_code.all_files, byte_code.new_files])
def test_files_get_code_that_no_time_stamp_makes_old(
    tree: Path, command: Callable[[Text, Text], Text]
) -> None:
    plain, deep = tree / "plain.py", tree / "deep" / "deeper" / "deep.py"
    plain.write_text("a = 1\n")
    deep.write_text("b = 2\n")
    py_compile.compile(str(deep))  # by time stamp, as the environment's own pip has it
    assert run(command, tree) == ""
    for file in (plain, deep):
        assert code_of(file).read_bytes()[:16] == head_of(file)


def test_only_new_files_are_compiled(tree: Path) -> None:
    old, changed, new = (tree / f"{name}.py" for name in ("old", "changed", "new"))
    for file in (old, changed):
        file.write_text("a = 1\n")
        code_of(file).parent.mkdir(exist_ok=True)
        code_of(file).write_bytes(head_of(file) + b"kept")
    changed.write_text("a = 3\n")
    new.write_text("b = 2\n")
    run(byte_code.new_files, tree)
    assert code_of(old).read_bytes() == head_of(old) + b"kept"
    for file in (changed, new):
        assert code_of(file).read_bytes()[:16] == head_of(file)
        assert not code_of(file).read_bytes().endswith(b"kept")


@pytest.mark.parametrize("command", [byte_code.all_files, byte_code.new_files])
def test_a_file_for_another_python_is_named_and_left(
    tree: Path, command: Callable[[Text, Text], Text]
) -> None:
    (tree / "python2.py").write_text("print 'so it was'\n")
    (tree / "plain.py").write_text("a = 1\n")
    said = run(command, tree)
    assert "python2.py" in said
    assert "left as source" in said
    assert not code_of(tree / "python2.py").exists()
    assert code_of(tree / "plain.py").exists()
