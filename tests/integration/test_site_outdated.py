"""`site outdated`, with git repositories of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.system.machine import find_program
from tests.integration.world import World, isolated, missing
from tests.values import SITE, write_yaml

ENVIRON = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
}


class Repository:
    """A git repository whose commits have days."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, day: str = "2024-01-01") -> str:
        days = {f"GIT_{who}_DATE": f"{day}T12:00:00Z" for who in ("AUTHOR", "COMMITTER")}
        argv = ["git", "-C", str(self.folder), *words]
        done = subprocess.run(argv, env=ENVIRON | days, check=True, capture_output=True, text=True)
        return done.stdout

    def commit(self, day: str, **files: str | None) -> str:
        """Write docs/NAME.md of each name, or remove it for None; give the commit."""
        for name, text in files.items():
            path = self.folder / "docs" / f"{name}.md"
            path.parent.mkdir(exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change", day=day)
        return self.git("rev-parse", "--short=8", "HEAD").strip()


@pytest.fixture
def user(tmp_path: Path) -> World:
    if find_program("git", os.environ) is None:
        missing("git")
    return isolated(tmp_path / "user", tmp_path / "cache")


@pytest.fixture
def clone(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "it's a clone")


def write_site(folder: Path, sources: dict[str, str]) -> Path:
    path = folder / "mysite.yaml"
    write_yaml(path, {**SITE, "name": "mysite", "sources": sources})
    return path


def told(user: World, site: Path, *more: str | Path) -> dict[str, Any]:
    body = json.loads(user.run("site", "outdated", site, *more, "--json").stdout)
    return {source["name"]: source for source in body["sites"][0]["sources"]}


def test_what_changed_since_a_commit_was_read(
    user: World, clone: Repository, tmp_path: Path
) -> None:
    read = clone.commit("2024-02-03", nodes="cores: 64\ngpus: 4\n", gone="x\n", same="y\n")
    changed = clone.commit("2026-07-01", nodes="cores: 64\ngpus: 8\n", same="y\n")
    clone.commit("2026-07-02", gone=None)
    sources = {
        "nodes": f"centre/docs@{read} docs/nodes.md (the table)",
        "gone": f"centre/docs@{read} docs/gone.md",
        "same": f"centre/docs@{read} docs/same.md",
        "later": f"centre/docs@{read} docs/same.md (of 2024-02-03, the same on 2026-07-01)",
        "folder": f"centre/docs@{read} docs",
        "page": "https://docs.example.org (read 2026-01-01)",
        "other": "centre/other@1234567 README.md",
    }
    site = write_site(tmp_path, sources)
    found = told(user, site, "--clone", clone.folder)
    assert {name: source["state"] for name, source in found.items()} == {
        "nodes": "changed", "gone": "changed", "same": "as it was read", "folder": "changed",
        "later": "as it was read", "page": "a page", "other": "not in a clone",
    }  # fmt: skip
    assert {name: source["day"] for name, source in found.items()} == {
        **dict.fromkeys(("nodes", "gone", "same", "folder"), "2024-02-03"),
        "later": "2026-07-01", "page": "2026-01-01", "other": None,
    }  # fmt: skip
    assert found["nodes"]["files"] == [
        {"path": "docs/nodes.md", "commit": changed[:7], "day": "2026-07-01",
         "lines": ["-gpus: 4", "+gpus: 8"]}
    ]  # fmt: skip
    assert [file["lines"] for file in found["gone"]["files"]] == [["-x"]]
    assert [file["path"] for file in found["folder"]["files"]] == ["docs/gone.md", "docs/nodes.md"]
    text = user.run("site", "outdated", site, "--clone", clone.folder).stdout
    assert "mysite: 7 sources, 3 changed since, 4 over a year old, 1 of an unknown day" in text
    assert "nodes: docs/nodes.md changed, last by" in text
    assert "  -gpus: 4\n  +gpus: 8\n" in text


def test_a_commit_that_head_did_not_come_from(
    user: World, clone: Repository, tmp_path: Path
) -> None:
    first = clone.commit("2024-02-03", nodes="a\n")
    later = clone.commit("2024-03-03", nodes="b\n")
    clone.git("checkout", "-q", first)
    site = write_site(tmp_path, {"nodes": f"centre/docs@{later} docs/nodes.md"})
    assert told(user, site, "--clone", clone.folder)["nodes"]["state"] == "not in HEAD's history"


def test_a_clone_of_another_repository_is_refused(
    user: World, clone: Repository, tmp_path: Path
) -> None:
    clone.commit("2024-02-03", nodes="a\n")
    site = write_site(tmp_path, {"nodes": "centre/docs@1234567 docs/nodes.md"})
    done = user.run("site", "outdated", site, "--clone", clone.folder, code=2)
    assert "no commit that a source names is in it" in done.stderr
    assert "cited are: centre/docs" in done.stderr
    for folder in (tmp_path / "user", tmp_path / "no such"):
        done = user.run("site", "outdated", site, "--clone", folder, code=2)
        assert "it is no git repository that you may read" in done.stderr


def test_of_two_clones_each_must_be_of_a_cited_repository(
    user: World, clone: Repository, tmp_path: Path
) -> None:
    read = clone.commit("2024-02-03", nodes="a\n")
    other = Repository(tmp_path / "other")
    other.commit("2025-02-03", nodes="a\n")
    site = write_site(tmp_path, {"nodes": f"centre/docs@{read} docs/nodes.md"})
    words = ("--clone", clone.folder, "--clone", other.folder)
    done = user.run("site", "outdated", site, *words, code=2)
    assert f"--clone {other.folder}: no commit that a source names is in it" in done.stderr
    assert "cited are: centre/docs" in done.stderr
    # A copy under another name has the commits, which say what they are.
    copy = tmp_path / "a fork"
    clone.git("clone", "-q", str(clone.folder), str(copy))
    assert told(user, site, "--clone", copy)["nodes"]["state"] == "as it was read"


def test_a_clone_starts_no_program(user: World, clone: Repository, tmp_path: Path) -> None:
    """Its configuration names a pager, hooks, a monitor, filters and ways to show a difference."""
    read = clone.commit("2024-02-03", nodes="a\n")
    clone.commit("2024-02-04", nodes="b\n")
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> '{ran}'\n")
    program.chmod(0o755)
    (clone.folder / ".git/info/attributes").write_text("*.md diff=mine filter=mine\n")
    for key in (
        *("core.pager", "core.fsmonitor", "core.editor", "core.sshCommand", "diff.external"),
        *("diff.mine.textconv", "diff.mine.command", "filter.mine.smudge", "filter.mine.clean"),
    ):
        clone.git("config", key, str(program))
    (clone.folder / ".git/hooks/post-checkout").symlink_to(program)
    ran.unlink(missing_ok=True)
    site = write_site(tmp_path, {"nodes": f"centre/docs@{read} docs/nodes.md"})
    assert told(user, site, "--clone", clone.folder)["nodes"]["state"] == "changed"
    assert not ran.exists()


def test_names_of_files_are_no_options_and_no_patterns(
    user: World, clone: Repository, tmp_path: Path
) -> None:
    read = clone.commit("2024-02-03", nodes="a\n", other="a\n")
    clone.commit("2024-02-04", nodes="b\n")
    hostile = {"star": "docs/*.md", "option": "--output=/tmp/x.md", "magic": ":!docs/other.md"}
    sources = {name: f"centre/docs@{read} {path}" for name, path in hostile.items()}
    found = told(user, write_site(tmp_path, sources), "--clone", clone.folder)
    assert {source["state"] for source in found.values()} == {"as it was read"}
