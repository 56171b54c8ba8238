"""Sessions judged by the traits of their own probe, as `dlcontainer report` judges them."""

from dlcontainer.bench import probes
from dlcontainer.bench.analysis import interim, session_analysis
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Rules
from dlcontainer.bench.samples.series import Series


def analyse(series: Series) -> Analysis:
    return session_analysis.analyse(series, probes.traits(series))


def rules(series: Series) -> Rules:
    return interim.rules(series, equivalence=probes.traits(series).equivalence)
