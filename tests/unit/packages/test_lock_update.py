"""A lock with one package newer: what apt is asked, and where its answer goes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.packages import lock_resolver, lock_update
from dlcontainer.packages.apt.image_status import DpkgPackage
from dlcontainer.packages.host_access import HostAccess
from dlcontainer.packages.lock_resolver import Locker, ResolvedPackages, Resolver
from dlcontainer.packages.lock_update import LockUpdate
from dlcontainer.packages.lockfile import Lock, LockedBase, LockedStep, OsPin
from dlcontainer.planning.plan import Plan
from tests.fakes import Quiet, RecordingRunner
from tests.locks import deb, lock, wheel
from tests.values import folder_of, host, plan_of

STEPS: list[dict[str, Any]] = [
    {"name": "system", "os_packages": ["openssl"]},
    {"name": "made", "shell": "make", "build_packages": ["make"]},
    {"name": "wheels", "python_packages": {"packages": ["tool==2.0"]}},
]


class Mirror:
    """Stands in for apt: has newer versions of openssl's packages, and notes what it is asked."""

    arch = "amd64"
    sources = ("a mirror",)

    def __init__(self) -> None:
        self.installed: dict[str, str] = {}
        self.questions: list[list[str]] = []

    def update(self) -> None: ...

    def releases(self) -> tuple[()]:
        return ()

    def stanzas(self, names: Iterable[str]) -> list[dict[str, str]]:
        every = [
            {"Package": "libssl3", "Version": "3.2", "Source": "openssl (3.2-1)", "Depends": "new"},
            {"Package": "openssl", "Version": "3.2", "Depends": "libssl3 (>= 3.2)"},
            {"Package": "make", "Version": "4.3", "Depends": "libc6", "Provides": "maker"},
        ]
        return [stanza for stanza in every if stanza["Package"] in names]

    def assume(self, packages: Iterable[DpkgPackage]) -> None:
        self.installed |= {package.name: package.paragraph for package in packages}

    def upgrade(self, names: Sequence[str]) -> tuple[OsPin, ...]:
        self.questions.append(list(names))
        newer = (deb("libssl3", "3.2"), deb("new", "1"), deb("openssl", "3.2"))
        return newer if "openssl" in names else ()


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Mirror:
    stand_in = Mirror()
    access = HostAccess(
        environment={},
        apt_sources=(),
        apt_settings=(),
        pip_arguments=(),
        upstreams={},
        notes=(),
        places={},
    )
    apt: Any = stand_in
    resolver = Resolver(access=access, apt=apt, pip=None)
    monkeypatch.setattr(lock_resolver, "resolver_of", lambda *_: resolver)
    again = LockedStep(name="wheels", python_packages=(wheel(data=b"another"),))
    answer = ResolvedPackages(base=None, steps=(again,))
    monkeypatch.setattr(lock_resolver, "resolve", lambda *_, **__: answer)
    return stand_in


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path, steps=STEPS))


def updated(plan: Plan, folder: Path, *names: str) -> tuple[Lock, Lock]:
    before = lock(
        plan,
        base=LockedBase(
            distribution="debian",
            release="bookworm",
            packages=(deb("libssl3", "3.1"), deb("mawk", "1.3")),
        ),
        steps=(
            LockedStep(name="system", os_packages=(deb("openssl", "3.1"),)),
            LockedStep(name="made", os_packages=(deb("make", "4.3"),)),
            LockedStep(name="wheels", python_packages=(wheel(),)),
        ),
    )
    locker = Locker(
        host=host(),
        runner=RecordingRunner(),
        scratch=folder,
        cache=folder / "cache",
        progress=Quiet(),
    )
    request = LockUpdate(lock=before, display="a.lock.json", names=names)
    return before, lock_update.update(request, plan, locker)


def versions(pins: Iterable[OsPin]) -> dict[str, str]:
    return {pin.name: pin.version for pin in pins}


@pytest.mark.parametrize("name", ["openssl", "libssl3"])
def test_all_of_one_source_move_together(
    plan: Plan, mirror: Mirror, tmp_path: Path, name: str
) -> None:
    """Each in its own place; what they need newly goes to the first of these."""
    before, after = updated(plan, tmp_path, name)
    assert mirror.questions == [["libssl3", "openssl"]]
    assert versions(after.base.packages) == {"libssl3": "3.2", "mawk": "1.3", "new": "1"}
    assert versions(after.steps[0].os_packages) == {"openssl": "3.2"}
    assert after.steps[1:] == before.steps[1:]
    assert after.plan == before.plan


def test_what_no_mirror_lists_needs_nothing(plan: Plan, mirror: Mirror, tmp_path: Path) -> None:
    """apt would else complain that old packages miss what newer ones need."""
    updated(plan, tmp_path, "openssl")
    assert "Depends" not in mirror.installed["libssl3"]
    assert "Version: 3.1\n" in mirror.installed["libssl3"]
    # A step's packages for building are gone before the next step.
    assert "make" not in mirror.installed


def test_of_packages_for_building(plan: Plan, mirror: Mirror, tmp_path: Path) -> None:
    before, after = updated(plan, tmp_path, "make")
    assert mirror.questions == [["make"]]
    assert "Provides: maker\nDepends: libc6\n" in mirror.installed["make"]
    assert after.steps == before.steps


def test_a_wheel_of_the_same_pin(plan: Plan, mirror: Mirror, tmp_path: Path) -> None:
    before, after = updated(plan, tmp_path, "tool")
    assert mirror.questions == []
    assert after.steps[2].python_packages == (wheel(data=b"another"),)
    assert after.os_pins == before.os_pins


def test_a_name_that_is_not_there(plan: Plan, mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no package 'openss' in the lock; did you mean") as error:
        updated(plan, tmp_path, "openss")
    assert error.value.where == "a.lock.json"


def test_a_lock_of_another_plan(mirror: Mirror, plan: Plan, tmp_path: Path) -> None:
    other = plan_of(folder_of(tmp_path / "other", version="2.0", steps=STEPS))
    request = LockUpdate(lock=lock(plan), display="a.lock.json", names=["openssl"])
    locker = Locker(
        host=host(), runner=RecordingRunner(), scratch=tmp_path, cache=tmp_path, progress=Quiet()
    )
    with pytest.raises(ConfigError, match="belongs to another plan"):
        lock_update.update(request, other, locker)
