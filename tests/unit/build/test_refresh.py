"""What a refresh decides: newer, nothing newer, mirrors that lag, what nobody can resolve ahead."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import refresh
from dlcontainer.build.base import root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.context import BuildContext
from dlcontainer.build.package_moves import PackageMove
from dlcontainer.build.refresh import ImageBefore, RefreshAnswer, RefreshStart
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.image.contents import InstalledPackage
from dlcontainer.image.record import Record, RefreshProvenance
from dlcontainer.packages import lock_resolver
from dlcontainer.packages.lock_resolver import Locker, ResolvedPackages
from dlcontainer.packages.lockfile import LockedBase, LockedStep, MirrorRelease
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image
from tests.fakes import Quiet, RecordingRunner, completed
from tests.locks import deb, wheel
from tests.values import CONTENT, IMAGE_BASE, execution_of, folder_of, host, plan_of

STATE = MirrorRelease(suite="bookworm-security", origin="Debian", date="Fri, 27 Nov 2026")
WHEELS = {"name": "wheels", "python_packages": {"packages": ["tool==2.0"]}}
SYSTEM = {"name": "system", "os_packages": ["python3"]}


class Mirrors:
    """Stands in for `lock_resolver.resolve`: what mirrors and index have."""

    def __init__(self, base: Mapping[str, str], system: Mapping[str, str]) -> None:
        self.base, self.system, self.error = base, system, ""

    def __call__(self, plan: Plan, locker: Locker, **kinds: bool) -> ResolvedPackages:
        if self.error:
            raise ConfigError(self.error)
        pins = [tuple(deb(*item) for item in of.items()) for of in (self.base, self.system)]
        os_step = LockedStep(name="system", os_packages=pins[1])
        if not kinds.get("os_packages", True):
            return ResolvedPackages(
                base=None, steps=(LockedStep(name="wheels", python_packages=(wheel(),)),)
            )
        return ResolvedPackages(
            base=LockedBase(mirror=(STATE,), packages=pins[0]), steps=(os_step,)
        )


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> Mirrors:
    stand_in = Mirrors({"libssl3": "3.0.14"}, {"python3": "3.11"})
    monkeypatch.setattr(lock_resolver, "resolve", stand_in)
    return stand_in


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path, steps=[SYSTEM, WHEELS]))


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    return BuildContext(execution=execution_of(tmp_path, RecordingRunner()), templates=())


@pytest.fixture
def locker(tmp_path: Path) -> Locker:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "dpkg"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)

    class Dpkg(RecordingRunner):
        """Compares versions of digits and dots."""

        def __call__(self, argv: Any, **options: Any) -> Any:
            assert argv[1] == "--compare-versions"
            first, second = ([int(n) for n in v.split(".")] for v in (argv[2], argv[4]))
            return completed(*argv, code=0 if first < second else 1)

    return Locker(
        host=host(environ={"PATH": str(programs)}),
        runner=Dpkg(),
        scratch=tmp_path,
        cache=tmp_path / "cache",
        progress=Quiet(),
    )


def image(**versions: str) -> ImageBefore:
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "cd" * 32, "size": 1},
        "digest": "ab" * 32,
        "content": CONTENT,
    }
    packages = [
        InstalledPackage(kind="deb", name=name, version=version)
        for name, version in versions.items()
    ]
    packages.append(
        InstalledPackage(kind="pypi", name="Tool", version="2.0", sha256=wheel().sha256)
    )
    return ImageBefore(
        record=Record.model_validate_json(json.dumps(body)), packages=tuple(packages)
    )


def test_nothing_newer(plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors) -> None:
    """The fix is not out yet: the mirrors' state is named, and the steps stay as they are."""
    before = image(libssl3="3.0.14", python3="3.11", own="1")
    answer = refresh.ask(plan, RefreshStart(kind="os", image=before), locker)
    assert (answer.is_newer, answer.moves) == (False, ())
    assert answer.refreshed.mirror == ("Debian bookworm-security Fri, 27 Nov 2026",)
    # An image that is made again for another word has what the mirrors had, with the same steps.
    after = answer.into(context)
    assert (after.pins, after.base_since) == ({}, None)
    assert after.refreshed == answer.refreshed


def test_newer_in_the_base(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    before = image(libssl3="3.0.13", python3="3.11")
    answer = refresh.ask(plan, RefreshStart(kind="base", image=before), locker)
    assert answer.moves == (PackageMove(name="deb:libssl3", before="3.0.13", after="3.0.14"),)
    after = answer.into(context)
    assert after.base_since is not None
    # Steps of packages keep their keys: a new base makes them again.
    assert after.pins == {}


def test_newer_in_a_step(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    before = image(libssl3="3.0.14", python3="3.10")
    first = refresh.ask(plan, RefreshStart(kind="os", image=before), locker)
    assert [move.name for move in first.moves] == ["deb:python3"]
    refreshed = first.into(context)
    assert list(refreshed.pins) == ["system"]
    # Asked again, the mirrors have the same: the same key, so the same result of the step.
    second = refresh.ask(
        plan,
        RefreshStart(
            kind="os", image=image(libssl3="3.0.14", python3="3.11"), last=refreshed.refreshed
        ),
        locker,
    )
    assert second.is_newer is False
    assert second.refreshed.steps == first.refreshed.steps


def test_only_the_base_is_asked_for(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    before = image(libssl3="3.0.14", python3="3.10")
    assert refresh.ask(plan, RefreshStart(kind="base", image=before), locker).is_newer is False


def test_mirrors_that_lag(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    answer = refresh.ask(
        plan, RefreshStart(kind="os", image=image(libssl3="3.0.15", python3="3.11")), locker
    )
    assert answer.is_newer is False
    assert answer.notes == ("the mirrors lag behind the image: libssl3 3.0.15 → 3.0.14",)
    assert [move.name for move in answer.older] == ["deb:libssl3"]
    with pytest.raises(BuildError, match="older packages than the image: libssl3") as error:
        refresh.ask(
            plan, RefreshStart(kind="os", image=image(libssl3="3.0.15", python3="3.10")), locker
        )
    assert "python3 3.10 → 3.11" in str(error.value.why)


def test_without_an_image_all_is_newer(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    answer = refresh.ask(plan, RefreshStart(kind="os", image=None), locker)
    assert (answer.is_newer, answer.moves) == (True, ())


def test_what_nobody_resolves_ahead_runs_again(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    mirrors.error = "locks need apt"
    answer = refresh.ask(plan, RefreshStart(kind="os", image=image()), locker)
    assert answer.is_newer is True
    assert set(answer.refreshed.steps) == {"system"}
    assert "it can't be told whether there are newer packages" in answer.notes[0]
    with pytest.raises(ConfigError, match="locks need apt"):
        refresh.ask(plan, RefreshStart(kind="base", image=image()), locker)


def test_pins_of_the_recipe_stay(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    answer = refresh.ask(plan, RefreshStart(kind="python", image=image()), locker)
    assert answer.is_newer is False
    assert answer.base_since is None
    assert "dlcontainer recipe outdated demo" in answer.notes[0]


def test_a_digest_is_no_moving_base(
    tmp_path: Path, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    pinned = plan_of(folder_of(tmp_path / "one", base=IMAGE_BASE, steps=[WHEELS]))
    for kind in ("base", "os"):
        with pytest.raises(ConfigError, match="a digest pins it") as error:
            refresh.ask(pinned, RefreshStart(kind=kind, image=None), locker)
        assert "dlcontainer base pin demo" in str(error.value.next_step)
    plan = plan_of(folder_of(tmp_path / "two", steps=[SYSTEM]))
    with pytest.raises(ConfigError, match="cannot refresh the base of --base"):
        refresh.ask(plan, RefreshStart(kind="base", image=None, base=Path("/a/base")), locker)
    with pytest.raises(ConfigError, match="installs Python packages"):
        refresh.ask(plan, RefreshStart(kind="python", image=None), locker)


def test_an_earlier_refresh_stays(
    plan: Plan, context: BuildContext, locker: Locker, mirrors: Mirrors
) -> None:
    """What one kind came to is kept while another is asked for."""
    last = RefreshProvenance(
        asked_at="2026-11-02T08:00:00Z", kind="os", steps={"system": "ab" * 32}
    )
    answer: RefreshAnswer = refresh.ask(
        plan, RefreshStart(kind="python", image=None, last=last), locker
    )
    assert answer.refreshed.steps["system"] == "ab" * 32
    assert set(answer.refreshed.steps) == {"system", "wheels"}


def test_packed_again_on_the_image_s_own_base(
    plan: Plan, locker: Locker, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base of any age serves where nothing is newer, if the image is made of it."""
    kept = BaseTree(path=Path("/b"), sha256="ba" * 32, made_at="2026-01-01T00:00:00Z", cached=True)
    monkeypatch.setattr(root_tree, "recall", lambda *_, since: kept if since == 0.0 else None)
    for sha256, since in (("ba" * 32, 0.0), ("cc" * 32, None)):
        before = image(libssl3="3.0.14", python3="3.11")
        body = before.record.model_dump(mode="json", by_alias=True)
        body["base"] = {"sha256": sha256, "made": kept.made_at}
        before = replace(before, record=Record.model_validate_json(json.dumps(body)))
        answer = refresh.ask(plan, RefreshStart(kind="os", image=before), locker)
        assert (answer.is_newer, answer.base_since) == (False, since)


def test_a_base_that_is_a_file_stays(plan: Plan, locker: Locker, mirrors: Mirrors) -> None:
    """What the mirrors have newer of it is no reason to run the steps."""
    before = image(libssl3="3.0.13", python3="3.11")
    start = RefreshStart(kind="os", image=before, base=Path("/a/base"))
    answer = refresh.ask(plan, start, locker)
    assert (answer.is_newer, answer.moves) == (False, ())
    assert "the base /a/base stays" in answer.notes[0]


def test_a_tag_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, old, new = "registry.example.org/base/os", f"sha256:{'ab' * 32}", f"sha256:{'00' * 32}"
    pinned, untagged = (
        plan_of(folder_of(tmp_path / str(n), base={"image": f"docker://{n}"}, steps=[WHEELS]))
        for n in (f"{name}:8.9@{old}", f"{name}@{old}")
    )
    for now, moves in (
        (old, ()),
        (new, (PackageMove(name=f"base:{name}:8.9", before=old, after=new),)),
    ):
        monkeypatch.setattr(base_image, "find_digest", lambda *_, now=now: now)
        assert refresh.base_tag(pinned, host()) == moves
    assert refresh.base_tag(untagged, host()) is None
    assert refresh.base_tag(plan_of(folder_of(tmp_path / "tree")), host()) is None


def test_no_bill_no_image(tmp_path: Path) -> None:
    record, bill = tmp_path / "a.json", tmp_path / "a.cdx.json"
    assert refresh.before(record, bill) is None
    record.write_text("{")
    assert refresh.before(record, bill) is None
