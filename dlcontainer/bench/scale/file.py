"""Write and read a matrix's file."""

from pathlib import Path

from pydantic import TypeAdapter

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.lines.course import Ended, Resumed
from dlcontainer.bench.samples.lines.kinds import Kinds
from dlcontainer.bench.samples.writer import ChainedFile, Cut
from dlcontainer.bench.scale.records import (
    SCHEMA,
    Declared,
    Header,
    Launched,
    Scale,
)
from dlcontainer.errors import BenchDataError

Record = Header | Launched | Resumed | Ended


def _unfit(where: str, why: str) -> BenchDataError:
    return BenchDataError(
        "not a matrix's file as it was written",
        where=where,
        why=why,
        next_step="give files that `dlcontainer bench scale` has written",
    )


KINDS: Kinds[Record] = Kinds(
    schema=SCHEMA,
    types={"matrix": Header, "launch": Launched, "resume": Resumed, "end": Ended},
    adapters={
        "matrix": TypeAdapter(Header),
        "launch": TypeAdapter(Launched),
        "resume": TypeAdapter(Resumed),
        "end": TypeAdapter(Ended),
    },
    unfit=_unfit,
)


def digest(declared: Declared) -> str:
    """Give the hash of a declaration."""
    return hash_chain.digest(hash_chain.canonical(plain(declared)))


class ScaleWriter(ChainedFile):
    """Write one matrix."""

    def __init__(self, path: Path, header: Header, *, after: Scale | None = None) -> None:
        cut = None
        if after is not None:
            cut = Cut(
                size=after.size,
                dropped=after.dropped,
                seal=after.seal,
                samples=len(after.launches),
            )
        super().__init__(path, KINDS.fields_of(header), cut=cut)

    def write(self, record: Launched | Resumed) -> None:
        """Write a launch, or that it goes on."""
        self._append(KINDS.fields_of(record), samples=isinstance(record, Launched))

    def _ended(self, *, complete: bool, reason: str, samples: int) -> dict[str, object]:
        return KINDS.fields_of(Ended(complete=complete, reason=reason, launches=samples))


def is_one(path: Path) -> bool:
    """Tell whether a file begins like a matrix's."""
    return KINDS.is_one(path)


def read(path: Path) -> Scale:
    """Read a matrix's file, every line verified; raises BenchDataError for what is not one."""
    lines = KINDS.read(path)
    header, *others = lines.records
    if not isinstance(header, Header) or digest(header.declared) != header.declared_sha256:
        raise _unfit(str(path), "its declaration is not what its digest was made of")
    launches = [one for one in others if isinstance(one, Launched)]
    _hold(path, header, launches)
    return Scale(
        header=header,
        launches=tuple(launches),
        resumes=tuple(one for one in others if isinstance(one, Resumed)),
        # One that went on after its end has none yet.
        end=next((one for one in others[:-2:-1] if isinstance(one, Ended)), None),
        seal=lines.seal,
        size=lines.size,
        dropped=lines.dropped,
    )


def _hold(path: Path, header: Header, launches: list[Launched]) -> None:
    """Refuse launches of no cell, and a cell's round that is there twice."""
    seen = set()
    for launch in launches:
        place = (launch.cell, launch.round)
        if not 0 <= launch.cell < len(header.declared.cells) or place in seen:
            raise _unfit(f"{path}:{launch.line}", "a launch of no cell, or one that is there twice")
        seen.add(place)
