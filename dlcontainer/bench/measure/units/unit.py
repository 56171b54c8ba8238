"""What a session repeats: it is warmed up, settled and declared once, then measured."""

from dataclasses import dataclass, field
from typing import Protocol

from dlcontainer.bench.measure import outlook
from dlcontainer.bench.measure.arms import Workload
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings, Settled, Sides
from dlcontainer.bench.measure.outlook import Load
from dlcontainer.bench.measure.recorder import ArmLaunch, Recorder
from dlcontainer.bench.samples.launch_order import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What a session measures, and with what."""

    settings: SessionSettings
    subject: BenchImage
    context: BenchContext
    sides: Sides
    # Before the warm-up, which is our own work.
    load: Load = field(default_factory=outlook.load)


class Unit(Protocol):
    """One way to measure both arms."""

    def warmed(self, begun: Settled | None) -> list[ArmLaunch]:
        """Run each side once, as a warm-up; `begun` is what a session that goes on settled."""

    def settled(self, thrown: list[ArmLaunch]) -> Settled:
        """Settle, by the warm-up, what is declared."""

    def work(self, settled: Settled) -> Workload:
        """Give what every arm runs."""

    def sample_s(self, settled: Settled, warmed_s: float) -> float:
        """Foresee the seconds of one sample by those of the warm-up."""

    def measure(self, group: Group, settled: Settled, recorder: Recorder) -> None:
        """Measure a pair, a triple or a group, and record it."""
