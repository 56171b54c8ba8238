"""The pins below one's own packages: each package once, as the image has it."""

from pathlib import Path

from dlcontainer.authoring import parent_pins
from tests.unit.recipes.test_extends import packages, settle


def test_of_a_pin_that_was_changed_below_the_later_one_holds(tmp_path: Path) -> None:
    """Two versions of a package would be a contradiction that no resolver gets out of."""
    plan = settle(
        tmp_path,
        steps=[packages("more==3.0", "num-py==1.5", name="more")],
        changed_pins=["num-py"],
    )
    found = {str(pin.requirement): pin.origin for pin in parent_pins.pins_of(plan)}
    assert [name for name in found if "num" in name.lower()] == ["num-py==1.5"]
    file, _, line = found["num-py==1.5"].rpartition(":")
    assert (file, "num-py==1.5") == (
        "recipe.yaml",
        (tmp_path / "demo/recipe.yaml").read_text().splitlines()[int(line) - 1].strip(" -"),
    )
