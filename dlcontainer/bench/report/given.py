"""The files that a report was given, each read once: sessions, judged, and the others."""

from collections.abc import Iterable
from pathlib import Path

from dlcontainer.bench import probes
from dlcontainer.bench.analysis.session_analysis import Analysis, analyse
from dlcontainer.bench.report import inputs
from dlcontainer.bench.report.inputs import Found
from dlcontainer.bench.samples import contradictions, reader


def read(files: Iterable[Path]) -> tuple[list[Analysis], list[Found]]:
    """Read files and judge the sessions among them; raises BenchDataError for one that is wrong."""
    paths = list(files)
    found = [inputs.read(path) for path in paths if inputs.is_one(path)]
    others = {one.path for one in found}
    sessions = [reader.read(path) for path in paths if path not in others]
    traits = [probes.traits(series) for series in sessions]
    for series, one in zip(sessions, traits, strict=True):
        contradictions.refuse(series, one.ends_at)
    return [analyse(series, one) for series, one in zip(sessions, traits, strict=True)], found
