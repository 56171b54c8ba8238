"""A study's folder read with the verdicts of its sessions."""

from pathlib import Path

from dlcontainer.bench import probes
from dlcontainer.bench.analysis import session_analysis
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples import contradictions, reader
from dlcontainer.bench.study import study_reader
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_records import STUDY_FILE, MeasuredStudy
from dlcontainer.errors import BenchDataError


def read(folder: Path) -> JudgedStudy:
    """Read and judge a study; raises BenchDataError for another folder, and for a changed study."""
    if not (folder / STUDY_FILE).is_file():
        raise BenchDataError(
            "this folder is not a scaling study",
            where=str(folder),
            why=f"it has no {STUDY_FILE}",
            next_step="give a folder that `bench scaling -o` wrote, or the files of sessions",
        )
    return judge(study_reader.read(folder))


def judge(study: MeasuredStudy) -> JudgedStudy:
    """Judge the sessions of a study's points; raises BenchDataError for one that is wrong."""
    sessions = {}
    for point in study.points:
        path = study.folder / point.plan.file
        analysis = _analysis(path) if path.is_file() else None
        if analysis is not None:
            sessions[point.plan.file] = analysis
    return JudgedStudy(study=study, sessions=sessions)


def _analysis(path: Path) -> Analysis | None:
    series = reader.read(path)
    if not series.launches:
        return None
    traits = probes.traits(series)
    contradictions.refuse(series, traits.ends_at)
    return session_analysis.analyse(series, traits)
