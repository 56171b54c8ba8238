"""The five verdicts, in their order of precedence; no other word is ever said."""

from dataclasses import dataclass, field
from typing import Literal

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats import hodges_lehmann, neighbours, paired, power
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.stats.regression import RegressionFit

Word = Literal["NOT COMPARABLE", "EQUIVALENT", "SLOWER", "FASTER", "INCONCLUSIVE"]

FEWEST = power.FEWEST
CONTROL_LEVEL = 0.99


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRules:
    """What was declared: margin, the level of each look, whether EQUIVALENT may be said.

    `block` is in how many pairs, or triples, the orders are balanced.
    """

    margin: float
    alpha: float
    equivalence: bool
    block: int = power.BLOCK

    @property
    def fewest(self) -> int:
        """The pairs or triples that a verdict takes: whole blocks, never fewer than eight."""
        return -(-FEWEST // self.block) * self.block


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was measured: the pairs, the controls, and what stands against using them.

    `refusals` end in NOT COMPARABLE, `holds` (an incomplete session, failed launches) in
    INCONCLUSIVE however clear the figures look.
    """

    pairs: RegressionFit | None
    control: RegressionFit | None = None
    candidate_control: RegressionFit | None = None
    refusals: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionVerdict:
    """A verdict with its figures; they are printed whatever the word is.

    `difference` is the interval that must exclude 1, `equivalence` the one that must lie within
    the margin. `more_pairs` is how many more than these a new session needs, None where that
    cannot be said. `tail` numbers the pairs at which mean and ranks disagree.
    """

    word: Word
    reasons: tuple[str, ...] = ()
    difference: Interval | None = None
    equivalence: Interval | None = None
    robust: Interval | None = None
    control: Interval | None = None
    candidate_control: Interval | None = None
    beyond: bool = False
    tail: tuple[int, ...] = field(default=())
    more_pairs: int | None = None


def judge(rules: VerdictRules, evidence: Evidence) -> SessionVerdict:
    """Return the verdict: NOT COMPARABLE > EQUIVALENT > SLOWER / FASTER > INCONCLUSIVE."""
    control = _control(evidence.control)
    candidate_interval = _control(evidence.candidate_control)
    refusals = (
        evidence.refusals
        + _refused(control, "a side")
        + _refused(candidate_interval, "the candidate")
    )
    fitted = evidence.pairs
    if fitted is None:
        word: Word = "NOT COMPARABLE" if refusals else "INCONCLUSIVE"
        reasons = refusals or (*evidence.holds, "no pair was measured")
        return SessionVerdict(
            word=word, reasons=reasons, control=control, candidate_control=candidate_interval
        )
    difference = paired.interval(fitted, 1 - rules.alpha)
    equivalence = paired.interval(fitted, 1 - 2 * rules.alpha)
    ranks = _Ranks(fitted, rules)

    def verdict(
        word: Word,
        reasons: tuple[str, ...] = (),
        tail: tuple[int, ...] = (),
        more: int | None = None,
    ) -> SessionVerdict:
        return SessionVerdict(
            word=word,
            reasons=reasons,
            difference=difference,
            equivalence=equivalence,
            robust=ranks.difference,
            control=control,
            candidate_control=candidate_interval,
            beyond=word in {"SLOWER", "FASTER"} and difference.beyond(rules.margin),
            tail=tail,
            more_pairs=more,
        )

    if refusals:
        return verdict("NOT COMPARABLE", refusals)
    holds = evidence.holds + _too_few(rules, fitted)
    if holds:
        return verdict("INCONCLUSIVE", holds, more=_more(rules, fitted))
    word = worded(rules, difference, equivalence)
    agree = ranks.agree(word)
    tail = () if agree else hodges_lehmann.outlying(fitted)
    if tail:
        return verdict("INCONCLUSIVE", _TAIL, tail=tail)
    if agree and word != "INCONCLUSIVE":
        return verdict(word)
    # No pair lies far out where they disagree: both are near the edge, and more pairs will tell.
    near = _EDGE if word != "INCONCLUSIVE" else _WIDE if difference.excludes_one() else ()
    return verdict("INCONCLUSIVE", near, more=_more(rules, fitted))


_WIDE = (
    "the interval excludes 1, but it reaches into the margin and is wider than the margin itself",
)
_TAIL = ("the mean and the ranks of the pairs disagree",)
_EDGE = ("the mean and the ranks of the pairs disagree, and no pair lies far from the others",)


def _control(fitted: RegressionFit | None) -> Interval | None:
    if fitted is None or fitted.df < 1:
        return None
    return paired.interval(fitted, CONTROL_LEVEL)


def _refused(control: Interval | None, side: str) -> tuple[str, ...]:
    # Only this refuses; the interval's width never does (protocol: a width rule would refuse 92 %
    # of healthy sessions of 4 control pairs).
    if control is None or not control.excludes_one():
        return ()
    reason = (
        f"the control compared {side} with itself and still found a ratio of {control.ratio:.3f} "
        f"(99 % interval {control.low:.3f} to {control.high:.3f}): this machine was not steady"
    )
    return (reason,)


def _too_few(rules: VerdictRules, fitted: RegressionFit) -> tuple[str, ...]:
    if fitted.n < rules.fewest:
        unit = "triple" if fitted.third is not None else "pair"
        return (f"{counted(fitted.n, unit)}, and a verdict takes at least {rules.fewest}",)
    if fitted.df < 1:
        return ("all pairs ran in the same order",)
    if fitted.se == 0:
        # Clocks count nanoseconds and machines are never that steady: this is no measurement.
        return (f"the {fitted.n} ratios are the same to the last digit: nothing was measured",)
    return ()


def worded(rules: VerdictRules, difference: Interval, equivalence: Interval) -> Word:
    """Return the word of two intervals of the same figure, one for each question."""
    if rules.equivalence and equivalence.within(rules.margin):
        return "EQUIVALENT"
    clear = difference.beyond(rules.margin) or difference.is_narrow(rules.margin)
    if difference.excludes_one() and clear:
        return "SLOWER" if difference.low > 1 else "FASTER"
    return "INCONCLUSIVE"


class _Ranks:
    """The same intervals by Hodges and Lehmann, widened alike for the pairs' correlation."""

    def __init__(self, fitted: RegressionFit, rules: VerdictRules) -> None:
        averages = hodges_lehmann.walsh(fitted.adjusted)
        wider = neighbours.widening(fitted.lag)
        self._rules = rules
        self.difference, self.equivalence = (
            interval.widened(wider) if interval else None
            for interval in (
                hodges_lehmann.interval(averages, fitted.n, 1 - rules.alpha),
                hodges_lehmann.interval(averages, fitted.n, 1 - 2 * rules.alpha),
            )
        )

    def agree(self, word: Word) -> bool:
        """Whether the ranks say the same; of a difference its direction is enough."""
        if self.difference is None or self.equivalence is None:
            return True
        if word == "SLOWER":
            return self.difference.low > 1
        if word == "FASTER":
            return self.difference.high < 1
        return worded(self._rules, self.difference, self.equivalence) == word


def _more(rules: VerdictRules, fitted: RegressionFit) -> int | None:
    if fitted.df < 1:
        return max(rules.fewest - fitted.n, rules.block)
    # The correction is in the standard error already, planned with again below.
    spread = max(fitted.sd, fitted.unit_sd / power.lag_cost(fitted.n, fitted.rule))
    scatter = power.Scatter(sd=spread, rule=fitted.rule)
    needed = power.pairs_needed(scatter, rules.margin, rules.alpha, equivalence=rules.equivalence)
    # Pairs come in blocks of four, triples of six; a session that had enough on paper and still
    # didn't decide lies at the margin's edge.
    return (
        None
        if needed is None
        else max(rules.block, -rules.block * ((fitted.n - needed) // rules.block))
    )
