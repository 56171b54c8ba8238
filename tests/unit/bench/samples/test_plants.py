"""Each plant that attestation has to notice, as a process really attested it, refuses by name."""

import json
from functools import cache
from typing import Any

import pytest

from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import AttestedStack
from dlcontainer.bench.samples.vocabulary import ArmPair, Question
from tests.plants import planting
from tests.plants.planting import NAMED
from tests.plants.record import RECORDED

SIDES = ArmPair(reference="native", candidate="container")
# A deployment question takes each image as it is shipped.
OF_THE_IMAGE = {
    *("eager-collector", "no-byte-code", "flush-denormals", "spinning-thread"),
    *("byte-code-checked", "finder-before-all", "hook-on-every-module", "no-collector"),
    "no-onednn",
}
LISTS = (planting.FIRST, planting.SECOND)


@cache
def pairs() -> dict[str, dict[str, list[Any]]]:
    """Read what was recorded: plant -> fact -> clean and planted value."""
    found: dict[str, dict[str, list[Any]]] = {}
    for path in LISTS:
        found |= json.loads((RECORDED / path.with_suffix(".json").name).read_text())
    return found


def refusals(name: str, question: Question) -> tuple[str, ...]:
    """Judge the recorded pair, without the .pth file by which some were planted."""
    facts = {k: v for k, v in pairs()[name].items() if not k.startswith("pth_files")}
    clean, planted = ({k: pair[i] for k, pair in facts.items()} for i in (0, 1))
    ours = AttestedStack(arm="native", facts={k: v for k, v in planted.items() if v is not None})
    theirs = AttestedStack(arm="container", facts={k: v for k, v in clean.items() if v is not None})
    found = comparable.differences(question, ours, theirs)
    return comparable.refusals(found, SIDES, ())


def test_every_plant_was_recorded() -> None:
    plants = [plant for path in LISTS for plant in planting.load(path)]
    assert [len(planting.load(path)) for path in LISTS] == [20, 20]
    assert pairs().keys() == {plant.name for plant in plants}


@pytest.mark.parametrize("name", sorted(planting.BY_THEIR_FILE_ALONE))
def test_what_nobody_can_ask_for_is_seen_by_the_file_that_did_it(name: str) -> None:
    assert list(pairs()[name]) == ["pth_files.planted.pth"]


@pytest.mark.parametrize("name", NAMED)
def test_a_plant_refuses_and_both_values_are_named(name: str) -> None:
    item = NAMED[name]
    clean, planted = (comparable.shown(value) for value in pairs()[name][item])
    assert f"{item} differs: native {planted}, container {clean}" in refusals(name, "overhead")
    assert bool(refusals(name, "deployment")) is (name not in OF_THE_IMAGE)


def test_the_sessions_that_the_page_counts() -> None:
    lists = json.loads((RECORDED / "sessions.json").read_text())
    counted = {}
    for path in LISTS:
        sessions = lists[path.stem]
        assert sessions.keys() == {plant.name for plant in planting.load(path)}
        refused = [s for s in sessions.values() if s["verdict"] == "NOT COMPARABLE"]
        shown = [s for s in refused if any(not r.startswith("pth_") for r in s["refused_by"])]
        counted[path.stem] = (len(refused), len(shown))
        assert {s["verdict"] for s in sessions.values()} <= {"NOT COMPARABLE", "INCONCLUSIVE"}
    assert counted == {"first": (20, 20), "second": (19, 14)}
