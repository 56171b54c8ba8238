"""The looks of a session: what is said at each, and whether it ended as it was declared. Pure.

The session that measures and the report that reads its file take the same looks: nobody sees a
verdict that the other would not give.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan

from dlcontainer.bench.analysis import calibration, nodes, pairing
from dlcontainer.bench.analysis.calibration import KernelReading
from dlcontainer.bench.analysis.pairing import LaunchPairs
from dlcontainer.bench.analysis.verdict import Evidence, SessionVerdict, VerdictRules, judge
from dlcontainer.bench.samples import comparable, continuation, launch_order
from dlcontainer.bench.samples.comparable import FactDifference, LossCheck
from dlcontainer.bench.samples.records import (
    IMAGE_ENVIRONMENT,
    SURROUNDINGS,
    Role,
    SessionDeclaration,
)
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair
from dlcontainer.bench.stats import paired

ByRole = Mapping[Role, LaunchPairs]


def rules(series: Series, *, equivalence: bool) -> VerdictRules:
    """Return the rules of each look."""
    declared = series.session.declared
    return VerdictRules(
        margin=declared.margin,
        alpha=paired.spent_alpha(series.looks, declared.alpha),
        equivalence=equivalence,
        block=launch_order.TRIPLES if declared.is_triple else launch_order.BLOCK,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonGates:
    """What may forbid a comparison: facts that differ, losses that disagree, arms that are mute.

    `calibration` is how the kernels ran that have nothing to do with the work.
    """

    differences: tuple[FactDifference, ...]
    losses: LossCheck | None
    calibration: tuple[KernelReading, ...]
    refusals: tuple[str, ...]


def decides(series: Series, rules: VerdictRules, look: int) -> bool:
    """Whether a session that is being measured ends at this look."""
    return (
        _at(series, rules, pairing.of(series), gates(series).refusals, look).word != "INCONCLUSIVE"
    )


def verdict(
    series: Series, rules: VerdictRules, pairs: ByRole, refusals: tuple[str, ...]
) -> SessionVerdict:
    """Judge a session: by its first look that decides, else by all that it measured.

    A session that did not end where it should have decides nothing.
    """
    return judged(series, rules, pairs, refusals, holds(series, rules, pairs, refusals))


def holds(
    series: Series, rules: VerdictRules, pairs: ByRole, refusals: tuple[str, ...]
) -> tuple[str, ...]:
    """Return why a session decides nothing: it is not whole, or did not end at its looks."""
    whole = len(pairs["pair"])
    reasons = _holds(series, whole)
    if reasons:
        return reasons
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


def gates(series: Series, sides: ArmPair | None = None) -> ComparisonGates:
    """Return what may forbid a comparison of two arms, without `sides` those of the verdict."""
    sides = sides or series.session.declared.sides
    facts, missing = _facts(series, sides)
    losses = series.losses.get(sides)
    kernels = calibration.read(series, sides, facts)
    return ComparisonGates(
        differences=tuple(facts),
        losses=losses,
        calibration=kernels,
        refusals=(
            *_mute_arms(series, sides),
            *nodes.few_cpus(series.session.declared, series.stacks),
            *comparable.refusals(facts, sides, missing),
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
    expected = comparable.CandidateFacts(
        names=_of_surroundings(declared), image=_of_image(declared)
    )
    return nodes.differences(declared.question, reference, candidate, expected), []


def _of_image(declared: SessionDeclaration) -> frozenset[str]:
    """Name the facts that the image sets by its record, and the native side does not have."""
    image_variables = declared.workload.get(IMAGE_ENVIRONMENT)
    names = image_variables if isinstance(image_variables, list) else []
    return frozenset(f"environment.{name}" for name in names)


def _of_surroundings(declared: SessionDeclaration) -> frozenset[str]:
    """Name the facts of a container that the site's surroundings set, and no other side has."""
    site_variables = declared.workload.get(SURROUNDINGS)
    parts = site_variables if isinstance(site_variables, dict) else {}
    variables = parts.get("variables")
    texts = [*parts, *(variables if isinstance(variables, list) else [])]
    named = {str(text).partition("=")[0] for text in texts}
    return frozenset({"environment.LD_PRELOAD"}) if "LD_PRELOAD" in named else frozenset()


def _at(
    series: Series, rules: VerdictRules, pairs: ByRole, refusals: tuple[str, ...], look: int
) -> SessionVerdict:
    declared = series.session.declared
    due = {
        "pair": look,
        "control": launch_order.due(declared.control_pairs, look, series.looks),
        "candidate_control": launch_order.due(declared.candidate_control_pairs, look, series.looks),
    }
    then = {role: of_role.until(due[role]) for role, of_role in pairs.items() if role in due}
    return judged(series, rules, then, refusals)


def judged(
    series: Series,
    rules: VerdictRules,
    pairs: ByRole,
    refusals: tuple[str, ...],
    holds: tuple[str, ...] = (),
) -> SessionVerdict:
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
    reasons = []
    if not series.complete:
        reason = series.end.reason if series.end else "the file has no end"
        reasons.append(f"the session is incomplete: {reason or 'it was stopped'}")
    metric, launches = series.session.declared.metric, series.launches
    aside = continuation.set_aside(series)
    reached = [
        i for i in launches.where(lambda kind: kind.role in {"pair", "triple"}) if i not in aside
    ]
    ok, timed = [kind.ok for kind in launches.kinds], launches.figures(metric)
    lost = [launches.lines[i] for i in reached if not ok[launches.kind_of[i]]]
    if lost:
        reasons.append(f"{len(lost)} launches failed (lines {', '.join(map(str, lost))})")
    most = series.session.declared.most_lost
    if len(series.lost) > most:
        reasons.append(f"{len(series.lost)} were lost and measured again, and {most} were declared")
    timeless = [launches.lines[i] for i in reached if ok[launches.kind_of[i]] and isnan(timed(i))]
    if timeless:
        lines = ", ".join(map(str, timeless))
        reasons.append(f"{len(timeless)} launches have no positive {metric} (lines {lines})")
    if series.complete and not reasons and whole not in series.looks:
        declared = " or ".join(map(str, series.looks))
        reasons.append(f"{whole} whole pairs, where {declared} were declared")
    return tuple(reasons)
