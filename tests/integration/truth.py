"""Sessions whose truth is known: how they are run, and when a test may call them wrong.

A right procedure errs now and then: at its declared level one session in twenty reads SLOWER or
FASTER where nothing differs. A test that fails as often is a defect of its own. So no test here
fails for one session: it fails where independent sessions all err (three at 0.05: one in 8,000).
How often one session errs is counted elsewhere, by simulation (benchmarks/statistics.py).
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from dlcontainer.bench.analysis import pairing, session_analysis
from dlcontainer.bench.analysis.verdict import Evidence, SessionVerdict, judge
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.stats import paired, regression
from tests.integration.world import World
from tests.judging import analyse, rules

# Each draws another order of launches.
SEEDS = (11, 12, 13)
# What a side against itself may read.
RIGHT = frozenset({"EQUIVALENT", "INCONCLUSIVE"})
# Of an interval that must hold a known ratio: it misses one in a thousand, not one in twenty.
LEVEL = 0.999

Words = Mapping[str, list[str]]


def native_prefix(session: Path) -> Path:
    """Give where the Python of a session's native side is, as it attested it."""
    [facts] = [stack.facts for stack in reader.read(session).stacks if stack.arm == "native"]
    return Path(str(facts["sys_prefix"]))


def packages_of(prefix: Path) -> Path:
    """Give the folder of a Python's packages."""
    [packages] = prefix.glob("lib/python3*/site-packages")
    return packages


def bench(
    world: World, probe: str, image: Path, output: Path, *more: object
) -> session_analysis.Analysis:
    """Run a session to its end and judge it."""
    argv = ["--site", "local", "--image", image, "-o", output, *more]
    world.run("bench", probe, *map(str, argv), timeout=1500)
    found = analyse(reader.read(output))
    # INCONCLUSIVE for want of launches would be right for a wrong reason.
    assert found.series.complete
    assert not found.failed
    return found


def native_against_native(series: Series) -> SessionVerdict:
    """Judge the session's controls as if one of their sides were the container."""
    controls = pairing.differences(series.session.declared.metric, pairing.of(series)["control"])
    return judge(rules(series), Evidence(pairs=regression.fit(controls)))


def sessions_until_right(session: Callable[[int], Mapping[str, str]]) -> Words:
    """Run sessions, one a seed, until each of their verdicts was right once; give all words."""
    said: dict[str, list[str]] = {}
    for seed in SEEDS:
        for name, word in session(seed).items():
            said.setdefault(name, []).append(word)
        if all(RIGHT.intersection(words) for words in said.values()):
            break
    return said


def was_right(said: Words) -> bool:
    """Whether each verdict was right in one of the sessions."""
    return all(RIGHT.intersection(words) for words in said.values())


def first_decided(session: Callable[[int], session_analysis.Analysis]) -> session_analysis.Analysis:
    """Run sessions, one a seed, until one decides: INCONCLUSIVE is a call for more launches."""
    found = session(SEEDS[0])
    for seed in SEEDS[1:]:
        if found.verdict.word != "INCONCLUSIVE":
            break
        found = session(seed)
    return found


def ratio_is_covered(found: session_analysis.Analysis, expected: float, slack: float) -> bool:
    """Whether the interval of the ratio, widened by a share, holds what is expected."""
    assert found.main is not None
    interval = paired.interval(found.main.fitted, LEVEL)
    return interval.low / (1 + slack) <= expected <= interval.high * (1 + slack)


def mean(found: session_analysis.Analysis, side: int) -> float:
    """Give the mean time of a side, s: 0 the reference, 1 the candidate."""
    assert found.main is not None
    return found.main.means[side]
