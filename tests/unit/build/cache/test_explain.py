"""Why a step comes from the cache, and why another does not."""

from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import explain
from dlcontainer.build.cache.cached_step import CachedStep

ROOT = {"base": "b1", "architecture": "x86_64", "engine": "apptainer"}
KEPT = CachedStep(key="k", name="s2", maker="ada", made_at="2026-11-21T10:00:00Z", size=5_000_000)


def todo(*scripts: str) -> list[BuildStep]:
    return [
        BuildStep(
            name=f"s{number}",
            number=number,
            total=len(scripts),
            script=script,
            files=(),
            inputs={"script": script, "/opt/file": "f"},
            key=f"k{number}{script}",
        )
        for number, script in enumerate(scripts, start=1)
    ]


OLD = explain.inputs_of(todo("a", "b", "c"), ROOT)


def why(
    steps: list[BuildStep], kept: list[CachedStep | None], root: dict[str, str] = ROOT
) -> list[str]:
    return [one.why for one in explain.explain(steps, kept, root, OLD)]


def test_never_built() -> None:
    reasons = explain.explain(todo("a", "b"), [None, None], ROOT, None)
    assert [(one.cached, one.why) for one in reasons] == [(False, "never built here before")] * 2


def test_from_the_cache_by_itself_or_as_a_part() -> None:
    reasons = explain.explain(todo("a", "b", "c"), [None, KEPT, None], ROOT, OLD)
    assert [one.cached for one in reasons] == [True, True, False]
    assert reasons[0].why == "part of the result of 's2'"
    assert reasons[1].why == "made 2026-11-21T10:00:00Z by ada, 5 MB"
    assert reasons[2].why.startswith("not in the cache: it was quick")


def test_changed_commands_and_what_follows() -> None:
    assert why(todo("a", "B", "c"), [KEPT, None, None])[1:] == [
        "its commands changed",
        "the step 's2' before it changed",
    ]


def test_changed_files() -> None:
    steps = todo("a", "b", "c")
    steps[0].inputs["/opt/file"] = "other"  # type: ignore[index]
    assert why(steps, [None, None, None])[0] == "changed: /opt/file"


def test_a_new_step() -> None:
    assert why([*todo("a", "b", "c"), *todo("x", "y", "z", "new")[3:]], [None] * 4)[3] == (
        "new in the recipe"
    )


def test_another_base() -> None:
    root = {**ROOT, "base": "b2"}
    assert (
        why(todo("a", "b", "c"), [None] * 3, root) == ["base changed since the previous build"] * 3
    )
