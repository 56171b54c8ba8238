"""Write and read a job session's file."""

from pathlib import Path

from pydantic import TypeAdapter

from dlcontainer.bench.job.records import (
    SCHEMA,
    SIDES,
    Declared,
    Header,
    Job,
    Launched,
)
from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.lines.course import Ended, Resumed
from dlcontainer.bench.samples.lines.kinds import Kinds
from dlcontainer.bench.samples.writer import ChainedFile, Cut
from dlcontainer.errors import BenchDataError

Record = Header | Launched | Resumed | Ended
# Rounding of sums, s.
_ROUNDING = 1e-6


def _unfit(where: str, why: str) -> BenchDataError:
    return BenchDataError(
        "not a job session's file as it was written",
        where=where,
        why=why,
        next_step="give files that `dlcontainer bench job` has written",
    )


KINDS: Kinds[Record] = Kinds(
    schema=SCHEMA,
    types={"jobs": Header, "job": Launched, "resume": Resumed, "end": Ended},
    adapters={
        "jobs": TypeAdapter(Header),
        "job": TypeAdapter(Launched),
        "resume": TypeAdapter(Resumed),
        "end": TypeAdapter(Ended),
    },
    unfit=_unfit,
)


def digest(declared: Declared) -> str:
    """Give the hash of a declaration."""
    return hash_chain.digest(hash_chain.canonical(plain(declared)))


class JobWriter(ChainedFile):
    """Write one session of jobs."""

    def __init__(self, path: Path, header: Header, *, after: Job | None = None) -> None:
        cut = None
        if after is not None:
            done = len(after.launches)
            cut = Cut(size=after.size, dropped=after.dropped, seal=after.seal, samples=done)
        super().__init__(path, KINDS.fields_of(header), cut=cut)

    def write(self, record: Launched | Resumed) -> None:
        """Write a job, or that it goes on."""
        self._append(KINDS.fields_of(record), samples=isinstance(record, Launched))

    def _ended(self, *, complete: bool, reason: str, samples: int) -> dict[str, object]:
        return KINDS.fields_of(Ended(complete=complete, reason=reason, launches=samples))


def is_one(path: Path) -> bool:
    """Tell whether a file begins like a job session's."""
    return KINDS.is_one(path)


def read(path: Path) -> Job:
    """Read a file, every line verified; raises BenchDataError for one that contradicts itself."""
    lines = KINDS.read(path)
    header, *others = lines.records
    if not isinstance(header, Header) or digest(header.declared) != header.declared_sha256:
        raise _unfit(str(path), "its declaration is not what its digest was made of")
    job = Job(
        header=header,
        launches=tuple(one for one in others if isinstance(one, Launched)),
        resumes=tuple(one for one in others if isinstance(one, Resumed)),
        # One that went on after its end has none yet.
        end=next((one for one in others[:-2:-1] if isinstance(one, Ended)), None),
        seal=lines.seal,
        size=lines.size,
        dropped=lines.dropped,
    )
    _hold(path, job)
    return job


def _hold(path: Path, job: Job) -> None:
    """Refuse times that are no sum of their phases, and an order that the seed does not draw."""
    for one in job.launches:
        times = one.times
        if (times is None) == (one.error is None):
            raise _unfit(f"{path}:{one.line}", "a job has either its times or a reason")
        if times is None:
            continue
        phases = times.start_s + times.steady_s + times.teardown_s
        if abs(phases - times.total_s) > _ROUNDING:
            raise _unfit(f"{path}:{one.line}", "the whole is not the sum of its phases")
        if max(times.launcher_s, times.process_s) > times.start_s + _ROUNDING:
            raise _unfit(f"{path}:{one.line}", "a part of the start-up is longer than all of it")
    order = {pair.number: pair for pair in job.declared.order}
    before = 0
    for number, sides in job.pairs().items():
        drawn = order.get(number)
        first = SIDES[0] if drawn and drawn.native_first else SIDES[1]
        if drawn is None or number != before + 1 or next(iter(sides)) != first:
            line = sides[SIDES[0]].line
            raise _unfit(f"{path}:{line}", f"pair {number} is not the one that the seed draws")
        before = number
