"""`modules find`: a package in all releases, and the releases that OSV records concern."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.image.contents import InstalledPackage
from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.transaction import opened
from tests.trees import act, draft, hand, image_file
from tests.unit.cli.test_modules import Run, body, run
from tests.unit.vulnerabilities import cases
from tests.unit.vulnerabilities.cases import affected, deb, put, record, wheel

__all__ = ["run"]


def publish(root: Path, version: str, bill: str | None) -> None:
    image = image_file(root.parent / "images", version.encode())
    with opened(root, hand()) as tree, draft(image, version) as given:
        more = {} if bill is None else {"sbom.cdx.json": bill.encode()}
        changes.publish(tree, replace(given, files={**given.files, **more}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Publish 1.0, which is withdrawn, 2.0 and 3.0, each with a newer OpenSSL and Jinja2."""
    root = tmp_path / "a root"
    root.mkdir()
    for version, openssl, jinja in (
        ("1.0", "3.0.11-1~deb12u1", "3.1.2"),
        ("2.0", "3.0.11-1~deb12u2", "3.1.10"),
        ("3.0", "3.0.11-1", "3.1.10"),
    ):
        conda = InstalledPackage(kind="conda", name="jinja2", version="3.0")
        packages = [deb("libssl3", openssl, "openssl"), wheel("Jinja2", jinja)]
        packages += [conda] if version == "3.0" else []
        publish(root, version, cases.bill(cases.contents(*packages)))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    return root


def modules(answer: dict[str, Any]) -> list[str]:
    return [
        f"{name} {'live' if match['live'] else 'kept'} {match['kind']} {match['version']}"
        for match in answer["matches"]
        for name in match["modules"]
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["JINJA2"],
            [
                *("demo/2.0 live pypi 3.1.10", "demo/3.0 live conda 3.0"),
                *("demo/3.0 live pypi 3.1.10", "demo/1.0 kept pypi 3.1.2"),
            ],
        ),
        (["libssl3", "--older-than", "3.0.11-1~deb12u2"], ["demo/1.0 kept deb 3.0.11-1~deb12u1"]),
        # By its source's name; a tilde is before nothing.
        (
            ["openssl", "--older-than", "3.0.11-1"],
            ["demo/2.0 live deb 3.0.11-1~deb12u2", "demo/1.0 kept deb 3.0.11-1~deb12u1"],
        ),
        (
            ["Jinja2", "--older-than", "3.1.9"],
            ["demo/3.0 live conda 3.0", "demo/1.0 kept pypi 3.1.2"],
        ),
        (["ssl"], []),
    ],
)
def test_a_package(words: list[str], expected: list[str], run: Run, root: Path) -> None:
    answer = body(run("find", *words, "--json"))
    assert (answer["schema"], answer["releases"]) == ("dlcontainer/modules-find/1", 3)
    assert (modules(answer), answer["complete"]) == (expected, True)


def test_a_release_that_is_withdrawn_keeps_its_number(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "a root"
    root.mkdir()
    bill = cases.bill(cases.contents(deb("libssl3", "3.0.11-1", "openssl")))
    image = image_file(root.parent / "images", b"a fix")
    with opened(root, hand()) as tree, draft(image, number=1) as given:
        changes.publish(tree, replace(given, files={**given.files, "sbom.cdx.json": bill.encode()}))
    act(root, lambda tree: changes.unpublish(tree, "demo/1.0"))
    answer = body(run("find", "libssl3", "--json"))
    assert modules(answer) == ["demo/1.0-1 kept deb 3.0.11-1"]


def test_what_has_no_order_is_listed(run: Run, root: Path) -> None:
    answer = body(run("find", "jinja2", "--older-than", "3.1", "--json"))
    (match,) = answer["matches"]
    assert (match["kind"], match["remark"]) == ("conda", "not compared")


def test_records(run: Run, root: Path, tmp_path: Path) -> None:
    body_1 = record(
        "MADE-1", affected("Debian:12", "openssl", {"introduced": "0"}, {"fixed": "3.0.11-1"})
    )
    body_2 = record("MADE-2", affected("PyPI", "jinja2", versions=["3.1.2"]))
    database = put(tmp_path / "osv", body_1, body_2)
    answer = body(run("find", "--osv", database, "--json"))
    assert [(*match["modules"], match["id"], match["remark"]) for match in answer["matches"]] == [
        ("demo/2.0", "MADE-1", "fixed in 3.0.11-1"),
        ("demo/1.0", "MADE-1", "fixed in 3.0.11-1"),
        ("demo/1.0", "MADE-2", "no fix is known"),
    ]
    assert answer["not_checked"] == [
        "packages of kind conda: no records of this kind are read (releases: 1)"
    ]
    # A single file, and of one package alone.
    answer = body(run("find", "libssl3", "--osv", database / "MADE-1.json", "--json"))
    assert [match["modules"] for match in answer["matches"]] == [["demo/2.0"], ["demo/1.0"]]
    code, out, _ = run("find", "--osv", database / "MADE-2.json")
    assert (code, out.splitlines()[0].split()) == (
        0,
        ["module", "state", "package", "version", "kind", "id", "remark"],
    )
    assert "in 1 of 3 releases" in out


def test_what_is_not_read_is_named(run: Run, root: Path, tmp_path: Path) -> None:
    publish(root, "4.0", None)
    publish(root, "5.0", "{}")
    code, out, err = run("find", "jinja2")
    assert code == 1
    assert "FAILED       demo/4.0: it has no bill" in out
    assert "FAILED       demo/5.0: can't read the bill of materials" in out
    assert "demo/3.0" in out
    assert "the answer is incomplete: 2 bills or records were not read" in err
    (tmp_path / "wrong.json").write_text("{}")
    answer = body(run("find", "--osv", tmp_path / "wrong.json", "--json"), 1)
    assert len(answer["unread"]) == 3
    (tmp_path / "empty").mkdir()
    answer = body(run("find", "--osv", tmp_path / "empty", "--json"), 1)
    assert answer["unread"][-1].endswith("it holds no record")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "neither a package nor --osv is named"),
        (["--older-than", "1"], "neither a package nor --osv is named"),
        (["x", "--older-than", "1", "--osv", "y"], "--older-than takes a PACKAGE, and no --osv"),
    ],
)
def test_wrong_words(words: list[str], why: str, run: Run, root: Path) -> None:
    code, _, err = run("find", *words)
    assert (code, why in err) == (2, True)


def test_no_tree(run: Run, tmp_path: Path) -> None:
    code, _, err = run("find", "x", root=tmp_path / "none")
    assert code == 6
    assert "can't read" in err


def test_text(run: Run, root: Path) -> None:
    code, out, _ = run("find", "jinja2")
    assert code == 0
    assert out.splitlines()[-1] == "in 3 of 3 releases"
    said = "in none of 3 releases; no release has a package of that name"
    assert run("find", "nothing")[1] == f"{said}\n"
    assert run("find", "libssl33")[1] == f"{said}: libssl3?\n"
    older = run("find", "LIBSSL3", "--older-than", "1.0")[1]
    assert older == "in none of 3 releases; 3 hold LIBSSL3, in versions that are not older\n"
    assert json.loads(run("find", "nothing", "--json")[1])["matches"] == []


def test_a_tree_without_releases_is_no_all_clear(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = run("find", "openssl", root=tmp_path / "empty")
    assert code == 1
    assert "has no release: nothing can be said" in err
    assert out == ""
