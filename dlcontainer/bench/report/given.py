"""The files that a report was given, each read once: sessions, judged, and the others."""

from collections.abc import Iterable
from pathlib import Path

from dlcontainer.bench import probes
from dlcontainer.bench.analysis.session_analysis import Analysis, analyse
from dlcontainer.bench.report import inputs
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.samples import contradictions, reader


def read(files: Iterable[Path]) -> tuple[list[Analysis], list[InputFinding]]:
    """Read files and judge the sessions among them; raises BenchDataError for one that is wrong."""
    paths = list(files)
    findings = [inputs.read(path) for path in paths if inputs.is_one(path)]
    reports = {finding.path for finding in findings}
    sessions = [reader.read(path) for path in paths if path not in reports]
    traits = [probes.traits(series) for series in sessions]
    for series, probe_traits in zip(sessions, traits, strict=True):
        contradictions.refuse(series, probe_traits.ends_at)
    return [
        analyse(series, probe_traits) for series, probe_traits in zip(sessions, traits, strict=True)
    ], findings
