"""Whose a fact is, and what of a container is expected."""

import hashlib
from collections.abc import Mapping

import pytest

from dlcontainer.bench.samples import comparable, owners
from dlcontainer.bench.samples.comparable import FactDifference
from dlcontainer.bench.samples.records import AttestedStack, Json
from dlcontainer.bench.samples.vocabulary import ArmName, Question


def compared(
    ours: Mapping[str, Json],
    theirs: Mapping[str, Json],
    question: Question = "overhead",
    arms: tuple[ArmName, ArmName] = ("native", "container"),
) -> list[FactDifference]:
    one, other = (
        AttestedStack(arm=arm, facts=facts) for arm, facts in zip(arms, (ours, theirs), strict=True)
    )
    return comparable.differences(question, one, other)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("torch", "image"),
        ("library_builds.libtorch.so", "image"),
        ("pth_files.a.pth", "image"),
        ("byte_code_percent", "image"),
        ("hooks.meta_path", "image"),
        ("hooks.profile", "surroundings"),
        ("seccomp", "engine"),
        ("limits.core", "engine"),
        ("limits.nofile", "surroundings"),
        ("limits.stack", "surroundings"),
        ("cgroup.processes", "surroundings"),
        ("cgroup.cpu_quota", "surroundings"),
        ("environment.MALLOC_ARENA_MAX", "surroundings"),
        ("what nobody knows", "surroundings"),
    ],
)
def test_each_fact_has_an_owner(name: str, owner: str) -> None:
    assert owners.of(name) == owner


@pytest.mark.parametrize(
    ("facts", "inside"),
    [
        ({"seccomp": "0", "seccomp_filters": "0"}, {"seccomp": "2", "seccomp_filters": "1"}),
        ({"no_new_privs": "0"}, {"no_new_privs": "1"}),
        ({"namespaces": {"user": "the machine's"}}, {"namespaces": {"user": "another"}}),
        (
            {"seccomp": "0", "speculation_store_bypass": "vulnerable"},
            {"seccomp": "2", "speculation_store_bypass": "thread force mitigated"},
        ),
    ],
)
def test_an_engine_adds_and_never_takes_away(
    facts: dict[str, Json], inside: dict[str, Json]
) -> None:
    expected = compared(facts, inside)
    assert expected
    assert not any(item.refuses for item in expected)
    assert {item.owner for item in expected} == {"engine"}
    # The other way round the host was changed: whatever was asked, that is another experiment.
    for question in ("overhead", "deployment"):
        found = compared(inside, facts, "overhead" if question == "overhead" else "deployment")
        assert found[0].refuses


def test_two_sides_of_one_engine_have_its_filter_both_or_neither() -> None:
    (found,) = compared({"seccomp": "0"}, {"seccomp": "2"}, arms=("unpacked", "container"))
    assert found.refuses


def test_speculation_that_no_filter_explains_refuses() -> None:
    found = compared(
        {"seccomp": "0", "speculation_store_bypass": "vulnerable"},
        {"seccomp": "0", "speculation_store_bypass": "thread force mitigated"},
    )
    assert [(item.name, item.refuses) for item in found] == [("speculation_store_bypass", True)]


HOST_LIMITS: dict[str, dict[str, Json]] = {
    "limits": {"nofile": [20000, 20000], "nproc": [96343, 96343], "as": ["none", "none"]},
    "cgroup": {"processes": "none"},
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limits.nofile", [1048576, 1048576]),
        ("limits.nofile", [1024, 524288]),
        ("limits.nofile", ["none", "none"]),
        ("limits.nproc", [32768, 32768]),
        ("cgroup.processes", 2048),
    ],
)
def test_a_limit_that_an_engine_sets_unasked_is_the_engine_s(name: str, value: Json) -> None:
    found = compared(HOST_LIMITS, limited(name, value))
    assert [(item.name, item.owner, item.refuses) for item in found] == [(name, "engine", False)]
    # A host's processes may be in the topmost group, which states no number of them.
    unstated = {**HOST_LIMITS, "cgroup": {}}
    assert not compared(unstated, limited("cgroup.processes", 2048))[0].refuses
    assert compared(unstated, limited("cgroup.processes", 64))[0].refuses
    # Of two containers of one engine, or the other way round, somebody has set it.
    two = compared(HOST_LIMITS, limited(name, value), arms=("unpacked", "container"))
    lower = compared(limited("limits.nofile", [64, 64]), limited("limits.nofile", [32, 64]))
    host = compared(limited("cgroup.processes", 2048), HOST_LIMITS)
    assert [item.refuses for item in (*two, *lower, *host)] == [True] * 3


@pytest.mark.parametrize("question", ["overhead", "deployment"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limits.as", [4294967296, 4294967296]),  # ulimit -v
        ("limits.nofile", [64, 64]),  # --ulimit nofile=64
        ("limits.nofile", [64, 20000]),
        ("limits.nproc", [500, 500]),
        ("limits.memlock", [65536, 65536]),
        ("cgroup.processes", 64),  # --pids-limit 64
    ],
)
def test_a_limit_that_somebody_set_refuses(question: Question, name: str, value: Json) -> None:
    for ours, theirs in (
        (HOST_LIMITS, limited(name, value)),
        (limited(name, value), HOST_LIMITS),
    ):
        found = compared(ours, theirs, question)
        # Podman takes what the user may have at most: a soft limit of the host's alone is raised.
        taken = ours["limits"] == {**HOST_LIMITS["limits"], "nofile": [64, 20000]}
        assert [item.refuses for item in found] == [not taken]


def limited(name: str, value: Json) -> dict[str, dict[str, Json]]:
    kind, _, limit = name.partition(".")
    return {**HOST_LIMITS, kind: {**HOST_LIMITS[kind], limit: value}}


@pytest.mark.parametrize("question", ["overhead", "deployment"])
def test_a_variable_of_the_native_side_alone_was_set_by_somebody(question: Question) -> None:
    (found,) = compared({"variables": {"NOBODY_KNOWS": "set"}}, {}, question)
    assert found.refuses
    (found,) = compared({}, {"variables": {"APPTAINER_NAME": "set"}}, question)
    assert not found.refuses
    (found,) = compared({"variables": {"PWD": "set"}}, {}, question)
    assert not found.refuses


def test_what_images_state_of_themselves_is_expected_of_the_container_alone() -> None:
    (found,) = compared({}, {"environment": {"CUDA_VERSION": "12.8"}})
    assert not found.refuses
    (found,) = compared({"environment": {"CUDA_VERSION": "12.8"}}, {})
    assert found.refuses


@pytest.mark.parametrize(
    ("limit", "theirs", "refuses"),
    [
        (0.5, {"cgroup_paths": {"cpu": "/a"}}, False),  # one path: one limit, not readable inside
        (0.5, {"cgroup_paths": {"cpu": "/b"}}, True),
        (0.5, {}, True),
        ("none", {}, False),
        (0.5, {"cgroup_paths": {"cpu": "/b"}, "cgroup": {"cpu_quota": 0.5}}, False),
        (0.5, {"cgroup_paths": {"cpu": "/a"}, "cgroup": {"cpu_quota": "none"}}, True),
    ],
)
def test_a_limit_that_one_side_cannot_read(
    limit: Json, theirs: dict[str, Json], refuses: bool
) -> None:
    ours: dict[str, Json] = {"cgroup": {"cpu_quota": limit}, "cgroup_paths": {"cpu": "/a"}}
    assert any(item.refuses for item in compared(ours, theirs)) is refuses


def test_what_differs_with_the_container_is_named() -> None:
    ours: dict[str, Json] = {
        "executable": {"build": "1"},
        "system_library_builds": {"libc.so.6": "1", "libm.so.6": "2"},
        "seccomp": "0",
    }
    theirs: dict[str, Json] = {
        "executable": {"build": "2"},
        "system_library_builds": {"libc.so.6": "3", "libm.so.6": "4"},
        "seccomp": "2",
    }
    assert comparable.also_differing(compared(ours, theirs)) == (
        "the distribution's build of Python",
        "the distribution's builds of 2 libraries",
        "the engine's filter of system calls",
    )
    assert comparable.also_differing(compared(ours, ours)) == ()


FINDERS: list[Json] = ["zipimport.zipimporter", "_frozen_importlib_external.FileFinder.hook"]
PACKED: dict[str, Json] = {
    "hooks": {"path_hooks": ["_dlcontainer_pack.hook", *FINDERS]},
    "pth_files": {
        "_dlcontainer_pack.pth": hashlib.sha256(b"import _dlcontainer_pack\n").hexdigest()[:16]
    },
}
PLAIN: dict[str, Json] = {"hooks": {"path_hooks": FINDERS}, "pth_files": {}}


def test_an_image_s_module_pack_is_named_and_refuses_nothing() -> None:
    found = compared(PLAIN, PACKED)
    assert [(item.owner, item.refuses) for item in found] == [("image", False)] * 2
    assert comparable.also_differing(found) == ("the image's module pack",)


@pytest.mark.parametrize(
    ("ours", "theirs", "arms"),
    [
        (PACKED, PLAIN, ("native", "container")),  # no build puts one there
        (PLAIN, PACKED, ("unpacked", "container")),
        (PLAIN, {**PACKED, "hooks": {"path_hooks": [*FINDERS, "slow.hook"]}}, None),
        (PLAIN, {**PACKED, "pth_files": {"_dlcontainer_pack.pth": "another line"}}, None),
        ({**PLAIN, "hooks": {"path_hooks": FINDERS[:1]}}, PACKED, None),
    ],
)
def test_what_only_looks_like_a_module_pack_refuses(
    ours: dict[str, Json], theirs: dict[str, Json], arms: tuple[ArmName, ArmName] | None
) -> None:
    found = compared(ours, theirs, arms=arms or ("native", "container"))
    assert any(item.refuses for item in found)


def test_the_bare_image_has_the_build_and_not_the_engine() -> None:
    ours: dict[str, Json] = {"executable": {"build": "1"}, "namespaces": {"user": "the machine's"}}
    theirs: dict[str, Json] = {**ours, "executable": {"build": "2"}}
    inside: dict[str, Json] = {**ours, "namespaces": {"user": "another"}}
    # Another build of the distribution's is what native and bare differ in; of one image it is
    # a library of the host.
    assert [x.refuses for x in compared(ours, theirs, arms=("native", "bare"))] == [False]
    assert [x.refuses for x in compared(ours, theirs, arms=("bare", "container"))] == [True]
    (found,) = compared(ours, inside, arms=("bare", "container"))
    assert (found.owner, found.refuses) == ("engine", False)
    (found,) = compared(ours, inside, arms=("native", "bare"))
    assert found.refuses
    found_pack = compared(PLAIN, PACKED, arms=("native", "bare"))
    assert not any(item.refuses for item in found_pack)
    assert any(item.refuses for item in compared(PLAIN, PACKED, arms=("bare", "container")))
