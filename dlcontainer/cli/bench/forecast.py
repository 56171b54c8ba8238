"""`dlcontainer bench forecast`: does it fit, how fast, how many ranks, what next."""

from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import forecast_options
from dlcontainer.cli.bench.forecast_memory import MemoryAsking
from dlcontainer.cli.bench.forecast_options import ForecastWords

if TYPE_CHECKING:
    from dlcontainer.bench.study.advice.facts_ground import ForecastSource
    from dlcontainer.bench.study.advice.forecast_records import Forecast
    from dlcontainer.bench.study.advice.ground import ForecastQuestion
    from dlcontainer.bench.study.advice.held_out import HeldOutScore


def forecast(
    subject: forecast_options.Subject,
    image: forecast_options.Image = None,
    nodes: forecast_options.Nodes = None,
    parallel: forecast_options.Parallel = None,
    memory: forecast_options.Memory = None,
    budget: forecast_options.Budget = None,
    goal: forecast_options.Goal = None,
    script: forecast_options.Script = None,
    arm: forecast_options.ArmName = None,
    trace: forecast_options.Trace = None,
    held_out: forecast_options.HeldOut = None,
    target: forecast_options.Output = None,
    site: forecast_options.SiteName = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Forecast how many GPUs, which parallel strategy and what limits; from a study or facts."""
    typed = ForecastWords(
        subject=subject, image=image, nodes=nodes, parallel=parallel, memory=memory,
        budget=budget, goal=goal, script=script, arm=arm, trace=trace, held_out=held_out,
        target=target, site=site,
    )  # fmt: skip
    if held_out is not None:
        _score(typed, as_json=as_json)
        return
    console = output.Console(verbose=verbose, quiet=as_json)
    content = _made(typed, console)
    _write(content, target, as_json=as_json)


def _made(typed: ForecastWords, console: output.Console) -> "Forecast":
    from contextlib import ExitStack
    from datetime import UTC, datetime

    from dlcontainer import __version__
    from dlcontainer.bench.study.advice import forecast_run
    from dlcontainer.bench.study.forecast import memory_fit, next_evidence
    from dlcontainer.system import report_files

    report_files.require(typed.target)
    limit = memory_fit.read_size("--memory", typed.memory) if typed.memory else None
    with ExitStack() as stack:
        asking = MemoryAsking(typed=typed, limit=limit, console=console, stack=stack)
        source = _source(typed, asking)
        question = _question(typed, source)
        fit = asking.answer(source, question)
    stamp = forecast_run.ForecastStamp(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
        next_step=next_evidence.of(
            source.study, str(typed.image or "IMAGE"), is_traced=typed.trace is not None
        )
        if source.study
        else None,
    )
    return forecast_run.complete(source.ground, question, fit, stamp)


def _source(typed: ForecastWords, asking: "MemoryAsking") -> "ForecastSource":
    from dlcontainer.bench.study import study_reader
    from dlcontainer.bench.study.advice import facts_file, facts_ground, forecast_file, study_ground
    from dlcontainer.cli.bench import forecast_trace
    from dlcontainer.errors import UsageError

    image, strategies = str(typed.image or ""), _strategies(typed.parallel)
    if forecast_file.is_one(typed.subject):
        raise UsageError(
            f"{typed.subject}: it is a forecast, and they are made from a study or from facts",
            next_step="score it with --held-out STUDY2",
        )
    if not typed.subject.is_dir():
        if typed.arm is not None:
            raise UsageError("--arm takes a study: facts have no arms")
        read = facts_file.read(typed.subject, is_traced=typed.trace is not None)
        traffic = forecast_trace.of_facts(typed.subject, read, typed.trace, strategies)
        source = facts_ground.of_facts(typed.subject, read, image, strategies, typed.script or "")
        return facts_ground.with_trace(source, read, traffic)
    study = study_reader.read(typed.subject)
    asking.require_same(study)
    return study_ground.of_study(
        study,
        study_ground.StudyWords(
            origin=str(typed.subject), image=image, arm=typed.arm or "", strategies=strategies,
            script=typed.script or "",
        ),
        asking.gradient_bytes(study),
        forecast_trace.of_study(typed.trace, study, typed.arm),
    )  # fmt: skip


def _strategies(words: str | None) -> tuple[str, ...]:
    from dlcontainer.bench.study.advice import candidates
    from dlcontainer.errors import UsageError

    names = tuple(word.strip() for word in words.split(",")) if words is not None else ()
    for name in names:
        why = candidates.wrong_name(name)
        if why:
            raise UsageError(
                f"--parallel {words}: {why}",
                next_step="join dp, fsdp, tp and pp by x, with numbers of ranks: tp2, dp2xpp2",
            )
    return names


def _question(typed: ForecastWords, source: "ForecastSource") -> "ForecastQuestion":
    import math

    from dlcontainer.bench.study.advice.ground import ForecastQuestion
    from dlcontainer.errors import UsageError

    if typed.budget is not None and not 0 < typed.budget < math.inf:
        raise UsageError(f"--budget {typed.budget:g}: no number of hours above 0")
    return ForecastQuestion(
        nodes=typed.nodes,
        goal=source.goal if typed.goal is None else _share(typed.goal),
        budget_hours=typed.budget,
    )


def _share(words: str) -> float:
    from dlcontainer.errors import UsageError

    try:
        share = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(
            f"--goal {words}: no efficiency between 0 and 1", next_step="write --goal 0.85, or 85%"
        )
    return share


def _score(typed: ForecastWords, *, as_json: bool) -> None:
    from dataclasses import asdict

    from dlcontainer.bench.study import study_reader
    from dlcontainer.bench.study.advice import forecast_file, held_out
    from dlcontainer.errors import UsageError

    assert typed.held_out is not None  # noqa: S101 - asked for by the caller
    exclusive = {
        "--image": typed.image, "--nodes": typed.nodes, "--memory": typed.memory,
        "--budget": typed.budget, "--goal": typed.goal, "--script": typed.script,
        "--parallel": typed.parallel, "--arm": typed.arm,
        "--trace": typed.trace, "-o": typed.target, "--site": typed.site,
    }  # fmt: skip
    typed_names = [name for name, words in exclusive.items() if words is not None]
    if typed_names:
        raise UsageError(
            f"--held-out takes no {typed_names[0]}: a frozen forecast is scored as it is",
            next_step="dlcontainer bench forecast FORECAST.json --held-out STUDY2",
        )
    frozen = forecast_file.read(typed.subject)
    score = held_out.score(str(typed.held_out), frozen, study_reader.read(typed.held_out))
    if as_json:
        output.emit("forecast-score", asdict(score))
        return
    _say_score(score)


def _say_score(score: "HeldOutScore") -> None:
    from dlcontainer.bench.study.advice import score_text

    output.say(score_text.headline(score))
    output.say(output.table(map(score_text.point_row, score.points), head=score_text.POINT_HEAD))
    output.say(output.table(map(score_text.line_row, score.lines), head=score_text.LINE_HEAD))
    for line in score_text.below(score):
        output.say(line)


def _write(content: "Forecast", target: Path | None, *, as_json: bool) -> None:
    from dlcontainer.bench.study.advice import forecast_file
    from dlcontainer.system import report_files

    body = forecast_file.body(content)
    if target is not None:
        report_files.write(f"{output.document('forecast', body)}\n", target)
    if as_json:
        output.emit("forecast", body)
        return
    _say(content)
    if target is not None:
        output.say(f"wrote {target}, frozen as {body['frozen'][:12]}")
        output.copied(f"dlcontainer bench forecast {target} --held-out STUDY2", before="score it: ")


def _say(content: "Forecast") -> None:
    from dlcontainer.bench.study.advice import forecast_text

    output.say(forecast_text.headline(content))
    for number, part in enumerate(forecast_text.parts(content), 1):
        output.say(f"\n{number} {part.question}")
        for line in part.above:
            output.say(line)
        if part.rows:
            output.say(output.table(part.rows, head=part.head))
        for line in part.below:
            output.say(line)
        for command in part.commands:
            output.copied(command.command, before=f"{command.label}: ")
