"""Newer pins in a recipe's text: what variants share, lines that changed, a check that fails."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.authoring import bumps
from dlcontainer.authoring.bumps import BumpPlan, PlannedVariant, VersionPlace
from dlcontainer.authoring.pin_ages import PinAge, VariantAge
from dlcontainer.errors import ConfigError
from dlcontainer.planning.plan import Plan
from tests.values import folder_of, plan_of

STEPS: list[dict[str, Any]] = [
    {
        "name": "wheels",
        "python_packages": {"packages": ["tool=={{ versions.tool }}", "low==1.0", "numpy==2.3.5"]},
    }
]


def planned(
    plan: Plan, *needed: str, needed_by: dict[str, str] | None = None, **fitting: str
) -> PlannedVariant:
    pins = {"tool": "2.0", "low": "1.0", "numpy": "2.3.5"}
    ages = [
        PinAge(name=n, origin="r:1", pinned=v, newest="9", fitting=fitting.get(n, v))
        for n, v in pins.items()
    ]
    age = VariantAge(
        recipe="demo",
        variant=None,
        site="demo",
        target=None,
        pins=tuple(ages),
        needed=needed,
        needed_by=needed_by or {},
    )
    return PlannedVariant(plan=plan, site="demo", age=age)


def plan_of_bump(place: VersionPlace, new: str) -> BumpPlan:
    return BumpPlan(bumps={place: new}, versions=[], unwritten=())


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return folder_of(tmp_path, steps=STEPS) / "recipe.yaml"


@pytest.fixture
def plan(recipe: Path) -> Plan:
    return plan_of(recipe.parent)


def texts_of(plan: Plan, recipe: Path) -> dict[str, str]:
    """Name the recipe's file as its places do."""
    (name,) = {origin.where.file for _, _, origin in plan.origins if hasattr(origin.where, "file")}
    return {name: recipe.read_text()}


def test_a_value_is_bumped_where_it_stands(plan: Plan, recipe: Path) -> None:
    texts = texts_of(plan, recipe)
    bumped = bumps.plan_bumps([planned(plan, tool="2.5", low="1.4")], texts)
    names = {place.name: new for place, new in bumped.bumps.items()}
    assert names == {"tool": "2.5", "low": "1.4"}
    assert bumped.versions == [{"tool": "2.5", "low": "1.4"}]
    paths = dict.fromkeys(texts, recipe)
    before = recipe.read_text()
    bumps.write(bumped, recipe.parent, paths, lambda: None)
    after = before.replace("tool: '2.0'", "tool: '2.5'").replace("low==1.0", "low==1.4")
    assert recipe.read_text() == after


def test_what_variants_share_comes_to_one_version(plan: Plan, recipe: Path) -> None:
    texts = texts_of(plan, recipe)
    pair = [planned(plan, low="1.4", numpy="2.4"), planned(plan, low="1.4", numpy="2.5")]
    bumped = bumps.plan_bumps(pair, texts)
    assert {place.name for place in bumped.bumps} == {"low"}
    assert "numpy comes to two versions" in bumped.unwritten[0]
    assert bumped.versions == [{"low": "1.4"}, {"low": "1.4"}]


def test_a_need_without_a_pin_holds_the_variant(plan: Plan, recipe: Path) -> None:
    bumped = bumps.plan_bumps([planned(plan, "more==1", low="1.4")], texts_of(plan, recipe))
    assert bumped.bumps == {}
    assert bumped.unwritten == ("demo: not written; pin more==1 there first, and try again",)


def test_a_need_is_written_below_the_pin_that_needs_it(plan: Plan, recipe: Path) -> None:
    texts = texts_of(plan, recipe)
    needing = planned(
        plan, "more==1", "also==2", needed_by={"more": "low", "also": "low"}, low="1.4"
    )
    bumped = bumps.plan_bumps([needing], texts)
    assert bumped.unwritten == ()
    assert bumped.versions == [{"low": "1.4", "more": "1", "also": "2"}]
    before = recipe.read_text()
    bumps.write(bumped, recipe.parent, dict.fromkeys(texts, recipe), lambda: None)
    after = before.replace("- low==1.0\n", "- low==1.4\n    - more==1\n    - also==2\n")
    assert recipe.read_text() == after != before


def test_what_one_variant_alone_needs_is_not_put_into_a_list_of_two(
    plan: Plan, recipe: Path
) -> None:
    texts = texts_of(plan, recipe)
    pair = [
        planned(plan, "more==1", needed_by={"more": "low"}, low="1.4"),
        planned(plan, low="1.4"),
    ]
    bumped = bumps.plan_bumps(pair, texts)
    assert bumped.additions == {}
    assert "pin more==1 there first" in bumped.unwritten[0]
    same = [planned(plan, "more==1", needed_by={"more": "low"}, low="1.4") for _ in range(2)]
    assert len(bumps.plan_bumps(same, texts).additions) == 1


def test_a_number_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("versions: {low: 1.0.1}  # kept\n")
    place = VersionPlace(file="r.yaml", line=1, name="low", version="1.0.1")
    bumps.write(plan_of_bump(place, "1.4"), tmp_path, {"r.yaml": path}, lambda: None)
    assert path.read_text() == 'versions: {low: "1.4"}  # kept\n'


def test_the_stack_of_a_framework_that_moves_is_named(tmp_path: Path) -> None:
    stack = {"cuda": "12.9", "gpu_targets": ["sm_80"]}
    recipe = folder_of(tmp_path, steps=STEPS, stack=stack) / "recipe.yaml"
    plan = plan_of(recipe.parent)
    texts = texts_of(plan, recipe)
    stale = bumps.plan_bumps([planned(plan, tool="2.5")], texts).stale
    assert stale == ("demo: stack (gpu_targets) is of the tool before: read the new wheels",)
    assert bumps.plan_bumps([planned(plan, low="1.4")], texts).stale == ()


def test_files_of_others_are_left_alone(plan: Plan, recipe: Path) -> None:
    bumped = bumps.plan_bumps([planned(plan, low="1.4")], {})
    assert (bumped.bumps, bumped.versions) == ({}, [{}])


@pytest.mark.parametrize(
    "line", ["", "- low==1.00", "- low==1.0 low==1.0", "- slow==1.0", "low 1.0"]
)
def test_a_line_that_changed_is_not_written(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(f"{line}\n")
    place = VersionPlace(file="r.yaml", line=1, name="low", version="1.0")
    with pytest.raises(ConfigError, match="the line does not pin low") as error:
        bumps.write(plan_of_bump(place, "1.4"), tmp_path, {"r.yaml": path}, lambda: None)
    assert error.value.where == "r.yaml:1"
    assert path.read_text() == f"{line}\n"


def test_all_are_as_they_were_where_the_check_fails(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("- low==1.0  # a comment\n")
    place = VersionPlace(file="r.yaml", line=1, name="low", version="1.0")

    def refuse() -> None:
        assert path.read_text() == "- low==1.4  # a comment\n"
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        bumps.write(plan_of_bump(place, "1.4"), tmp_path, {"r.yaml": path}, refuse)
    assert path.read_text() == "- low==1.0  # a comment\n"
    assert [file.name for file in tmp_path.iterdir()] == ["r.yaml"]
