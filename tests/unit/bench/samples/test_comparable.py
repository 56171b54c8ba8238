from dataclasses import replace

import pytest

from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import AttestedStack, Json, Sample
from dlcontainer.bench.samples.vocabulary import ArmPair, Question
from tests.benchseries import FACTS, INSIDE, losses_of

SIDES = ArmPair(reference="native", candidate="container")


def stacks(
    changes: dict[str, Json], base: dict[str, Json] = INSIDE
) -> tuple[AttestedStack, AttestedStack]:
    return AttestedStack(arm="native", facts=FACTS), AttestedStack(
        arm="container", facts={**base, **changes}
    )


def refusing(question: str, changes: dict[str, Json]) -> list[str]:
    ours, theirs = stacks(changes)
    found = comparable.differences(
        "overhead" if question == "overhead" else "deployment", ours, theirs
    )
    return [item.name for item in found if item.refuses]


def test_a_container_of_the_same_bits_is_comparable() -> None:
    ours, theirs = stacks({})
    found = comparable.differences("overhead", ours, theirs)
    assert [item.name for item in found] == [
        "environment.LD_LIBRARY_PATH",
        "sys_prefix",
        "sys_prefix_mount",
    ]
    assert not any(item.refuses for item in found)


@pytest.mark.parametrize(
    ("changes", "overhead", "deployment"),
    [
        ({"torch": "2.4.0"}, ["torch"], []),
        ({"blas": "open"}, ["blas"], []),
        ({"python": "3.12.1"}, ["python"], []),
        ({"isa_dispatch": "AVX512"}, ["isa_dispatch"], []),
        ({"libc": None}, ["libc"], []),
        # What nobody has thought of surrounds both sides: it must match whatever was asked.
        ({"novelty": 1}, ["novelty"], ["novelty"]),
        ({"threads": 1}, ["threads"], ["threads"]),
        ({"threads": None}, ["threads"], ["threads"]),
        ({"affinity": [0]}, ["affinity"], ["affinity"]),
        ({"workload": {"batch": 3}}, ["workload.batch"], ["workload.batch"]),
        ({"precision": "bf16"}, ["precision"], ["precision"]),
        (
            {"environment": {"OMP_NUM_THREADS": "1"}},
            ["environment.OMP_NUM_THREADS"],
            ["environment.OMP_NUM_THREADS"],
        ),
        ({"sys_path": ["/a"]}, [], []),
        ({"cgroup": {"cpu.max": "max"}}, [], []),
    ],
)
def test_what_a_question_bears(
    changes: dict[str, Json], overhead: list[str], deployment: list[str]
) -> None:
    assert refusing("overhead", changes) == overhead
    assert refusing("deployment", changes) == deployment


def test_another_build_of_a_library_refuses_and_is_named() -> None:
    ours = AttestedStack(
        arm="native", facts={"library_builds": ["liba.so 12"], "numpy_blas": "mkl 1"}
    )
    facts: dict[str, Json] = {"library_builds": ["liba.so 34"], "numpy_blas": "open 2"}
    found = comparable.differences("overhead", ours, AttestedStack(arm="container", facts=facts))
    assert all(item.refuses for item in found)
    assert {item.name: item.values for item in found} == {
        "library_builds": ('["liba.so 12"]', '["liba.so 34"]'),
        "numpy_blas": ("mkl 1", "open 2"),
    }


def test_an_older_probe_says_nothing_of_builds() -> None:
    ours = AttestedStack(
        arm="native", facts={"library_builds": ["liba.so 12"], "numpy_blas": "mkl"}
    )
    found = comparable.differences("overhead", ours, AttestedStack(arm="container", facts={}))
    assert [item.name for item in found] == ["library_builds", "numpy_blas"]
    assert not any(item.refuses for item in found)


def test_two_limits_that_differ_refuse() -> None:
    ours = AttestedStack(arm="native", facts={"cgroup": {"cpu.max": "max"}})
    theirs = AttestedStack(arm="container", facts={"cgroup": {"cpu.max": "100000 100000"}})
    assert comparable.differences("deployment", ours, theirs)[0].refuses


def test_a_variable_of_the_image_s_own_is_part_of_what_is_compared() -> None:
    name = "environment.DNNL_MAX_CPU_ISA"
    ours, theirs = stacks({"environment": {"DNNL_MAX_CPU_ISA": "SSE41"}})
    declared = comparable.CandidateFacts(image=frozenset({name}))
    cases: tuple[tuple[Question, comparable.CandidateFacts, bool], ...] = (
        ("overhead", declared, True),
        ("deployment", declared, False),
        # Nobody declared it: it came from around the image.
        ("deployment", comparable.NOTHING_DECLARED, True),
    )
    for question, own, refuses in cases:
        found = comparable.differences(question, ours, theirs, own)
        (item,) = (one for one in found if one.name == name)
        assert item.refuses is refuses
        assert item.owner == ("image" if own is declared else "surroundings")


def test_a_variable_that_the_reference_has_too_is_no_image_s() -> None:
    ours, theirs = (
        AttestedStack(arm=arm, facts={"environment": {"MALLOC_TRIM_THRESHOLD_": value}})
        for arm, value in zip(SIDES.names, ("0", "1"), strict=True)
    )
    declared = comparable.CandidateFacts(image=frozenset({"environment.MALLOC_TRIM_THRESHOLD_"}))
    (item,) = comparable.differences("deployment", ours, theirs, declared)
    assert (item.refuses, item.owner) == (True, "surroundings")


def test_a_refusal_names_both_values() -> None:
    ours, theirs = stacks({"torch": "2.4.0"})
    found = comparable.differences("overhead", ours, theirs)
    assert comparable.refusals(found, SIDES, ()) == (
        "torch differs: native 2.5.1+cpu, container 2.4.0",
    )


def test_a_side_that_attests_nothing_refuses() -> None:
    assert comparable.refusals([], SIDES, ["container"]) == (
        "container does not say what it is made of",
    )


def test_of_long_lists_only_the_difference_is_shown() -> None:
    ours = AttestedStack(arm="native", facts={"libraries": [f"lib{i}.so" for i in range(9)]})
    theirs = AttestedStack(
        arm="container", facts={"libraries": [f"lib{i}.so" for i in range(1, 9)]}
    )
    (found,) = comparable.differences("overhead", ours, theirs)
    assert found.values == ("only here: lib0.so", "nothing that is missing in the other")
    assert found.refuses


def sample(loss: Json, line: int = 4) -> Sample:
    return replace(
        Sample(
            index=0, role="pair", arm="container", started="", returncode=0, wall_s=1.0,
            values={"loss": loss},
        ),
        line=line,
    )  # fmt: skip


def test_losses_that_agree() -> None:
    found = losses_of([sample([2.0, 1.0]), sample([2.0, 1.005])], 0.01)
    assert not found.problem
    assert found.steps == 2
    assert found.largest == pytest.approx(0.005, abs=1e-4)
    assert not losses_of([sample([0.0]), sample([0.0])], 0.01).problem
    assert not losses_of([sample([1.0]), sample([1.01])], 0.01).problem  # just within


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        ([2.0, 1.2], "differ at step 1: 1 .line 4. and 1.2 .line 9, container."),
        ([2.0, 1.0102], "differ at step 1"),  # just beyond the tolerance
        ([2.0], "2 steps .line 4. and 1 steps"),
        ([2.0, 1.0, 0.5], "2 steps .line 4. and 3 steps"),
        ([2.0, "NaN"], "line 9 .container. has no finite loss"),
        ([2.0, True], "no finite loss"),
        ([], "no finite loss"),
        (None, "no finite loss"),
        ("2", "no finite loss"),
    ],
)
def test_losses_that_do_not(loss: Json, says: str) -> None:
    found = losses_of([sample([2.0, 1.0]), sample(loss, 9)], 0.01)
    import re

    assert re.search(says, found.problem)
