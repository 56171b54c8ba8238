"""`dlcontainer modules`: each command on a tree of small releases, for people and as JSON."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from dlcontainer.publish.tree import in_use, site_commands
from dlcontainer.publish.tree.in_use import OldestJob
from dlcontainer.publish.tree.site_commands import SiteCommands
from tests.trees import both, hand, image_file, put, seen
from tests.values import SITE, write_yaml

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command of the group on the root of the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def run(*argv: object, root: Path | None = None) -> tuple[int, str, str]:
        words = ["modules", *map(str, argv)]
        if "--site" not in words:
            words += ["--root", str(root or tmp_path / "a root")]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Publish 1.0, then 2.0."""
    root = tmp_path / "a root"
    root.mkdir()
    by = hand(time.time)
    put(root, image_file(tmp_path / "images"), by=by)
    put(root, image_file(tmp_path / "images", b"another"), "2.0", by=by)
    return root


def body(done: tuple[int, str, str], code: int = 0) -> dict[str, Any]:
    assert done[0] == code, done
    return dict(json.loads(done[1]))


def test_list_and_history(run: Run, root: Path) -> None:
    listed = body(run("list", "--json"))
    assert (listed["schema"], listed["root"]) == ("dlcontainer/modules/1", str(root))
    assert [one["module"] for one in listed["modules"]] == ["demo/1.0", "demo/2.0"]
    assert all(Path(one["folder"]).is_dir() for one in listed["modules"])
    switches = body(run("history", "--json"))["switches"]
    assert [(one["left"], one["generation"]) for one in switches] == [(None, 1), (1, 2)]
    assert [one["what"] for one in switches] == ["publish demo/1.0", "publish demo/2.0"]
    assert "demo/2.0" in run("list")[1]
    assert "publish demo/2.0" in run("history")[1]


def test_rollback(run: Run, root: Path) -> None:
    changed = body(run("rollback", "--json"))
    assert (changed["generation"], changed["left"], changed["new"]) == (1, 2, True)
    assert changed["modules"] == ["demo/1.0"]
    assert seen(root) == both("1.0")
    root_typed = f"'{root}'"
    code, out, _ = run("rollback", 2)
    assert (code, "generation 2 is live: publish demo/2.0" in out) == (0, True)
    assert run("rollback", 1)[1].splitlines() == [
        "generation 1 is live again, as after: publish demo/1.0",
        f"forward again: dlcontainer modules rollback 2 --root {root_typed}",
    ]
    assert "generation 2 is live" in run("rollback", 2)[1]
    assert "nothing to change: generation 2 is live already" in run("rollback", 2)[1]
    code, _, err = run("rollback", 9)
    assert (code, "there is no generation 9" in err) == (6, True)
    assert f"next: list the generations: dlcontainer modules history --root '{root}'" in err


def test_unpublish(run: Run, root: Path) -> None:
    assert body(run("unpublish", "demo/1.0", "--json"))["modules"] == ["demo/2.0"]
    assert seen(root) == both("2.0")
    code, _, err = run("unpublish", "demo/1.0")
    assert (code, "demo/1.0 is not published" in err) == (6, True)


def test_default_alias_and_warning(run: Run, root: Path) -> None:
    rc = root / "modules/lmod/demo/.modulerc.lua"
    assert run("default", "demo/1.0")[0] == 0
    assert run("alias", "demo/2.0", "new")[0] == 0
    assert 'module_version("demo/2.0", "new")' in rc.read_text()
    warned = ("deprecate", "demo/1.0", "--message", "take 2.0", "--removal", "2027-01-31")
    assert run(*warned)[0] == 0
    assert "take 2.0" in (root / "modules/tcl/demo/1.0").read_text()
    first, second = body(run("list", "--json"))["modules"]
    assert (first["default"], second["aliases"]) == (True, ["new"])
    assert first["deprecated"] == {"message": "take 2.0", "removal": "2027-01-31"}
    assert "default, deprecated, removal 2027-01-31" in run("list")[1]
    assert run("alias", "demo/new", "--remove")[0] == 0
    assert run("deprecate", "demo/1.0", "--undo")[0] == 0
    first, second = body(run("list", "--json"))["modules"]
    assert (first["deprecated"], second["aliases"]) == (None, [])


@pytest.mark.parametrize(
    "argv",
    [
        ("alias", "demo/1.0"),
        ("alias", "demo/1.0", "new", "--remove"),
        ("deprecate", "demo/1.0"),
        ("deprecate", "demo/1.0", "--undo", "--message", "x"),
        ("deprecate", "demo/1.0", "--undo", "--removal", "2027-01-31"),
    ],
)
def test_words_that_do_not_go_together(run: Run, root: Path, argv: tuple[str, ...]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert "next: dlcontainer modules" in err
    assert [path.name for path in (root / "generations").glob("3")] == []


def test_promote(run: Run, root: Path, tmp_path: Path) -> None:
    production = tmp_path / "production"
    production.mkdir()
    promote = ("promote", "demo/1.0", "--from", root)
    assert body(run(*promote, "--json", root=production))["modules"] == ["demo/1.0"]
    assert seen(production) == both("1.0")
    digests = [body(run("list", "--json", root=tree))["modules"][0] for tree in (root, production)]
    assert digests[0]["digest"] == digests[1]["digest"]


def test_a_signer_of_whom_nothing_is_demanded_is_said(run: Run, root: Path, tmp_path: Path) -> None:
    production = tmp_path / "production"
    production.mkdir()
    words = ("promote", "demo/1.0", "--from", root, "--key", "release.pub")
    code, _, err = run(*words, root=production)
    assert (code, "nothing is verified: a signer is named" in err) == (0, True)
    code, _, err = run(*words, "--require-signed", root=production)
    assert (code, "nothing is verified" in err) == (0, False)


def test_a_tree_of_before_generations(run: Run, tmp_path: Path) -> None:
    old = tmp_path / "an old root"
    (old / "modules/lmod/demo").mkdir(parents=True)
    for argv in (("list",), ("history",), ("gc", "--keep", "1")):
        code, _, err = run(*argv, root=old)
        assert (code, "is a tree of dlcontainer 0.5 or earlier" in err) == (6, True)
        assert "dlcontainer 0.9.0, the last version that reads it" in err
        assert f"dlcontainer modules takeover --root '{old}'" in err


def test_catalogue(run: Run, root: Path, tmp_path: Path) -> None:
    said = body(run("catalogue", "--json"))
    assert (said["schema"], said["generation"]) == ("dlcontainer/catalogue/1", 2)
    assert [one["module"] for one in said["modules"]] == ["demo/1.0", "demo/2.0"]
    assert (said["current"], said["written"]) == (True, [])
    code, out, _ = run("catalogue")
    assert (code, f"page: {root}/current/catalogue.html" in out) == (0, True)
    web = tmp_path / "web"
    assert body(run("catalogue", "-o", web, "--json"))["written"] == [
        str(web / "catalogue.html"),
        str(web / "catalogue.json"),
    ]
    release = Path(said["modules"][0]["folder"])
    (release / "report.html").write_text("<!doctype html>")
    assert "next: dlcontainer modules catalogue --renew" in run("catalogue")[1]
    assert body(run("catalogue", "--renew", "--json"))["what"] == "renew the catalogue"
    assert body(run("catalogue", "--json"))["current"]
    assert run("catalogue", "--renew", "-o", web)[0] == 2


def test_audit(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Folders of the tests are private: what is above the root is another matter.
    from dlcontainer.publish.tree import audit

    monkeypatch.setattr(audit, "_unreachable", lambda path: iter(()))
    assert body(run("audit", "--json")) == {
        "schema": "dlcontainer/modules-audit/1",
        "root": str(root),
        "ok": True,
        "faults": [],
    }
    assert run("audit")[0] == 0
    path = (root / "modules/tcl/demo/1.0").resolve().parent / "bin/tool"
    path.write_text("#!/bin/sh\nevil\n")
    (first, *_) = body(run("audit", "--json"), code=1)["faults"]
    assert first["where"] == str(path)
    code, out, err = run("audit")
    assert (code, "FAILED  demo/1.0: bin/tool: its SHA-256 is not" in out) == (1, True)
    assert f"withdraw it: dlcontainer modules unpublish demo/1.0 --root '{root}'" in err


@pytest.mark.parametrize(
    "argv",
    [
        ("list",),
        ("history",),
        ("rollback",),
        ("unpublish", "demo/1.0"),
        ("default", "demo/1.0"),
        ("gc", "--keep", "1"),
    ],
)
def test_a_mistyped_root_stays_as_it_is(run: Run, tmp_path: Path, argv: tuple[str, ...]) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    code, _, err = run(*argv, root=wrong)
    if argv[0] in ("list", "history"):
        assert code == 0, err
    else:
        assert (code, f"nothing is published in {wrong}" in err) == (6, True)
    assert list(wrong.iterdir()) == []
    assert run(*argv, root=tmp_path / "none")[0] == 6


def test_no_tree_is_named(run: Run) -> None:
    code, _, err = run("list", "--site", "local")
    assert (code, "no published tree is named" in err) == (2, True)
    assert "give --root DIR, or --site SITE whose file has modules.root" in err


def of_site(tmp_path: Path, **modules: object) -> Path:
    facts = {"root": str(tmp_path / "a root"), **modules}
    scheduler = {"kind": "slurm", "remembered": ["kind"]}
    facts = {**facts, "remembered": list(facts)}
    return write_yaml(tmp_path / "lab.yaml", {**SITE, "scheduler": scheduler, "modules": facts})


def test_gc_by_the_site_s_facts(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def queue(argv: list[str], runner: object) -> OldestJob:
        asked.append(list(argv))
        return OldestJob()

    monkeypatch.setattr(in_use, "queue", queue)
    site = of_site(tmp_path, keep_days=40, longest_job_days=30)
    kept = body(run("gc", "--site", site, "--json"))
    assert (kept["removed"], kept["dry_run"]) == ([], False)
    assert "live too recently: 40.0 days to go" in kept["kept"][0]["why"]
    assert asked == [["squeue", "-h", "-a", "-o", "%V"]]
    code, _, err = run("gc", "--site", site, "--keep", 29)
    assert (code, "29 days are too few" in err) == (6, True)
    own = of_site(tmp_path, keep_days=40, submissions=["our-queue", "--times"])
    run("gc", "--site", own)
    assert asked[-1] == ["our-queue", "--times"]


def test_a_scheduler_that_does_not_answer_keeps_all(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_use, "queue", lambda argv, runner: OldestJob(is_known=False))
    site = of_site(tmp_path, keep_days=1)
    assert "generations/1: the scheduler can't be queried" in run("gc", "--site", site)[1]


def test_gc_removes(run: Run, root: Path) -> None:
    assert run("unpublish", "demo/1.0")[0] == 0
    gone = ["generations/1", "generations/2"]
    dry = body(run("gc", "--keep", 0, "--dry-run", "--json"))
    assert (dry["dry_run"], dry["removed"][:2]) == (True, gone)
    assert (root / "generations/1").exists()
    code, out, err = run("gc", "--keep", 0)
    assert (code, "removed  generations/1" in out) == (0, True)
    assert "without --site no scheduler is asked" in err
    assert "the longest job is unknown" in err
    assert not (root / "generations/1").exists()
    assert seen(root) == both("2.0")


def test_gc_without_a_time(run: Run, root: Path) -> None:
    code, _, err = run("gc")
    assert (code, "modules.keep_days" in err) == (2, True)
    assert os.path.lexists(root / "generations/1")


def test_a_switch_is_followed_by_the_site_s_command(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[SiteCommands] = []
    monkeypatch.setattr(
        site_commands, "follow", lambda commands, runner, note: followed.append(commands)
    )
    site = of_site(tmp_path, after_publish=["update", "-d", "/c"], stripe=["lfs", "setstripe"])
    assert run("rollback", "--site", site)[0] == 0
    assert followed == [
        SiteCommands(after_publish=("update", "-d", "/c"), stripe=("lfs", "setstripe"))
    ]
    assert "after_publish" not in run("rollback", 2, "--site", site)[2]
    assert "no --site: the site's command after a change" in run("rollback")[2]
    assert "after_publish" not in run("rollback", 1)[2]  # nothing to change
    assert "after_publish" not in run("default", "demo/1.0", "--json")[2]
