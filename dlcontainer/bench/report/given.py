"""The files that a report was given, each read once: sessions, judged, and the others; studies."""

from collections.abc import Iterable
from pathlib import Path

from dlcontainer.bench import probes
from dlcontainer.bench.analysis.session_analysis import Analysis, analyse
from dlcontainer.bench.report import inputs
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.samples import contradictions, reader
from dlcontainer.bench.study import study_sessions


def read(files: Iterable[Path]) -> tuple[list[Analysis], list[InputFinding]]:
    """Read files and judge the sessions among them; raises BenchDataError for one that is wrong."""
    places = list(files)
    paths = [path for path in places if not path.is_dir()]
    findings = [inputs.read(path) for path in paths if inputs.is_one(path)]
    findings += [_study(path) for path in places if path.is_dir()]
    reports = {finding.path for finding in findings}
    sessions = [reader.read(path) for path in paths if path not in reports]
    traits = [probes.traits(series) for series in sessions]
    for series, probe_traits in zip(sessions, traits, strict=True):
        contradictions.refuse(series, probe_traits.ends_at)
    return [
        analyse(series, probe_traits) for series, probe_traits in zip(sessions, traits, strict=True)
    ], findings


def _study(folder: Path) -> InputFinding:
    judged = study_sessions.read(folder)
    return InputFinding(path=folder, sha256=judged.study.digest, finding=judged)
