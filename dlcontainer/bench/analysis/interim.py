"""The looks of a session: what is said at each, and whether it ended as it was declared. Pure.

The session that measures and the report that reads its file take the same looks: nobody sees a
verdict that the other would not give.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan

from dlcontainer.bench.analysis import calibration, nodes, pairing
from dlcontainer.bench.analysis.calibration import Reading
from dlcontainer.bench.analysis.pairing import Pairs
from dlcontainer.bench.analysis.verdict import Evidence, Rules, Verdict, judge
from dlcontainer.bench.samples import comparable, continuation, launch_order
from dlcontainer.bench.samples.comparable import FactDifference, LossCheck
from dlcontainer.bench.samples.records import IMAGE_ENVIRONMENT, SURROUNDINGS, Declared, Role
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair
from dlcontainer.bench.stats import paired

ByRole = Mapping[Role, Pairs]


def rules(series: Series, *, equivalence: bool) -> Rules:
    """Give the rules of each look."""
    declared = series.session.declared
    return Rules(
        margin=declared.margin,
        alpha=paired.spent_alpha(series.looks, declared.alpha),
        equivalence=equivalence,
        block=launch_order.TRIPLES if declared.is_triple else launch_order.BLOCK,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Gates:
    """What may forbid a comparison: facts that differ, losses that disagree, arms that are mute.

    `calibration` is how the kernels ran that have nothing to do with the work.
    """

    differences: tuple[FactDifference, ...]
    losses: LossCheck | None
    calibration: tuple[Reading, ...]
    refusals: tuple[str, ...]


def decides(series: Series, rules: Rules, look: int) -> bool:
    """Whether a session that is being measured ends at this look."""
    return (
        _at(series, rules, pairing.of(series), gates(series).refusals, look).word != "INCONCLUSIVE"
    )


def verdict(series: Series, rules: Rules, pairs: ByRole, refusals: tuple[str, ...]) -> Verdict:
    """Judge a session: by its first look that decides, else by all that it measured.

    A session that did not end where it should have decides nothing.
    """
    return judged(series, rules, pairs, refusals, holds(series, rules, pairs, refusals))


def holds(
    series: Series, rules: Rules, pairs: ByRole, refusals: tuple[str, ...]
) -> tuple[str, ...]:
    """Say why a session decides nothing: it is not whole, or did not end at its looks."""
    whole = len(pairs["pair"])
    found = _holds(series, whole)
    if found:
        return found
    unit = series.session.declared.unit
    word = "INCONCLUSIVE"
    for look in series.looks:
        word = _at(series, rules, pairs, refusals, look).word
        if word != "INCONCLUSIVE" and look < whole:
            return (f"it went on to {whole} {unit} after its look at {look} had decided",)
        if look >= whole:
            break
    if word == "INCONCLUSIVE" and whole < series.looks[-1]:
        return (f"it ended at its look at {whole} {unit}, which does not decide",)
    return ()


def gates(series: Series, sides: ArmPair | None = None) -> Gates:
    """Give what may forbid a comparison of two arms, without `sides` those of the verdict."""
    sides = sides or series.session.declared.sides
    found, missing = _facts(series, sides)
    losses = series.losses.get(sides)
    kernels = calibration.read(series, sides, found)
    return Gates(
        differences=tuple(found),
        losses=losses,
        calibration=kernels,
        refusals=(
            *_mute_arms(series, sides),
            *nodes.few_cpus(series.session.declared, series.stacks),
            *comparable.refusals(found, sides, missing),
            *calibration.refusals(kernels, sides),
            *((losses.problem,) if losses and losses.problem else ()),
        ),
    )


def _facts(series: Series, sides: ArmPair) -> tuple[list[FactDifference], list[ArmName]]:
    declared = series.session.declared
    stacks = nodes.by_arm(series.stacks)
    # A side that never ran could attest nothing: that is said in another way.
    ran = {kind.arm for kind in series.launches.kinds if kind.ok}
    missing = [arm for arm in sides.names if arm not in stacks and arm in ran]
    if not stacks.keys() >= set(sides.names):
        return [], missing
    reference, candidate = (stacks[arm] for arm in sides.names)
    expected = comparable.Expected(names=_of_surroundings(declared), image=_of_image(declared))
    return nodes.differences(declared.question, reference, candidate, expected), []


def _of_image(declared: Declared) -> frozenset[str]:
    """Name the facts that the image sets by its record, and the native side does not have."""
    own = declared.workload.get(IMAGE_ENVIRONMENT)
    names = own if isinstance(own, list) else []
    return frozenset(f"environment.{name}" for name in names)


def _of_surroundings(declared: Declared) -> frozenset[str]:
    """Name the facts of a container that the site's surroundings set, and no other side has."""
    around = declared.workload.get(SURROUNDINGS)
    parts = around if isinstance(around, dict) else {}
    variables = parts.get("variables")
    texts = [*parts, *(variables if isinstance(variables, list) else [])]
    named = {str(text).partition("=")[0] for text in texts}
    return frozenset({"environment.LD_PRELOAD"}) if "LD_PRELOAD" in named else frozenset()


def _at(
    series: Series, rules: Rules, pairs: ByRole, refusals: tuple[str, ...], look: int
) -> Verdict:
    declared = series.session.declared
    due = {
        "pair": look,
        "control": launch_order.due(declared.control_pairs, look, series.looks),
        "candidate_control": launch_order.due(declared.candidate_control_pairs, look, series.looks),
    }
    then = {role: found.until(due[role]) for role, found in pairs.items() if role in due}
    return judged(series, rules, then, refusals)


def judged(
    series: Series,
    rules: Rules,
    pairs: ByRole,
    refusals: tuple[str, ...],
    holds: tuple[str, ...] = (),
) -> Verdict:
    """Judge pairs, with what stands against it."""
    metric = series.session.declared.metric
    evidence = Evidence(
        pairs=pairs["pair"].fit(metric, *pairing.controls_of(pairs)),
        control=pairs["control"].fit(metric),
        candidate_control=pairs["candidate_control"].fit(metric),
        refusals=refusals,
        holds=holds,
    )
    return judge(rules, evidence)


def _mute_arms(series: Series, sides: ArmPair) -> Iterable[str]:
    for arm in sides.names:
        kinds = [kind for kind in series.launches.kinds if kind.arm == arm]
        if kinds and not any(kind.ok for kind in kinds):
            last = series.samples[series.launches.where(kinds.__contains__)[-1]]
            yield (
                f"no launch of {arm} succeeded: {last.error or f'exit code {last.returncode}'} "
                f"(line {last.line})"
            )


def _holds(series: Series, whole: int) -> tuple[str, ...]:
    # When to stop may have hung on what was seen, and what failed has no time: leaving it out
    # would favour the side that failed.
    found = []
    if not series.complete:
        reason = series.end.reason if series.end else "the file has no end"
        found.append(f"the session is incomplete: {reason or 'it was stopped'}")
    metric, launches = series.session.declared.metric, series.launches
    aside = continuation.set_aside(series)
    own = [
        i for i in launches.where(lambda kind: kind.role in {"pair", "triple"}) if i not in aside
    ]
    ok, timed = [kind.ok for kind in launches.kinds], launches.figures(metric)
    lost = [launches.lines[i] for i in own if not ok[launches.kind_of[i]]]
    if lost:
        found.append(f"{len(lost)} launches failed (lines {', '.join(map(str, lost))})")
    most = series.session.declared.most_lost
    if len(series.lost) > most:
        found.append(f"{len(series.lost)} were lost and measured again, and {most} were declared")
    timeless = [launches.lines[i] for i in own if ok[launches.kind_of[i]] and isnan(timed(i))]
    if timeless:
        lines = ", ".join(map(str, timeless))
        found.append(f"{len(timeless)} launches have no positive {metric} (lines {lines})")
    if series.complete and not found and whole not in series.looks:
        declared = " or ".join(map(str, series.looks))
        found.append(f"{whole} whole pairs, where {declared} were declared")
    return tuple(found)
