"""What pip says of base and layer: what the base had broken already is no fault of the layer."""

import json
from pathlib import Path

import pytest

from dlcontainer.authoring.extension import layer_trial
from dlcontainer.errors import BuildError, MisfitError
from tests.unit.authoring.extension.places import PATHS

BROKEN = "base 1 requires lost, which is not installed."


class FakeProgram:
    """A base's Python that prints what it is told."""

    paths = PATHS

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, *_: object) -> str:
        return self.text


def answer(before: list[str] | None, after: list[str] | None) -> FakeProgram:
    return FakeProgram(
        f"hello of a sitecustomize\n{json.dumps({'before': before, 'after': after})}\n"
    )


def test_what_the_layer_breaks() -> None:
    program = answer([BROKEN], [BROKEN, "base 1 has requirement x>=2, but you have x 1."])
    with pytest.raises(MisfitError) as caught:
        layer_trial.run(program, Path("layer"))  # type: ignore[arg-type]
    assert caught.value.why == "base 1 has requirement x>=2, but you have x 1."


def test_what_was_broken_before_is_noted() -> None:
    trial = layer_trial.run(answer([BROKEN], [BROKEN]), Path("layer"))  # type: ignore[arg-type]
    assert trial.notes == (f"pip check, of the base alone: {BROKEN}",)


def test_a_base_without_pip() -> None:
    trial = layer_trial.run(answer([], None), Path("layer"))  # type: ignore[arg-type]
    assert "no pip" in trial.notes[0]


@pytest.mark.parametrize("text", ["", "no JSON", '{"after": 7}'])
def test_an_answer_that_is_none(text: str) -> None:
    with pytest.raises(BuildError, match="something else"):
        layer_trial.run(FakeProgram(text), Path("layer"))  # type: ignore[arg-type]
