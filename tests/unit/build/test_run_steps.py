"""How an image grows: from the last kept step, keeping what took long, damaged entries again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build import run_steps
from dlcontainer.build.backends.backend import DamagedError, SaveTask
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.build.run_steps import StepPolicy
from dlcontainer.errors import BuildError
from dlcontainer.image.contents import FolderTree
from dlcontainer.system.process import CommandFailedError, CompletedCommand
from dlcontainer.system.progress import StepProgress
from tests.fakes import Quiet


def step(number: int, total: int = 3) -> BuildStep:
    name = f"s{number}"
    return BuildStep(
        name=name, number=number, total=total, script="", files=(), inputs={}, key=f"k{number}"
    )


TODO = [step(1), step(2), step(3)]


class Backend:
    """A backend that notes what is asked of it."""

    def __init__(self, kept: Sequence[str] = (), fails: str = "", damaged: str = "") -> None:
        self.kept = {key: _kept(key) for key in kept}
        self.fails, self.damaged = fails, damaged
        self.calls: list[str] = []

    def recall(self, key: str) -> CachedStep | None:
        return self.kept.get(key)

    def begin(self, parent: CachedStep | None) -> None:
        self.calls.append(f"begin {parent.key if parent else 'base'}")
        if parent and parent.key == self.damaged:
            del self.kept[parent.key]
            raise DamagedError(parent.key)

    def run(self, step: BuildStep) -> None:
        self.calls.append(f"run {step.name}")
        if step.name == self.fails:
            done = CompletedCommand(argv=("sh",), returncode=1, stdout="oh", stderr="", elapsed=0)
            raise CommandFailedError(done)

    def keep(self, step: BuildStep, packages: Packages) -> SaveTask:
        self.calls.append(f"keep {step.name}")
        kept = replace(_kept(step.key), packages=packages)
        return lambda: self.kept.update({step.key: kept})

    def files(self) -> FolderTree:
        return FolderTree(folder=Path("tree"))

    def shell_command(self) -> tuple[list[str], dict[str, str], Path]:
        return ["sh"], {}, Path()

    def finish(self, target: Path, sbom: Path) -> None:
        self.calls.append("finish")


def _kept(key: str) -> CachedStep:
    return CachedStep(key=key, name=key, maker="me", made_at="2026", size=1)


def _failure(step: BuildStep | str, error: CommandFailedError) -> BuildError:
    name = step if isinstance(step, str) else step.name
    return BuildError(f"{name}: {error.completed.stdout}")


def grow(
    backend: Backend, worth: float = 0.0, *, fresh: bool = False, keep_last: bool = False
) -> list[run_steps.StepResult]:
    policy = StepPolicy(
        failure=_failure,
        installed=lambda: ({"name": backend.calls[-1]},),
        worth_keeping_s=worth,
        fresh=fresh,
        keep_last=keep_last,
    )
    return run_steps.grow(backend, TODO, StepProgress(Quiet()), policy)


def test_everything_is_run_and_kept_but_the_last() -> None:
    backend = Backend()
    done = grow(backend)
    assert backend.calls == ["begin base", "run s1", "keep s1", "run s2", "keep s2", "run s3"]
    assert [one.packages for one in done] == [({"name": f"run s{n}"},) for n in (1, 2, 3)]
    assert all(one.seconds is not None and one.kept is None for one in done)


def test_what_was_quick_is_not_kept() -> None:
    backend = Backend()
    grow(backend, worth=60.0)
    assert backend.calls == ["begin base", "run s1", "run s2", "run s3"]


@pytest.mark.parametrize(
    ("kept", "calls"),
    [
        (["k1"], ["begin k1", "run s2", "keep s2", "run s3"]),
        (["k2"], ["begin k2", "run s3"]),  # the first was never kept, and is part of the second
        (["k1", "k2"], ["begin k2", "run s3"]),
        (["other"], ["begin base", "run s1", "keep s1", "run s2", "keep s2", "run s3"]),
    ],
)
def test_it_goes_on_from_the_last_kept_step(kept: list[str], calls: list[str]) -> None:
    backend = Backend(kept)
    done = grow(backend)
    assert backend.calls == calls
    assert [one.seconds is None for one in done].count(True) == 3 - calls.count("run s3") - len(
        [call for call in calls if call in ("run s1", "run s2")]
    )


def test_nothing_kept_is_taken_when_fresh_is_asked_for() -> None:
    backend = Backend(["k1", "k2"])
    grow(backend, fresh=True)
    assert backend.calls[:2] == ["begin base", "run s1"]


def test_a_damaged_one_is_replaced_by_the_one_before() -> None:
    backend = Backend(["k1", "k2"], damaged="k2")
    grow(backend)
    assert backend.calls == ["begin k2", "begin k1", "run s2", "keep s2", "run s3"]


def test_a_failed_step_ends_it_and_what_was_done_stays() -> None:
    backend = Backend(fails="s2")
    with pytest.raises(BuildError, match="s2: oh"):
        grow(backend)
    assert backend.calls == ["begin base", "run s1", "keep s1", "run s2"]
    assert list(backend.kept) == ["k1"]
    again = Backend(list(backend.kept))
    grow(again)
    assert again.calls[0] == "begin k1"


def test_the_last_is_kept_where_it_is_asked_for() -> None:
    backend = Backend()
    grow(backend, worth=60.0, keep_last=True)
    assert backend.calls[-1] == "keep s3"


def test_the_rest_of_keeping_may_run_beside_the_next_step() -> None:
    backend = Backend()
    waiting: list[SaveTask] = []
    policy = StepPolicy(
        failure=_failure, installed=tuple, worth_keeping_s=0.0, later=waiting.append
    )
    said = Quiet()
    run_steps.grow(backend, TODO, StepProgress(said), policy)
    assert backend.kept == {}
    for keeping in waiting:
        keeping()
    assert sorted(backend.kept) == ["k1", "k2"]

    def fail() -> None:
        raise BuildError("no place")

    other = Backend()
    other.keep = lambda step, packages: fail  # type: ignore[method-assign]
    waiting.clear()
    run_steps.grow(other, TODO, StepProgress(said), policy)
    for keeping in waiting:
        keeping()
    assert "not keeping the result of 's2' in the cache: no place" in said.said


def test_a_cache_that_takes_none_costs_nothing_now() -> None:
    backend = Backend()
    done = CompletedCommand(
        argv=("x",),
        returncode=1,
        stdout="Write failed: No space left on device",
        stderr="",
        elapsed=0,
    )
    said = Quiet()

    def keep(step: BuildStep, packages: Packages) -> SaveTask:
        raise CommandFailedError(done)

    backend.keep = keep  # type: ignore[method-assign]
    policy = StepPolicy(failure=_failure, installed=tuple, worth_keeping_s=0.0)
    run_steps.grow(backend, TODO, StepProgress(said), policy)
    assert backend.calls == ["begin base", "run s1", "run s2", "run s3"]
    assert "not keeping the result of 's1' in the cache: the disk is full" in said.said


def test_the_maker_of_the_result_that_was_taken_is_named() -> None:
    """Whoever kept the earlier steps too: their results are not what is in the tree."""
    backend = Backend(["k1", "k2"])
    backend.kept["k1"] = replace(backend.kept["k1"], maker="ada")
    done = grow(backend)
    assert [one.kept.maker if one.kept else None for one in done] == ["me", "me", None]


def test_a_step_that_nobody_kept_has_the_maker_of_the_result_it_is_in() -> None:
    done = grow(Backend(["k2"]))
    assert [one.kept.maker if one.kept else None for one in done] == ["me", "me", None]
