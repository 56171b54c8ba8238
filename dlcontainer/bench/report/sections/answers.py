"""The first three lines of a report: what a group leader asks, each answered in a line.

An answer is no second verdict: it says the sessions' own in words to be read aloud, with seconds of
a job, and how sure it is. All that it rests on stands below it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlcontainer.bench.analysis.across_sessions import PooledSessions, across
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Word
from dlcontainer.bench.job import job_analysis
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.report.inputs import InputFinding, Omission
from dlcontainer.bench.report.sections import job_steps, jobs, scaling_answers, shared_answer
from dlcontainer.bench.report.sections.shared_answer import CANNOT_TELL
from dlcontainer.bench.report.sections.spoken_answer import SpokenAnswer, Sure
from dlcontainer.bench.report.text import scope_text, verdict_text
from dlcontainer.bench.samples.traits import START, TRAINING

SHARED = "What happens at N nodes on a shared file system?"
NOT_MEASURED = "Not measured"
_SAID: dict[Word, str] = {"EQUIVALENT": "Yes", "FASTER": "Yes", "SLOWER": "No"}


def of(analyses: Sequence[Analysis], findings: Sequence[InputFinding]) -> tuple[SpokenAnswer, ...]:
    """Return the three answers; none where no file is about any of the questions.

    Scaling studies have answers of their own, before these.
    """
    scaling = scaling_answers.of(findings)
    answers = (
        _training(analyses, findings),
        _start(analyses, findings),
        _shared(analyses, findings),
    )
    is_about = any(answer.reply != NOT_MEASURED for answer in answers)
    says_why = any(isinstance(item.finding, Omission) for item in findings)
    return (*scaling, *(answers if is_about or says_why else ()))


def _training(analyses: Sequence[Analysis], findings: Sequence[InputFinding]) -> SpokenAnswer:
    sessions = _asked(analyses, TRAINING)
    answers = []
    if sessions:
        answers.append(_together(sessions, [_session(TRAINING, item) for item in sessions]))
    of_jobs = [_steps(item.finding) for item in findings if isinstance(item.finding, JobSession)]
    answers += [answer for answer in of_jobs if answer and answer.reply != NOT_MEASURED]
    unseen = [answer for answer in of_jobs if answer and answer.reply == NOT_MEASURED]
    if answers or unseen:
        return _agreed(answers or unseen[:1])
    own = "; of your own program: dlcontainer bench job"
    return _not_measured(TRAINING, findings, "bench train", other=own)


def _steps(job: JobSession) -> SpokenAnswer | None:
    """Answer by the steps of the user's own program; None where nobody asked for them."""
    steps = job_analysis.read(job).steps
    if steps is None:
        return None
    figures = f"of your own program: {job_steps.headline(steps)}"
    if steps.verdict is None:
        return SpokenAnswer(question=TRAINING, reply=NOT_MEASURED, figures=figures, sure="")
    reply = _SAID.get(steps.verdict.word, CANNOT_TELL)
    if busy := _others_beside(job):
        figures = f"others were at work on this machine ({busy}); seen then: {figures}"
        reply = CANNOT_TELL
    elif reply == CANNOT_TELL and steps.verdict.reasons:
        figures = f"{figures}: {steps.verdict.reasons[0]}"
    sure: Sure = "unsure" if reply == CANNOT_TELL else "likely"
    return SpokenAnswer(question=TRAINING, reply=reply, figures=figures, sure=sure)


def _others_beside(job: JobSession) -> str:
    """Return the load of others where jobs ran: with a scheduler that was another node."""
    if job.declared.scheduler != "none":
        return ""
    return scope_text.others_at_work(job.header.machine)


def _start(analyses: Sequence[Analysis], findings: Sequence[InputFinding]) -> SpokenAnswer:
    sessions = _asked(analyses, START)
    if sessions:
        return _together(sessions, [_session(START, analysis) for analysis in sessions])
    of_jobs = [_job(item.finding) for item in findings if isinstance(item.finding, JobSession)]
    if of_jobs:
        return _agreed(of_jobs)
    return _not_measured(
        START, findings, "bench import", "; of a command of your own: dlcontainer bench job"
    )


def _shared(analyses: Sequence[Analysis], findings: Sequence[InputFinding]) -> SpokenAnswer:
    # What was not decided is no ground for a break-even.
    starts = [
        analysis
        for analysis in _asked(analyses, START)
        if _session(START, analysis).reply != CANNOT_TELL
    ]
    shared = shared_answer.of(findings, starts)
    if shared is None:
        return _not_measured(
            SHARED, findings, "bench import-matrix", "; to predict it: dlcontainer lab storm"
        )
    sure: Sure = "likely" if shared.is_shown else "unsure"
    return SpokenAnswer(question=SHARED, reply=shared.reply, figures=shared.figures, sure=sure)


def _asked(analyses: Sequence[Analysis], question: str) -> list[Analysis]:
    return [analysis for analysis in analyses if analysis.traits.question == question]


def _not_measured(
    question: str, findings: Sequence[InputFinding], command: str, other: str = ""
) -> SpokenAnswer:
    """Say why it was left out, where a file says so, and what measures it."""
    reasons = dict.fromkeys(
        item.finding.why
        for item in findings
        if isinstance(item.finding, Omission) and item.finding.command == command
    )
    figures = "; ".join([*reasons, f"use dlcontainer {command}{other}"])
    return SpokenAnswer(question=question, reply=NOT_MEASURED, figures=figures, sure="")


def _session(question: str, analysis: Analysis) -> SpokenAnswer:
    """Answer by one session; on a busy machine it says that it can't tell, and what it saw."""
    verdict = analysis.verdict
    headline = verdict_text.headline(analysis)
    if busy := scope_text.others_at_work(analysis.series.session.machine):
        figures = f"others were at work on this machine ({busy}); seen then: {headline}"
        return SpokenAnswer(question=question, reply=CANNOT_TELL, figures=figures, sure="unsure")
    if verdict.word not in _SAID or verdict.difference is None:
        reasons = verdict.reasons or (verdict_text.sentence(analysis).rstrip("."),)
        begin = "the two sides can't be compared: " if verdict.word == "NOT COMPARABLE" else ""
        figures = f"{begin}{reasons[0][:1].lower()}{reasons[0][1:]}"
        return SpokenAnswer(question=question, reply=CANNOT_TELL, figures=figures, sure="unsure")
    figures = headline
    if analysis.traits.equivalence:
        figures = f"{headline}, {job_steps.an_hour(verdict.difference)}"
    return SpokenAnswer(
        question=question, reply=_SAID[verdict.word], figures=figures, sure="likely"
    )


def _job(job: JobSession) -> SpokenAnswer:
    reading = job_analysis.read(job)
    reply = _SAID.get(reading.word, CANNOT_TELL)
    figures = jobs.headline(job, reading)
    if reply == CANNOT_TELL and reading.reasons:
        figures = f"{figures}: {reading.reasons[0]}"
    return SpokenAnswer(
        question=START,
        reply=reply,
        figures=figures,
        sure="unsure" if reply == CANNOT_TELL else "likely",
    )


def _together(analyses: Sequence[Analysis], answers: Sequence[SpokenAnswer]) -> SpokenAnswer:
    """Answer by what sessions of several allocations say together, else by what they agree in."""
    pooled = [item for item in across(analyses) if item.word in _SAID]
    busy = [answer for answer in answers if answer.figures.startswith("others were at work")]
    if pooled and not busy:
        return _agreed([_pooled(answers[0].question, item) for item in pooled])
    return _agreed(answers)


def _pooled(question: str, item: PooledSessions) -> SpokenAnswer:
    word = item.word
    if word is None or item.difference is None:
        raise ValueError("no verdict across allocations")
    hours = f", {job_steps.an_hour(item.difference)}" if item.members[0].traits.equivalence else ""
    return SpokenAnswer(
        question=question,
        reply=_SAID[word],
        figures=f"{verdict_text.joint_headline(item)}{hours}",
        sure="sure",
    )


def _agreed(answers: Sequence[SpokenAnswer]) -> SpokenAnswer:
    """Return the one answer of several; those that contradict each other are named."""
    decided = [answer for answer in answers if answer.reply != CANNOT_TELL]
    if len(answers) == 1 or not decided:
        first, rest = answers[0], len(answers) - 1
        more = f"; {rest} more can't tell either" if rest else ""
        return replace(first, figures=f"{first.figures}{more}")
    if len({answer.reply for answer in decided}) > 1:
        reply = "; ".join(dict.fromkeys(f"{result.reply}, {result.figures}" for result in decided))
        return SpokenAnswer(
            question=answers[0].question,
            reply=CANNOT_TELL,
            figures=f"{len(decided)} results contradict each other: {reply}",
            sure="unsure",
        )
    return replace(decided[0], figures=f"{decided[0].figures}{''.join(_beside(answers, decided))}")


def _beside(answers: Sequence[SpokenAnswer], decided: Sequence[SpokenAnswer]) -> Iterator[str]:
    if len(decided) > 1:
        yield f"; {len(decided)} results agree"
    if len(answers) > len(decided):
        yield f"; {len(answers) - len(decided)} can't tell"
