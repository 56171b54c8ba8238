"""`lab count` with each of its tools, on a small known tree."""

import json
import os
import sys
from pathlib import Path

import pytest

from dlcontainer.lab.slowfs import mounting
from dlcontainer.system.machine import find_program
from tests.integration.world import World, isolated, missing


@pytest.fixture(autouse=True)
def tools() -> None:
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    for name in ("fusermount3", "strace"):
        if find_program(name, os.environ) is None:
            missing(name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "it's a source"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/__init__.py").write_text("X = 1\n")
    return folder


@pytest.fixture
def user(tmp_path: Path) -> World:
    return isolated(tmp_path / "user", tmp_path / "user/cache")


def test_bench_count_by_each_tool(user: World, source: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(source)!r}); import pkg; pkg.X"
    base: list[str | Path] = ["lab", "count", "--under", source, "--ranks", "2", "--json"]
    command = ["--", sys.executable, "-B", "-c", code]
    for tool in ("strace", "slowfs", "audit"):
        body = json.loads(user.run(*base, "--with", tool, *command).stdout)
        assert (body["tool"], body["schema"]) == (tool, "dlcontainer/count/1")
        assert body["per_node"]["unique_files"] >= 1
        if tool != "slowfs":
            assert len(body["per_rank"]) == 2
            assert body["per_rank"][0]["operations"] == body["per_rank"][1]["operations"]


def test_bench_count_of_a_command_that_fails(user: World, source: Path) -> None:
    argv: list[str | Path] = [
        "bench",
        "count",
        "--under",
        source,
        "--with",
        "slowfs",
        "--",
        "cat",
        source / "none",
    ]
    done = user.run(*argv, code=7)
    assert "No such file" in done.stderr


def test_an_import_tree_is_a_run_of_its_own_for_the_report(
    user: World, source: Path, tmp_path: Path
) -> None:
    (source / "pkg/inner.py").write_text("import json\n")
    (source / "pkg/__init__.py").write_text("from pkg import inner\n")
    code = f"import sys; sys.path.insert(0, {str(source)!r}); import pkg"
    base: list[str | Path] = ["lab", "count", "--under", source, "--with", "strace"]
    command: list[str | Path] = ["--", sys.executable, "-B", "-c", code]
    target, page = tmp_path / "a count.json", tmp_path / "page.html"
    user.run(*base, "--import-tree", "-o", target, *command)
    body = json.loads(target.read_text())
    depths = {module["name"]: module["depth"] for module in body["imports"]}
    assert depths["pkg"] == 0
    assert depths["pkg.inner"] == 1
    assert depths["json"] == 2
    user.run("report", target, "-o", page)
    assert "pkg.inner" in page.read_text()
    done = user.run(*base, "--import-tree", "--", sys.executable, "-E", "-c", "pass", code=7)
    assert "does not reach it" in done.stderr
    user.run(*base, "-o", tmp_path / "no/a.json", *command, code=7)
