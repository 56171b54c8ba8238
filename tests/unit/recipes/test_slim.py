"""Slim: which names there are, what each removes, and where the text and the plan have it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.build import description
from dlcontainer.build.build_steps import work
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import slim_commands, step_commands, texts
from dlcontainer.image.contents import FolderTree
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes import slim
from dlcontainer.recipes.recipe import Recipe
from tests.unit.recipes.test_recipe import recipe_of
from tests.values import TEMPLATES, folder_of, plan_of

SITE = "lib/python3.11/site-packages"


def slimmed(tmp_path: Path, *names: str, **changes: Any) -> Plan:
    return plan_of(folder_of(tmp_path, slim=list(names), **changes))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["test-suite"], r"slim\[0\]: unknown name 'test-suite'; did you mean 'test-suites'"),
        (
            ["headers"],
            r"slim\[0\]: 'headers' cannot be removed: C\+\+ extensions need them to compile",
        ),
        (["headers-of-cuda"], "cannot be removed"),
        (["sources"], r"torch\.compile reads the source"),
        (["test-suites", "test-suites"], "'test-suites' is listed twice"),
        ("test-suites", "expected a list"),
    ],
)
def test_what_is_no_choice(given: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_of(slim=given)


def test_nothing_is_both_offered_and_refused() -> None:
    assert not set(slim.RULES) & set(slim.NOT_OFFERED)


def test_a_step_of_the_same_name() -> None:
    step = {"name": "slim", "os_packages": ["python3"]}
    assert recipe_of(steps=[step]).slim == ()
    with pytest.raises(ConfigError, match="rename your step"):
        recipe_of(steps=[step], slim=["test-suites"])


def test_it_is_part_of_the_plan_and_of_no_other(tmp_path: Path) -> None:
    plain = plan_of(folder_of(tmp_path / "plain"))
    assert "slim" not in plain.content["recipe"]  # type: ignore[operator]
    one = slimmed(tmp_path / "one", "test-suites", "static-libraries")
    other = slimmed(tmp_path / "two", "static-libraries", "test-suites")
    assert one.digest == other.digest != plain.digest
    said = config.from_settings(["slim=[test-suites]"])
    assert plan_of(folder_of(tmp_path / "set"), changes=[said]).recipe.slim == ("test-suites",)


def test_it_is_a_step_after_the_recipes_own(tmp_path: Path) -> None:
    plan = slimmed(tmp_path, "test-programs", mount_points=["/lustre"])
    names = [block.name for block in step_commands.image_blocks(plan)]
    assert names == ["system", "slim", "mount-points", "clean"]
    assert step_commands.native_blocks(plan)[-1].name == "slim"
    plain = plan_of(folder_of(tmp_path / "plain"))
    assert [one.name for one in work(plan, tmp_path, {})][1:3] == ["slim", "mount-points"]
    assert "slim" not in [one.name for one in work(plain, tmp_path, {})]


@pytest.mark.parametrize("form", ["apptainer", "dockerfile", "native"])
def test_every_text_says_what_goes(tmp_path: Path, form: texts.Format) -> None:
    text = texts.text(slimmed(tmp_path, "test-programs"), form, [TEMPLATES])
    assert "test-programs '/torch/test/*' '*'" in text
    assert "test-programs /torch/bin/ 'test_*'" in text
    assert "static-libraries" not in text


def run(prefix: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, dict[str, int]]:
    """Run the step's program in this process, as its text would."""
    (text,) = slim_commands.commands(names, Text("P"), Text("R"))
    head, _, program = text.partition("<<'SLIM'\n")
    assert head.startswith("P/bin/python -IB - P R '*/nvidia/*' ")
    report = prefix / "said" / "slim.json"
    rules = [
        word
        for name in names
        for rule in slim.RULES[name]
        for word in (name, rule.folders, rule.files)
    ]
    argv = ["-", str(prefix), str(report), slim.KEPT, ":".join(slim.ROOTS), *rules]
    monkeypatch.setattr(sys, "argv", argv)
    exec(program.removesuffix("\nSLIM"), {})
    return dict(json.loads(report.read_text()))


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    folder = tmp_path / "it's [a] prefix"
    for name in (
        "torch/test/run",
        "torch/bin/test_api",
        "torch/bin/HashStoreTest",
        "torch/bin/protoc",
        "a/tests/__init__.py",
        "a/tests/test_one.py",
        "a/tests/__pycache__/test_one.cpython-311.pyc",
        "a/tests/__pycache__/__init__.cpython-311.pyc",
        "a/tests/deep/er/two_test.py",
        "a/tests/deep/er/__pycache__/two_test.cpython-311.pyc",
        "a/tests/runner.py",
        "a/testing/test_utils.py",
        "a/test_outside.py",
        "a/lib/libx.a",
        "nvidia/lib/libcudadevrt.a",
        "nvidia/tests/test_kept.py",
        "b/torch/test/not_pytorchs",
    ):
        path = folder / SITE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345")
    return folder


def left(prefix: Path) -> set[str]:
    root = prefix / SITE
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def test_each_name_removes_its_files_alone(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(prefix)
    assert run(prefix, monkeypatch, "static-libraries") == {
        "static-libraries": {"files": 1, "bytes": 5}
    }
    assert before - left(prefix) == {"a/lib/libx.a"}
    assert not (prefix / SITE / "a/lib").exists(), "an empty folder is left"
    before = left(prefix)
    said = run(prefix, monkeypatch, "test-programs", "test-suites")
    assert said == {
        "test-programs": {"files": 3, "bytes": 15},
        "test-suites": {"files": 4, "bytes": 20},
    }
    assert before - left(prefix) == {
        "torch/test/run",
        "torch/bin/test_api",
        "torch/bin/HashStoreTest",
        "a/tests/test_one.py",
        "a/tests/__pycache__/test_one.cpython-311.pyc",
        "a/tests/deep/er/two_test.py",
        "a/tests/deep/er/__pycache__/two_test.cpython-311.pyc",
    }
    assert (prefix / SITE / "a/tests/runner.py").exists()


def test_links_lead_nowhere(prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside" / "tests"
    outside.mkdir(parents=True)
    (outside / "test_kept.py").touch()
    (prefix / SITE / "linked").symlink_to(tmp_path / "outside")
    (prefix / SITE / "a/tests/test_link.py").symlink_to(outside / "test_kept.py")
    (prefix / "lib/python3.12").mkdir()
    (prefix / "lib/python3.12/site-packages").symlink_to(tmp_path / "outside")
    run(prefix, monkeypatch, "test-suites")
    assert (outside / "test_kept.py").exists()
    assert not (prefix / SITE / "a/tests/test_link.py").is_symlink()


def test_a_prefix_without_packages_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"slim: no .*site-packages and no .*dist-packages"):
        run(tmp_path, monkeypatch, "test-suites")


def test_what_was_removed_is_read(tmp_path: Path) -> None:
    report = tmp_path / slim_commands.REPORT.lstrip("/")
    report.parent.mkdir(parents=True)
    report.write_text('{"test-suites": {"files": 2, "bytes": 9}}')
    assert slim_commands.read(report.read_text())["test-suites"].bytes == 9
    assert description.removed(FolderTree(folder=tmp_path), tmp_path) == {
        "test-suites": {"files": 2, "bytes": 9}
    }


def test_a_recipe_says_it_in_its_schema() -> None:
    slim = Recipe.model_json_schema()["properties"]["slim"]
    assert "docs/image/add-a-recipe.md" in slim["description"]
