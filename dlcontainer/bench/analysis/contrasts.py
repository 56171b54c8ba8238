"""What three arms say, each two of them. Pure.

The unpacked image runs through the engine too: native to unpacked is the build and the engine's
namespaces, unpacked to container the image's mount. The bare one runs without: native to bare is
the build, bare to container the engine.

Each contrast has a verdict of its own by the session's rules; the session ends by the main one's
alone. "Equivalent on all" needs no correction, "different on some" takes Holm's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.analysis import interim, pairing
from dlcontainer.bench.analysis.interim import ByRole
from dlcontainer.bench.analysis.pairing import LaunchPairs, PairFigure
from dlcontainer.bench.analysis.verdict import SessionVerdict, VerdictRules
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import MEANINGS, ArmPair
from dlcontainer.bench.stats import paired


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmContrast:
    """Two of three arms; `is_different` by Holm's correction over the contrasts."""

    sides: ArmPair
    meaning: str
    pairs: LaunchPairs
    figure: PairFigure
    verdict: SessionVerdict
    p_holm: float
    is_different: bool

    @property
    def name(self) -> str:
        """The arms, from reference to candidate."""
        return " \u2192 ".join(self.sides.names)


def of(
    series: Series, rules: VerdictRules, pairs: ByRole, main_refusals: tuple[str, ...]
) -> tuple[ArmContrast, ...]:
    """Return the three contrasts of triples, the main one first; none of pairs."""
    declared = series.session.declared
    triples = pairing.triples(series) if declared.is_triple else None
    if triples is None or not triples.numbers:
        return ()
    holds = interim.holds(series, rules, pairs, main_refusals)
    read = []
    for sides, meaning in MEANINGS.items():
        if not set(sides.names) <= set(declared.arms):
            continue
        side_pairs = triples.pairs(sides)
        controls = pairing.controls_of(pairs)
        figure = pairing.figure(declared.metric, "pair", side_pairs, rules.alpha, controls)
        if figure is None:
            return ()
        refusals = interim.gates(series, sides).refusals
        verdict = interim.judged(series, rules, {**pairs, "pair": side_pairs}, refusals, holds)
        read.append((sides, meaning, side_pairs, figure, verdict))
    adjusted = paired.holm([paired.p_value(figure.fitted) for _, _, _, figure, _ in read])
    return tuple(
        ArmContrast(
            sides=sides,
            meaning=meaning,
            pairs=side_pairs,
            figure=figure,
            verdict=verdict,
            p_holm=p,
            is_different=p <= rules.alpha and verdict.word in {"SLOWER", "FASTER", "EQUIVALENT"},
        )
        for (sides, meaning, side_pairs, figure, verdict), p in zip(read, adjusted, strict=True)
    )


def together(contrasts: Sequence[ArmContrast]) -> str:
    """Return what the contrasts show together."""
    if all(item.verdict.word == "EQUIVALENT" for item in contrasts):
        return "The same within the margin on all of them; that takes no correction."
    different = [item for item in contrasts if item.is_different]
    if different:
        names = ", ".join(item.name for item in different)
        return f"Different on {names}, by Holm's correction over all of them."
    return "Neither the same on all of them nor different on one is shown."
