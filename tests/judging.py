"""Sessions judged by the traits of their own probe, as `dlcontainer report` judges them."""

from collections.abc import Sequence

from dlcontainer.bench import probes
from dlcontainer.bench.analysis import interim, session_analysis
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import VerdictRules
from dlcontainer.bench.samples.series import Series

# What refuses few launches by chance (declared: one session in a hundred), whatever is measured.
CHANCE = (
    "it is the same code on both sides",
    "nothing that the sides attest is a reason for it",
    "this machine was not steady",
)
# A test that such a refusal is nothing to measures again: it fails where all of these are refused.
SESSIONS = 3


def by_chance(reasons: Sequence[str]) -> bool:
    """Whether kernels and controls alone forbid the comparison, and nothing that is attested."""
    return bool(reasons) and all(any(words in one for words in CHANCE) for one in reasons)


def analyse(series: Series) -> Analysis:
    return session_analysis.analyse(series, probes.traits(series))


def rules(series: Series) -> VerdictRules:
    return interim.rules(series, equivalence=probes.traits(series).equivalence)
