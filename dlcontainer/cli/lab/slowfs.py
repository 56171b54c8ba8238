"""`dlcontainer lab slowfs`: a folder seen through a slow, counting file system."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.lab.slowfs.server import StandIn

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder to show.")]
Point = Annotated[Path, typer.Argument(metavar="MOUNTPOINT", help="Empty folder to mount it on.")]
ProfileName = Annotated[
    Literal["lustre", "nfs", "gpfs"],
    typer.Option("--profile", help="File system whose client cache is imitated."),
]
Latency = Annotated[
    float,
    typer.Option(
        "--latency-ms", metavar="MS", min=0.0, help="Latency of a metadata operation, ms."
    ),
]
ReadLatency = Annotated[
    float, typer.Option("--read-latency-ms", metavar="MS", min=0.0, help="Latency of a read, ms.")
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate",
        metavar="OPS/S",
        min=0.0,
        help="Metadata operations per second of the server; 0: unlimited.",
    ),
]
Bandwidth = Annotated[
    float,
    typer.Option(
        "--bandwidth", metavar="MB/S", min=0.0, help="Total read bandwidth, MB/s; 0: unlimited."
    ),
]
Service = Annotated[
    Literal["constant", "exponential"],
    typer.Option("--service", help="Distribution of the server's time for one operation."),
]
Server = Annotated[
    Path | None,
    typer.Option(
        "--server", metavar="FILE", help="Share one server with all mounts that name the same file."
    ),
]
Stats = Annotated[
    Path | None,
    typer.Option(
        "--stats",
        metavar="FILE.json",
        help="File to write the counts to, at the end and on SIGUSR1.",
    ),
]


def slowfs(
    source: Source,
    point: Point,
    profile: ProfileName = "lustre",
    latency_ms: Latency = 0.0,
    read_latency_ms: ReadLatency = 0.0,
    rate: Rate = 0.0,
    bandwidth: Bandwidth = 0.0,
    service: Service = "exponential",
    server: Server = None,
    stats: Stats = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Mount a folder read-only as a slow file system until Ctrl-C, and count the operations."""
    import contextlib
    import signal

    from dlcontainer.cli.context import here
    from dlcontainer.errors import InterruptedByUserError
    from dlcontainer.lab.slowfs.cache_profiles import PROFILES
    from dlcontainer.lab.slowfs.passthrough import Delay
    from dlcontainer.lab.slowfs.server import StandIn
    from dlcontainer.lab.slowfs.server_queue import ServerRates

    console = output.Console(verbose=verbose, quiet=as_json)
    shown = StandIn(
        source=source,
        profile=PROFILES[profile],
        delay=Delay(operation_s=latency_ms / 1000, read_s=read_latency_ms / 1000),
        speed=ServerRates(rate=rate, bandwidth=bandwidth * 1e6, service=service),
        server=server,
    )
    if stats is not None:
        _check_writable(stats)
        signal.signal(signal.SIGUSR1, lambda *_: _write_now(shown, stats, console))
    # Being told to stop is how this command ends.
    with (
        contextlib.suppress(InterruptedByUserError, KeyboardInterrupt),
        shown.mounted(point, console.runner(here().environ)) as mount,
    ):
        console.step(f"{source} is mounted at {point}; press Ctrl-C to end")
        mount.ended.wait()
    if stats is not None:
        _write_now(shown, stats, console)
    counts = shown.counters.snapshot()
    if as_json:
        output.emit("slowfs", {"setting": shown.setting(), **counts})
        return
    console.step(
        f"ended: {counts['metadata']} metadata operations, {counts['reads']} reads, "
        f"{counts['bytes']} bytes"
    )


def _write_now(shown: "StandIn", stats: Path, console: output.Console) -> None:
    try:
        shown.write(stats)
    except OSError as error:  # a full disk is no reason to take the mount from its users
        console.note(f"can't write {stats}: {error.strerror}")


def _check_writable(stats: Path) -> None:
    import os

    from dlcontainer.errors import UsageError

    folder = stats.absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise UsageError(f"--stats {stats}: its folder is missing or not writable")
