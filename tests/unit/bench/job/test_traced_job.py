"""The sides of a traced command, one job after another; the job itself is made up."""

from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.job import traced_job
from dlcontainer.bench.job.scripts import JobFrame, RankSearch
from dlcontainer.bench.job.submit import JobEnding
from dlcontainer.bench.job.traced_job import TraceContext
from tests.publishing import Quiet

SHA256 = "cd" * 32


@dataclass
class Failing:
    """A scheduler whose jobs fail at once."""

    def run(self, frame: Path, log: Path) -> JobEnding:
        assert frame.exists()
        log.touch()
        return JobEnding(job="", submitted=0.0, state="FAILED", cause="job")


def test_a_side_s_image_is_its_own(tmp_path: Path) -> None:
    context = TraceContext(
        folder=tmp_path,
        arms={"native": "true", "container": "true"},
        images={"container": SHA256},
        framing=JobFrame(
            command=("true",), search=RankSearch(), cwd=tmp_path, image=tmp_path / "p.sif", head=()
        ),
        submitter=Failing(),
        progress=Quiet(),
    )
    jobs = list(traced_job.run(context))
    assert [(job.side, job.image_sha256) for job in jobs] == [
        ("native", None),
        ("container", SHA256),
    ]
    assert all(job.ended != traced_job.GOOD for job in jobs)
