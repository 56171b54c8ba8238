"""A session that was cut: may it go on here, and where. Pure but for reading its file."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dlcontainer.bench.samples import comparable, hash_chain, reader
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.launch_order import Group
from dlcontainer.bench.samples.launch_table import Launch
from dlcontainer.bench.samples.records import Json, SessionDeclaration
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError

# Of the machine's facts, those that are not the machine.
_PASSING = frozenset({"busy_cores", "load_1min", "native_ready_s"})
_AGAIN = "measure again: dlcontainer bench, into a new file"


def read(path: Path) -> Series:
    """Read a session that is to go on; raises BenchDataError where it can't."""
    series = reader.read(path)
    if series.complete:
        raise _refused(
            path, "the session is complete", "a decided or exhausted session is not extended"
        )
    if not {s.arm for s in series.stacks} >= set(series.session.declared.arms):
        raise _refused(path, "nothing was measured yet", "not all warm-up launches were done")
    aside, most = set_aside(series), series.session.declared.most_lost
    if len(series.lost) > most:
        raise _refused(
            path,
            f"the session lost more {series.session.declared.unit} than the {most} that were "
            "declared",
            "the rule was settled beforehand: it is not extended by what was seen",
        )
    for index in series.launches.where(lambda kind: kind.role != "warmup" and not kind.ok):
        if index in aside:
            continue
        lost = series.samples[index]
        raise _refused(
            path,
            "the session lost a launch",
            f"line {lost.line}: {lost.error}; with it no verdict is possible any more",
        )
    return series


def check(series: Series, declared: SessionDeclaration, machine: Mapping[str, Json]) -> None:
    """Refuse to go on with another declaration or on another machine, naming both values."""
    begun = series.session
    pairs = (("", begun.declared, declared), ("machine.", begun.machine, machine))
    problems = []
    for prefix, old, new in pairs:
        before, now = _facts(old, prefix), _facts(new, prefix)
        problems += [
            f"{name}: {comparable.shown(before.get(name))} in the file, "
            f"now {comparable.shown(now.get(name))}"
            for name in dict.fromkeys([*before, *now])
            if before.get(name) != now.get(name) and name.removeprefix("machine.") not in _PASSING
        ]
    if problems:
        raise _refused(
            series.path,
            "the settings or the machine differ from those of the session in the file",
            "; ".join(problems),
            "repeat the options of the first run on the same machine, or " + _AGAIN,
        )


def unfinished(series: Series) -> tuple[int, ...]:
    """Return the indices of the launches whose pair or triple was left before it was whole."""
    last = series.launches[-1] if series.launches else None
    if last is None or last.role == "warmup" or last.index in set_aside(series):
        return ()
    group = [s.index for s in used(series) if (s.role, s.pair) == (last.role, last.pair)]
    return tuple(group) if len(group) < len(last.order or "") else ()


def set_aside(series: Series) -> frozenset[int]:
    """Return the launches whose pairs or triples were measured again.

    An interruption cut them, or they lost a launch.
    """
    cut = (index for r in series.resumes for index in r.aside)
    return frozenset([*cut, *(index for group in series.lost for index in group.launches)])


def used(series: Series) -> Sequence[Launch]:
    """Return the launches that are part of a pair or triple, in their order."""
    aside = set_aside(series)
    paired = series.launches.where(lambda kind: kind.role != "warmup")
    return series.launches.at(index for index in paired if index not in aside)


def groups_done(series: Series, schedule: Iterable[Group]) -> int:
    """Return how many pairs and triples of the schedule are in the file, whole.

    Raises BenchDataError where what is in the file is not the schedule's beginning.
    """
    unusable = {*unfinished(series), *set_aside(series)}
    launches = (s for s in series.samples if s.role != "warmup" and s.index not in unusable)
    expected = [(pair, place) for pair in schedule for place in range(len(pair.order))]
    done = 0
    for sample, (pair, position) in zip(launches, expected, strict=False):
        scheduled = (pair.series, pair.number, position, pair.order)
        if (sample.role, sample.pair, sample.position, sample.order) != scheduled:
            raise _refused(
                series.path,
                f"line {sample.line} is {sample.role} {sample.pair}, where the declared seed "
                f"draws {pair.series} {pair.number}",
                "the order of the launches is not the one that was declared",
            )
        done += position == len(pair.order) - 1
    return done


def moved(facts: Mapping[str, Json], prefix: str, *, inside: str = "") -> dict[str, Json]:
    """Return attested facts of a tree that was brought to a new place since.

    `inside`: the tree is that of an image, and its environment lies there in it.

    A copy or a mount of a session's own lies in its private folder, which has another name each
    time: only the place differs, and what lies below it must still be the same.
    """
    before = facts.get("sys_prefix")
    if not isinstance(before, str) or not before or not before.endswith(inside):
        return dict(facts)
    before, prefix = before.removesuffix(inside), prefix.removesuffix(inside)

    def at_new_place(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: at_new_place(part) for name, part in value.items()}
        if isinstance(value, list):
            return [at_new_place(part) for part in value]
        if isinstance(value, str) and (value == before or value.startswith(f"{before}/")):
            return prefix + value[len(before) :]
        return value

    return {name: at_new_place(value) for name, value in facts.items()}


def _facts(facts: SessionDeclaration | Mapping[str, Json], prefix: str) -> dict[str, object]:
    # Once through JSON: a tuple and a list are the same there.
    body = hash_chain.plain_json(plain(facts))
    return {f"{prefix}{name}": value for name, value in comparable.flat(body).items()}


def _refused(path: Path, what: str, why: str, next_step: str = _AGAIN) -> BenchDataError:
    return BenchDataError(what, where=str(path), why=why, next_step=next_step)
