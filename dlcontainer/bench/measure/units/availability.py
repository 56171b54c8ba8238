"""Which unit a session has: resident groups where they can run, else fresh launches, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.measure.declaration import SessionSettings, SessionSides
from dlcontainer.bench.measure.units import cpuset
from dlcontainer.bench.probes.probe import GROUP, UNIT
from dlcontainer.bench.samples.resident.resident_records import MOST
from dlcontainer.errors import UsageError
from dlcontainer.system import digests

# The probe's file that answers a session's orders.
_PROBE_FILE = "baton.py"
_GPUS = ("nvidia0", "kfd")


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLayout:
    """The processes of each arm in a group, the threads of each, the processors of all.

    Without any: fresh launches, and why.
    """

    per_arm: int = 0
    threads: int = 0
    cpus: tuple[int, ...] = ()
    why: str = ""


def choose(
    settings: SessionSettings, sides: SessionSides, *, devices: Path = Path("/dev")
) -> GroupLayout:
    """Choose the unit of a session; raises UsageError where groups were asked for and can't run."""
    choice = settings.values.get(UNIT.name)
    begun = settings.cut.session.declared if settings.cut else None
    if UNIT not in settings.probe.options or choice == "launches" or (begun and not begun.groups):
        return GroupLayout()
    plan = begun.groups if begun else None
    threads = settings.group_threads or settings.threads
    cpus = plan.cpus if plan else cpuset.choose(threads) or ()
    per_arm = plan.per_arm if plan else int(settings.values[GROUP.name] or 0)
    if per_arm > MOST:
        raise UsageError(f"{GROUP.flag} {per_arm}: at most {MOST} processes of each arm")
    why = next(_obstacles(settings, sides, devices), "")
    if not why and not cpus:
        why = f"no NUMA node has a core for each of {threads} threads"
    if not why:
        return GroupLayout(per_arm=per_arm, threads=threads, cpus=cpus)
    if choice == "groups" or plan:
        raise UsageError(f"{UNIT.flag} groups: {why}", next_step=f"use {UNIT.flag} launches")
    return GroupLayout(why=why)


def _obstacles(settings: SessionSettings, sides: SessionSides, devices: Path) -> Iterator[str]:
    if settings.rank_group:
        yield "the steps of ranks overlap, and a group's processes take turns"
    if settings.schedule.is_triple:
        yield "a group has two arms"
    if "bare" in settings.schedule.arms:
        yield "the bare arm is measured in fresh launches"
    if settings.steps:
        yield "--steps are those of a launch"
    if settings.has_controls:
        yield "--controls are pairs of launches"
    if settings.values.get("device") != "cpu" and (
        sides.candidate.context.accelerators or any((devices / name).exists() for name in _GPUS)
    ):
        yield "whether the processes of a group fit on a GPU together is not known"
    if _is_other_probe(settings, sides):
        yield "the image carries another version of the probe: build it again"


def _is_other_probe(settings: SessionSettings, sides: SessionSides) -> bool:
    """Whether the image's processes would not understand this program's orders."""
    carried = sides.candidate.probe_files
    probe_file = next((path for path in settings.probe_files if path.name == _PROBE_FILE), None)
    return (
        bool(carried)
        and probe_file is not None
        and carried.get(_PROBE_FILE) != digests.of_file(probe_file)
    )
