"""A study's folder: its declaration, written once, the lock on it, and how far each session is."""

import fcntl
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from dlcontainer.bench.measure import declaration
from dlcontainer.bench.probes import suite_folder
from dlcontainer.bench.probes.networks import choices, script
from dlcontainer.bench.samples import comparable, continuation, hash_chain, reader
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study import study_points
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.bench.study.study_records import SCHEMA, STUDY_FILE, StudyPlan
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files, foreign_files

# whole: it is complete. cut: it can go on. again: it was cut where it can't go on, and is measured
# anew.
State = Literal["new", "whole", "cut", "again"]
_HELD = ".study.lock"
_MOST_BYTES = 16_000_000
_NAME = re.compile(r"[1-9][0-9]{0,7}-[a-z0-9-]{1,80}\.jsonl")
_PLAN: TypeAdapter[StudyPlan] = TypeAdapter(StudyPlan)
# They say when and with what it was declared, not what is measured.
_PASSING = ("created", "version")
# What a point is told from another one by, with what it is where its session does not say.
_USUAL: Mapping[str, object] = {
    "workload": choices.RESIDUAL,
    "precision": choices.PRECISIONS[0],
    "optimizer": choices.OPTIMIZERS[0],
    "batch": "the network's own",
    "parallel": "dp",
}
_OWN_FOLDER = "give each study a folder of its own with -o"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder alone; raises BenchDataError where another run has it, or none can be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(folder / _HELD, flags, 0o600)
    except OSError as error:
        raise BenchDataError(
            f"cannot write to this folder: {error.strerror}",
            where=str(folder),
            next_step="name a folder that you can write to: -o FOLDER",
        ) from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise BenchDataError(
            "another process is measuring this study",
            where=str(folder),
            next_step="wait until that process ends, or give another folder with -o",
        ) from None
    except OSError:
        pass  # some file systems have no locks: each session is still held by its writer
    try:
        yield
    finally:
        os.close(number)


def settle(folder: Path, plan: StudyPlan) -> StudyPlan:
    """Write a folder's declaration, once; return the one that stands there.

    Raises BenchDataError where another study was declared, with what differs.
    """
    path = folder / STUDY_FILE
    if not path.exists():
        _require_empty(folder)
        atomic_files.write(path, _text(plan))
        return plan
    declared = read(folder)
    before, now = _facts(declared), _facts(plan)
    problems = [
        f"{name}: {comparable.shown(before.get(name))} in the file, now "
        f"{comparable.shown(now.get(name))}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    if problems:
        raise BenchDataError(
            "this folder holds another study",
            where=str(path),
            why="; ".join(problems),
            next_step=f"repeat the options of the first run, or {_OWN_FOLDER}",
        )
    return declared


def read(folder: Path) -> StudyPlan:
    """Read a folder's declaration; raises BenchDataError for none, and for one that was changed."""
    path = folder / STUDY_FILE
    try:
        body = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
    except FileNotFoundError:
        raise BenchDataError(
            f"there is no {STUDY_FILE}: this is no scaling study",
            where=str(folder),
            next_step="give a folder written by `dlcontainer bench scaling`",
        ) from None
    except OSError as error:
        raise _unfit(path, str(error.strerror)) from None
    except ValueError as error:
        raise _unfit(path, str(error)) from None
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise _unfit(path, f"its schema is not {SCHEMA}")
    declared = body.get("declared")
    if hash_chain.digest(hash_chain.canonical(declared)) != body.get("declared_sha256"):
        raise _unfit(path, "the declaration does not match its hash")
    try:
        plan = _PLAN.validate_python(declared)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _unfit(path, f"{place}: {first['msg']}") from None
    _require_names(path, plan)
    return plan


def digest(plan: StudyPlan) -> str:
    """Return the hash of a declaration."""
    return hash_chain.digest(hash_chain.canonical(plain(plan)))


def files(plan: StudyPlan) -> tuple[str, ...]:
    """Return the names of a study's sessions."""
    return (*(point.file for point in plan.points), *(extra.file for extra in plan.extras))


def state(path: Path, session: StudySession, plan: StudyPlan, allocation: str | None) -> State:
    """Return how far a session got; raises BenchDataError for a session of something else.

    One that was cut goes on where it was measured alone: on this node, in this allocation.
    """
    if not path.exists():
        return "new"
    if path.stat().st_size == 0:
        return "again"
    series = reader.read(path)
    require_same(series, session, plan)
    if series.complete:
        return "whole"
    try:
        continuation.read(path)
    except BenchDataError:
        if any(sample.role != "warmup" for sample in series.samples):
            raise
        return "again"
    return "cut" if _is_here(series, allocation) else "again"


def _is_here(series: Series, allocation: str | None) -> bool:
    machine = series.session.machine
    expected: Mapping[str, object] = {
        "node": platform.node(),
        "boot_id": declaration.boot_id(),
        "allocation": allocation,
    }
    return all(machine.get(name) == value for name, value in expected.items())


def set_aside(path: Path) -> Path:
    """Move a session that can't go on to a new name beside it, and give that one."""
    return suite_folder.set_aside(path)


def require_same(series: Series, session: StudySession, plan: StudyPlan) -> None:
    """Refuse a session of another image, site, recipe, workload or point."""
    declared = series.session.declared
    work = declared.workload
    facts: list[tuple[str, object, object]] = [
        ("the probe", declared.probe, session.probe),
        ("the image's SHA-256", declared.image_sha256, plan.image_sha256),
        ("the site", declared.site, plan.site),
        ("the recipe", declared.recipe, plan.recipe),
        ("ranks", work.get("ranks"), session.ranks),
        ("nodes", work.get("nodes"), session.nodes),
        ("looks", declared.looks or (declared.pairs,), session.looks),
    ]
    if session.trains:
        of_file, planned = (
            {True: "never", False: "as they train"}[transport == study_points.ALONE]
            for transport in (work.get("distributed"), session.values.get("distributed"))
        )
        facts.append(("ranks talk", of_file, planned))
        digests = (work.get(script.DIGEST), plan.options.get(script.DIGEST))
        facts.append(("the script's SHA-256", *digests))
    # What is as usual stands in no file.
    facts += [
        (f"--{name}", work.get(name) or usual, session.values.get(name) or usual)
        for name, usual in _USUAL.items()
        if session.trains
    ]
    if (count := session.values.get("micro_batches")) is not None:
        facts.append(("--micro-batches", work.get("micro_batches"), count))
    for what, recorded, required in facts:
        if recorded != required:
            raise BenchDataError(
                f"this session is not the one that the study declares as {series.path.name}",
                where=str(series.path),
                why=f"{what}: {comparable.shown(recorded)} in the file, "
                f"{comparable.shown(required)} in {STUDY_FILE}",
                next_step=f"put it back where it was measured; {_OWN_FOLDER}",
            )


def _text(plan: StudyPlan) -> str:
    body = plain(plan)
    fields = {"schema": SCHEMA, "declared": body, "declared_sha256": digest(plan)}
    return hash_chain.canonical(fields) + "\n"


def _facts(plan: StudyPlan) -> dict[str, object]:
    body = hash_chain.plain_json(plain(plan))
    facts = {name: body[name] for name in body if name not in (*_PASSING, "points", "extras")}
    points = (
        f"{point.file.removesuffix('.jsonl')} (batch {point.global_batch}, "
        f"{counted(point.nodes, 'node')}, looks {','.join(map(str, point.looks))})"
        for point in plan.points
    )
    extras = (extra.file.removesuffix(".jsonl") for extra in plan.extras)
    return {**comparable.flat(facts), "points": "; ".join(points), "extras": "; ".join(extras)}


def _require_empty(folder: Path) -> None:
    """Refuse a folder with sessions of somebody else's: they would be taken for points."""
    session_files = sorted(path.name for path in folder.glob("*.jsonl"))
    if session_files:
        raise BenchDataError(
            f"this folder holds sessions and no {STUDY_FILE}",
            where=str(folder / session_files[0]),
            why="sessions that were measured alone are no points of a study",
            next_step=_OWN_FOLDER,
        )


def _require_names(path: Path, plan: StudyPlan) -> None:
    names = files(plan)
    if not plan.points:
        raise _unfit(path, "it has no point")
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None or len(set(names)) < len(names):
        raise _unfit(
            path, f"the names of its sessions: {wrong or 'one stands session_files twice'}"
        )


def _unfit(path: Path, why: str) -> BenchDataError:
    return BenchDataError(
        "damaged or edited: not a study's declaration as it was written",
        where=str(path),
        why=why,
        next_step="give a folder written by `dlcontainer bench scaling`",
    )
