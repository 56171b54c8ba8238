"""`dlcontainer bench forecast`: does it fit, how fast, how many ranks, what next."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import completion, options, output

if TYPE_CHECKING:
    from contextlib import ExitStack

    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.study.advice.facts_ground import ForecastSource
    from dlcontainer.bench.study.advice.forecast_records import FitAnswer, Forecast
    from dlcontainer.bench.study.advice.ground import ForecastQuestion
    from dlcontainer.bench.study.advice.held_out import HeldOutScore
    from dlcontainer.bench.study.forecast.memory import ImagePython
    from dlcontainer.bench.study.study_records import MeasuredStudy

_ASKED, _SCORED = "What is asked", "Afterwards"

Subject = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY|FACTS.yaml",
        help="Folder of `bench scaling`, or a file of facts (docs/measure/forecast.md); with "
        "--held-out: a forecast that -o wrote.",
    ),
]
Image = Annotated[
    Path | None,
    typer.Option(
        "--image",
        metavar="IMAGE",
        help="An image file (.sif): its torch tells the memory of a rank.",
    ),
]
SiteName = Annotated[
    str | None,
    typer.Option(
        "--site",
        "-s",
        metavar="SITE",
        help="Site whose engine settings launch the image. Default: local.",
        autocompletion=completion.sites,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        max=100_000,
        help="Largest number of nodes. Default: 16 times the study's last point; 16 nodes.",
        rich_help_panel=_ASKED,
    ),
]
Parallel = Annotated[
    str | None,
    typer.Option(
        "--parallel",
        metavar="NAME,NAME",
        help="Strategies: dp, fsdp, tp2, dp2xpp2, ... Default: those of the study or the facts.",
        rich_help_panel=_ASKED,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory of a device, e.g. 40GB: strategies that do not fit are left out.",
        rich_help_panel=_ASKED,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="HOURS",
        help="GPU-hours (core-hours on CPUs): prints what they buy.",
        rich_help_panel=_ASKED,
    ),
]
Goal = Annotated[
    str | None,
    typer.Option(
        "--goal",
        metavar="SHARE",
        help="Efficiency that is enough: 0.85 or 85%. Default: the facts' own, or 0.85.",
        rich_help_panel=_ASKED,
    ),
]
Script = Annotated[
    str | None,
    typer.Option(
        "--script",
        metavar="FILE:build",
        help="Your own network: build() returns model, optimizer, sample and loss.",
        rich_help_panel=_ASKED,
    ),
]
ArmName = Annotated[
    str | None,
    typer.Option(
        "--arm",
        metavar="ARM",
        help="Arm of the study to forecast. Default: container.",
        rich_help_panel=_ASKED,
    ),
]
HeldOut = Annotated[
    Path | None,
    typer.Option(
        "--held-out",
        metavar="STUDY2",
        help="Score a written forecast on this study, which was measured afterwards.",
        rich_help_panel=_SCORED,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.json",
        help="Write the forecast, frozen by its digest, for `report` and --held-out.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _ForecastWords:
    """What was typed of a forecast."""

    subject: Path
    image: Path | None
    nodes: int | None
    parallel: str | None
    memory: str | None
    budget: float | None
    goal: str | None
    script: str | None
    arm: str | None
    held_out: Path | None
    target: Path | None
    site: str | None


def forecast(
    subject: Subject,
    image: Image = None,
    nodes: Nodes = None,
    parallel: Parallel = None,
    memory: Memory = None,
    budget: Budget = None,
    goal: Goal = None,
    script: Script = None,
    arm: ArmName = None,
    held_out: HeldOut = None,
    target: Output = None,
    site: SiteName = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Forecast how many GPUs, which parallel strategy and what limits; from a study or facts."""
    typed = _ForecastWords(
        subject=subject, image=image, nodes=nodes, parallel=parallel, memory=memory,
        budget=budget, goal=goal, script=script, arm=arm, held_out=held_out, target=target,
        site=site,
    )  # fmt: skip
    if held_out is not None:
        _score(typed, as_json=as_json)
        return
    console = output.Console(verbose=verbose, quiet=as_json)
    answers = _made(typed, console)
    _write(answers, target, as_json=as_json)


def _made(typed: _ForecastWords, console: output.Console) -> "Forecast":
    from contextlib import ExitStack
    from datetime import UTC, datetime

    from dlcontainer import __version__
    from dlcontainer.bench.study.advice import forecast_run
    from dlcontainer.bench.study.forecast import memory_fit, next_evidence
    from dlcontainer.system import report_files

    report_files.require(typed.target)
    limit = memory_fit.read_size("--memory", typed.memory) if typed.memory else None
    with ExitStack() as stack:
        asking = _MemoryAsking(typed=typed, limit=limit, console=console, stack=stack)
        source = _source(typed, asking)
        question = _question(typed, source)
        fit = asking.answer(source, question)
    stamp = forecast_run.ForecastStamp(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
        next_step=next_evidence.of(source.study, str(typed.image or "IMAGE"))
        if source.study
        else None,
    )
    return forecast_run.complete(source.ground, question, fit, stamp)


def _source(typed: _ForecastWords, asking: "_MemoryAsking") -> "ForecastSource":
    from dlcontainer.bench.study import study_reader
    from dlcontainer.bench.study.advice import facts_file, facts_ground, forecast_file, study_ground
    from dlcontainer.errors import UsageError

    image, strategies = str(typed.image or ""), _strategies(typed.parallel)
    if forecast_file.is_one(typed.subject):
        raise UsageError(
            f"{typed.subject}: it is a forecast, and they are made from a study or from facts",
            next_step="score it with --held-out STUDY2, or show it with `dlcontainer report`",
        )
    if not typed.subject.is_dir():
        if typed.arm is not None:
            raise UsageError("--arm takes a study: facts have no arms")
        read = facts_file.read(typed.subject)
        return facts_ground.of_facts(typed.subject, read, image, strategies)
    study = study_reader.read(typed.subject)
    asking.require_same(study)
    return study_ground.of_study(
        study,
        study_ground.StudyWords(
            origin=str(typed.subject), image=image, arm=typed.arm or "", strategies=strategies,
            script=typed.script or "",
        ),
        asking.gradient_bytes(study),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _MemoryAsking:
    """Asks the image's torch for the memory of ranks; the engine is started once it is needed."""

    typed: _ForecastWords
    limit: int | None
    console: output.Console
    stack: "ExitStack"
    places: "list[ImagePython]" = field(default_factory=list)

    def require_same(self, study: "MeasuredStudy") -> None:
        """Refuse another image than the study's; raises UsageError."""
        from dlcontainer.errors import UsageError

        if self.typed.image is None:
            return
        image = self._image(self.typed.image)
        if image.sha256 != study.plan.image_sha256:
            raise UsageError(
                f"--image {self.typed.image}: the study is of another image",
                why=f"the study's has SHA-256 {study.plan.image_sha256[:12]}, this one "
                f"{image.sha256[:12]}",
                next_step="give the image that the study was measured with",
            )

    def gradient_bytes(self, study: "MeasuredStudy") -> float | None:
        """Return the bytes of a script's gradients: as many as of its parameters, in fp32."""
        from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
        from dlcontainer.bench.study.advice import study_ground
        from dlcontainer.bench.study.forecast import memory
        from dlcontainer.bench.study.forecast.memory_records import MemoryQuestion

        if not self.typed.script or self.typed.image is None or study_ground.is_published(study):
            return None
        question_of_one = MemoryQuestion(strategies=(ParallelStrategy(),), script=self.typed.script)
        row = memory.of(question_of_one, self._place(self.typed.image)).of(ParallelStrategy())
        return float(row.parameters) if row else None

    def answer(self, source: "ForecastSource", question: "ForecastQuestion") -> "FitAnswer":
        """Answer whether ranks fit: not asked, stated, or told by the image."""
        from dlcontainer.bench.study.advice import fit_answers, ground
        from dlcontainer.bench.study.forecast import memory

        script = self.typed.script or ""
        candidates = ground.listed(source.ground, question.nodes).candidates
        if not script:
            without_image = fit_answers.known_without_image(source.ground, candidates, self.limit)
            if without_image is not None:
                return without_image
        about = fit_answers.question(source.ground, script)
        if self.typed.image is None or about is None:
            has_image = self.typed.image is not None
            return fit_answers.not_known(source.ground, self.limit, has_image=has_image)
        place = self._place(self.typed.image)
        forecasts = [
            memory.of(question_of_one, place)
            for question_of_one in fit_answers.questions(candidates, about)
        ]
        return fit_answers.of_memory(candidates, forecasts, self.limit)

    def _image(self, path: Path) -> "BenchImage":
        from dlcontainer.bench.measure import bench_image
        from dlcontainer.cli.context import here

        return bench_image.read(options.image_file(path), here().host.arch)

    def _place(self, path: Path) -> "ImagePython":
        from dlcontainer.bench.study.forecast.memory import ImagePython
        from dlcontainer.cli.bench import bench_context
        from dlcontainer.cli.context import here

        if not self.places:
            world, image = here(), self._image(path)
            site = world.site(self.typed.site or "local").value
            opened = bench_context.at_site(world, self.console, site, None, image)
            context = self.stack.enter_context(opened)
            self.places.append(ImagePython(context=context, subject=image))
        return self.places[0]


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


def _question(typed: _ForecastWords, source: "ForecastSource") -> "ForecastQuestion":
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


def _score(typed: _ForecastWords, *, as_json: bool) -> None:
    from dataclasses import asdict

    from dlcontainer.bench.study import study_reader
    from dlcontainer.bench.study.advice import forecast_file, held_out
    from dlcontainer.errors import UsageError

    assert typed.held_out is not None  # noqa: S101 - asked for by the caller
    exclusive = {
        "--image": typed.image, "--nodes": typed.nodes, "--memory": typed.memory,
        "--budget": typed.budget, "--goal": typed.goal, "--script": typed.script,
        "--parallel": typed.parallel, "--arm": typed.arm, "-o": typed.target, "--site": typed.site,
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


def _write(answers: "Forecast", target: Path | None, *, as_json: bool) -> None:
    from dlcontainer.bench.study.advice import forecast_file
    from dlcontainer.system import report_files

    body = forecast_file.body(answers)
    if target is not None:
        report_files.write(f"{output.document('forecast', body)}\n", target)
    if as_json:
        output.emit("forecast", body)
        return
    _say(answers)
    if target is not None:
        output.say(f"wrote {target}, frozen as {body['frozen'][:12]}")
        output.copied(f"dlcontainer bench forecast {target} --held-out STUDY2", before="score it: ")


def _say(answers: "Forecast") -> None:
    from dlcontainer.bench.study.advice import forecast_text

    output.say(forecast_text.headline(answers))
    for number, part in enumerate(forecast_text.parts(answers), 1):
        output.say(f"\n{number} {part.question}")
        for line in part.above:
            output.say(line)
        if part.rows:
            output.say(output.table(part.rows, head=part.head))
        for line in part.below:
            output.say(line)
        for command in part.commands:
            output.copied(command.command, before=f"{command.label}: ")
