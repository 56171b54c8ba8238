"""The memory of ranks for `bench forecast`: asked of the image's torch, once it is needed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output
from dlcontainer.cli.bench.forecast_options import ForecastWords

if TYPE_CHECKING:
    from contextlib import ExitStack

    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.study.advice.facts_ground import ForecastSource
    from dlcontainer.bench.study.advice.forecast_records import FitAnswer
    from dlcontainer.bench.study.advice.ground import ForecastQuestion
    from dlcontainer.bench.study.forecast.memory import ImagePython
    from dlcontainer.bench.study.study_records import MeasuredStudy


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryAsking:
    """Asks the image's torch for the memory of ranks; the engine is started once it is needed."""

    typed: ForecastWords
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
        question = MemoryQuestion(strategies=(ParallelStrategy(),), script=self.typed.script)
        row = memory.of(question, self._place(self.typed.image)).of(ParallelStrategy())
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
            memory.of(memory_question, place)
            for memory_question in fit_answers.questions(candidates, about)
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
