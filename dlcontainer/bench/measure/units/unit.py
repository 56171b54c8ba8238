"""What a session repeats: it is warmed up, settled and declared once, then measured."""

from dataclasses import dataclass, field
from typing import Protocol

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.measure.arms import Workload
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings, SessionSides, WarmupOutcome
from dlcontainer.bench.measure.outlook import MachineLoad
from dlcontainer.bench.measure.recorder import ArmLaunch, Recorder
from dlcontainer.bench.samples.launch_order import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementTask:
    """What a session measures, and with what."""

    settings: SessionSettings
    subject: BenchImage
    context: BenchContext
    sides: SessionSides
    # Before the warm-up, which is our own work.
    load: MachineLoad = field(default_factory=outlook.load)


class MeasurementUnit(Protocol):
    """One way to measure both arms."""

    def warmed(self, begun: WarmupOutcome | None) -> list[ArmLaunch]:
        """Run each side once, as a warm-up; `begun` is what a session that goes on settled."""

    def settled(self, thrown: list[ArmLaunch]) -> WarmupOutcome:
        """Settle, by the warm-up, what is declared."""

    def work(self, settled: WarmupOutcome) -> Workload:
        """Return what every arm runs."""

    def sample_s(self, settled: WarmupOutcome, warmed_s: float) -> float:
        """Foresee the seconds of one sample by those of the warm-up."""

    def measure(self, group: Group, settled: WarmupOutcome, recorder: Recorder) -> None:
        """Measure a pair, a triple or a group, and record it."""
