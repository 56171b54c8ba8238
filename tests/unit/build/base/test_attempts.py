"""A mirror that does not hold what its index names: again, of fewer suites, or of a kept base."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build.base import root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.errors import BuildError
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandFailedError, CompletedCommand
from tests.fakes import completed
from tests.unit.build.base.making import Making, make, routed
from tests.values import folder_of, plan_of, site_of

URL = "http://m.example/debian/pool/main/g/glibc/libc6_2.41_ppc64el.deb"
SAID = f"E: Failed to fetch {URL}  404  Not Found [IP: 203.0.113.80 80]\nE: mmdebstrap failed\n"
SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
NO_CACHE = 'Acquire::http::No-Cache "true";'


class Lacking(Making):
    """Stands in for mmdebstrap at a mirror that lacks a package so many times."""

    def __init__(self, times: int, said: str = SAID) -> None:
        super().__init__()
        self.times, self.said = times, said
        # What apt was told at each attempt: its settings, its sources.
        self.told: list[tuple[str, list[str]]] = []

    def __call__(self, argv: Any, **kwargs: Any) -> CompletedCommand:
        if "--format=tar" not in argv:
            return super().__call__(argv, **kwargs)
        work = Path(argv[-1]).parent
        settings, sources = work / "98dlcontainer", work / "sources.list"
        self.told.append(
            (
                settings.read_text() if settings.exists() else "",
                [line.split()[2] for line in sources.read_text().splitlines()]
                if sources.exists()
                else [],
            )
        )
        if len(self.told) <= self.times:
            raise CommandFailedError(completed("mmdebstrap", code=25, stdout=self.said))
        return super().__call__(argv, **kwargs)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def foreign(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path / "f"), site=site_of(arch="ppc64le"))


def prepare(
    plan: Plan, tools: HostMachine, runner: Making, folder: Path, notes: list[str], *suites: str
) -> BaseTree:
    work, routing = folder / "work", folder / "routing"
    for path in (work, routing):
        path.mkdir(exist_ok=True)
    sources = tuple(
        AptSource(uri="http://m.example/debian", suite=suite, components=("main",), keyring=None)
        for suite in suites
    )
    apt_config.write(routing, sources, (), has_ca=False)
    way = replace(routed(routing), apt_sources=sources)
    maker = BaseMaker(
        host=tools, runner=runner, cache=folder / "c", on_line=lambda _: None, on_wait=notes.append
    )
    return root_tree.prepare(plan, way, maker, work, folder / "log")


def test_a_fresh_index_is_asked_for(
    plan: Plan, tools: HostMachine, tmp_path: Path, notes: list[str]
) -> None:
    runner = Lacking(1)
    assert not prepare(plan, tools, runner, tmp_path, notes, *SUITES).cached
    (first, sources), (second, again) = runner.told
    assert NO_CACHE not in first
    assert NO_CACHE in second
    assert sources == again == list(SUITES)
    (note,) = notes
    what, _, then = note.partition(": ")
    assert what == "the mirror's index lists packages that the mirror does not have"
    assert then == "trying again with a fresh index"
    assert list((tmp_path / "work").iterdir()) == []


def test_updates_of_another_architecture_are_left_out_for_the_steps_too(
    foreign: Plan, tools: HostMachine, tmp_path: Path, notes: list[str]
) -> None:
    runner = Lacking(2)
    prepare(foreign, tools, runner, tmp_path, notes, *SUITES)
    assert [sources for _, sources in runner.told] == [[*SUITES], [*SUITES], ["bookworm"]]
    assert notes[1].endswith(
        "leaving out bookworm-updates, bookworm-security: the base misses their fixes"
    )
    listed = (tmp_path / "routing/sources.list").read_text()
    assert listed == "deb http://m.example/debian bookworm main\n"
    # What a cache is to do is said of this base alone.
    assert "No-Cache" not in (tmp_path / "routing/apt.conf").read_text()


@pytest.mark.parametrize(
    ("own", "suites", "attempts"),
    [(True, SUITES, 2), (False, SUITES, 3), (False, SUITES[:1], 2), (False, (), 2)],
)
def test_the_mirror_is_named_where_no_way_is_left(
    plan: Plan,
    foreign: Plan,
    tools: HostMachine,
    tmp_path: Path,
    notes: list[str],
    own: bool,
    suites: tuple[str, ...],
    attempts: int,
) -> None:
    runner = Lacking(9)
    with pytest.raises(BuildError) as caught:
        prepare(plan if own else foreign, tools, runner, tmp_path, notes, *suites)
    assert caught.value.what == "the mirror's index lists packages that the mirror does not have"
    assert caught.value.why == ("m.example does not serve libc6_2.41_ppc64el.deb")
    for word in ("build again in some hours", "routing.apt", "base.release", "--base"):
        assert word in str(caught.value.next_step)
    assert len(runner.told) == attempts
    # Nothing stays that would be taken for a base, or holds an address.
    assert not list((tmp_path / "c").glob("bases/*/base.*"))
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    "said",
    [
        "E: Failed to fetch http://m.example/x.deb  Could not resolve 'm.example'\n",
        "E: Unable to locate package apt\n",
        "E: Failed to fetch http://m.example/dists/x/InRelease  404  Not Found\n",
    ],
)
def test_another_failure_is_not_tried_again(
    foreign: Plan, tools: HostMachine, tmp_path: Path, notes: list[str], said: str
) -> None:
    runner = Lacking(9, said)
    with pytest.raises(BuildError, match="cannot make the base"):
        prepare(foreign, tools, runner, tmp_path, notes, *SUITES)
    assert (len(runner.told), notes) == (1, [])


def test_a_name_that_can_not_be_resolved_names_the_network(
    plan: Plan, tools: HostMachine, tmp_path: Path
) -> None:
    said = "E: Failed to fetch http://m.example/x  Could not resolve 'proxy.example'\n"
    with pytest.raises(BuildError) as caught:
        make(plan, tools, Lacking(9, said), tmp_path)
    assert "routing.prox" in str(caught.value.next_step)


@pytest.mark.parametrize(("days", "is_taken"), [(2, True), (6, True), (8, False), (-1, False)])
def test_a_kept_base_of_the_last_week_serves(
    plan: Plan, tools: HostMachine, tmp_path: Path, notes: list[str], days: int, is_taken: bool
) -> None:
    first = prepare(plan, tools, Lacking(0), tmp_path, notes, *SUITES)
    then = time.time() - days * 24 * 3600
    os.utime(first.path, (then, then))
    runner = Lacking(9)
    if not is_taken:
        with pytest.raises(BuildError, match="index lists packages"):
            prepare(plan, tools, runner, tmp_path, notes, *SUITES)
        return
    spare = prepare(plan, tools, runner, tmp_path, notes, *SUITES)
    assert (spare.sha256, spare.cached) == (first.sha256, True)
    assert notes[-1] == f"using the cached base of {first.made_at}, without later security fixes"
    assert "m.example does not serve" in notes[-2]
    # As soon as the mirror has the packages, a new one is made.
    assert not prepare(plan, tools, Lacking(0), tmp_path, notes, *SUITES).cached
