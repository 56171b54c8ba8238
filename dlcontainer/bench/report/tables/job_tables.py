"""The jobs of a session one by one: rows of a table, and of the CSV."""

from collections.abc import Iterator
from dataclasses import asdict

from dlcontainer.bench.job.job_records import JobLaunch, JobSession
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.vocabulary import counted

_MOST_TEXT = 400
_SHOWN = ("queue_s", "start_s", "steady_s", "teardown_s", "total_s")


def table(job: JobSession, anchor: str, file: str) -> Table:
    """Return every job with its line, in the order in which they ran."""
    return Table(
        name=f"All {counted(len(job.launches), 'job')}",
        head=("line", "pair", "side", "job", "nodes", *(name[:-2] + ", s" for name in _SHOWN),
              "load before", "error"),
        rows=tuple(_row(launch) for launch in job.launches),
        note=f"From {file}, which has every rank's moments; so has the CSV beside this page. "
        "Pair 0 is the warm-up, which is not counted. The load is that of the node that submitted.",
        anchor=anchor,
    )  # fmt: skip


def _row(launch: JobLaunch) -> tuple[str, ...]:
    times = asdict(launch.times) if launch.times else {}
    return (
        str(launch.line),
        str(launch.pair),
        launch.side,
        launch.job,
        ", ".join(launch.nodes[:4]) + (" …" if launch.nodes[4:] else ""),
        *(f"{times[name]:.3f}" if times else "" for name in _SHOWN),
        f"{launch.load_1min:.2f}",
        (launch.error or "")[:_MOST_TEXT],
    )


def raw(job: JobSession) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield each rank of each job with the job's line; one that has no rank a row as well."""
    for launch in job.launches:
        whole: dict[str, object] = asdict(launch)
        ranks = whole.pop("ranks")
        line = whole.pop("line")
        whole["times"] = whole["times"] or {}
        assert isinstance(line, int)  # noqa: S101 - a record's
        for rank in ranks if isinstance(ranks, tuple) and ranks else ({},):
            yield line, {**whole, "rank": rank}
