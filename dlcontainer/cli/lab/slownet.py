"""`dlcontainer lab slownet`: hosts on a network with a latency and a rate, around a command."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlcontainer.lab.slownet.network import VirtualNetwork
    from dlcontainer.lab.slownet.session import NetworkRun, Streams

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND",
        help="Command to run on the first host; it starts ranks with dlc-launch.",
    ),
]
Hosts = Annotated[
    int,
    typer.Option("--hosts", metavar="N", min=2, max=4, help="Number of hosts, named n1, n2, ..."),
]
Latency = Annotated[
    str,
    typer.Option(
        "--latency", metavar="TIME", help="One-way latency of each link, e.g. 100us or 1.5ms."
    ),
]
Rate = Annotated[
    str,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="Rate of each link, each way, e.g. 500Mbit or 1Gbit; 0: unlimited.",
    ),
]
Links = Annotated[
    list[str] | None,
    typer.Option(
        "--link",
        metavar="A-B=TIME,RATE",
        help="Latency and rate of one link, e.g. n1-n2=1ms,100Mbit.",
    ),
]
Down = Annotated[
    list[str] | None,
    typer.Option(
        "--down", metavar="A-B@S", help="Cut a link this long after COMMAND's start, e.g. n1-n2@5s."
    ),
]
Kill = Annotated[
    list[str] | None,
    typer.Option(
        "--kill",
        metavar="A@S",
        help="Kill a host's processes this long after COMMAND's start, e.g. n2@5s.",
    ),
]
Mtu = Annotated[
    int, typer.Option("--mtu", metavar="BYTES", help="Largest packet, in bytes: 1280 to 65000.")
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="S",
        min=1.0,
        help="Seconds that COMMAND may go on after the last loss.",
    ),
]
By = Annotated[
    Literal["tun", "tbf"],
    typer.Option(
        "--by", help="tun: a switch in user space; tbf: the kernel's rate limit, without latencies."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.json", help="File to write the figures to."),
]


def slownet(
    command: Command,
    hosts: Hosts = 2,
    latency: Latency = "0us",
    rate: Rate = "0",
    link: Links = None,
    down: Down = None,
    kill: Kill = None,
    patience: Patience = 60.0,
    mtu: Mtu = 9000,
    by: By = "tun",
    target: Output = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Run a command on virtual hosts that a slow network joins; needs no root."""
    from dlcontainer.cli.context import here
    from dlcontainer.lab.slownet import network, session
    from dlcontainer.system import report_files
    from dlcontainer.system.workspace import workspace

    network_options = network.NetworkOptions(
        hosts=hosts,
        latency=latency,
        rate=rate,
        links=tuple(link or ()),
        down=tuple(down or ()),
        kill=tuple(kill or ()),
        mtu=mtu,
        patience_s=patience,
        by=by,
    )
    settled = network.settled(network_options)
    if target is not None:
        report_files.require(target)
    console = output.Console(verbose=verbose, quiet=as_json)
    world = here()
    runner = console.runner(world.of_user, of_user=True)
    with (
        workspace(world.scratch, runner, console.note) as work,
        # With --json, stdout is one document.
        _streams(2 if as_json else 1) as streams,
    ):
        ran = session.run(settled, command, streams, work.resolve(), runner)
    body = {"command": command, **_body(settled, ran)}
    if target is not None:
        report_files.write(f"{output.document('slownet', body)}\n", target)
    if as_json:
        output.emit("slownet", body)
    else:
        _show(settled, ran, console)
    _refuse_late(ran, patience)
    if ran.code:
        raise typer.Exit(ran.code)


def _refuse_late(ran: "NetworkRun", patience: float) -> None:
    """Say that the command went on after a loss, and was ended."""
    from dlcontainer.errors import ChecksFailedError

    if ran.ended:
        raise ChecksFailedError(
            f"the command had not ended {patience:g} s after the loss of {ran.lost[-1]['what']}",
            why="it waited longer for the lost host, and was ended",
            next_step="lower the command's own time limit (for bench: --timeout), or raise "
            "--patience",
        )


@contextmanager
def _streams(out: int) -> "Iterator[Streams]":
    """Yield our own streams under numbers that the programs between do not use."""
    from dlcontainer.lab.slownet.session import Streams

    streams = Streams(out=os.dup(out), err=os.dup(2))
    try:
        yield streams
    finally:
        os.close(streams.out)
        os.close(streams.err)


def _body(settled: "VirtualNetwork", ran: "NetworkRun") -> dict[str, object]:
    links = []
    for link_trial in ran.links:
        link = settled.link(link_trial["begin"], link_trial["end"])
        direction = f"n{link_trial['begin'] + 1}-n{link_trial['end'] + 1}"
        links.append(
            {
                "way": direction,
                "asked": {"latency_s": link.latency_s, "bits_per_s": link.rate or None},
                "measured": {
                    "round_trip_s": link_trial["round_trip_s"],
                    "bits_per_s": link_trial["rate"],
                },
                **ran.directions[direction],
            }
        )
    return {
        "hosts": [host.name for host in settled.hosts],
        "by": settled.by,
        "mtu": settled.mtu,
        "ways": links,
        "lost": list(ran.lost),
        "image_mounts": {"most": dict(ran.mounts), "looks": ran.looks},
        "exit_code": ran.code,
        "ended": ran.ended,
    }


def _show(settled: "VirtualNetwork", ran: "NetworkRun", console: output.Console) -> None:
    """Say what the links were, on stderr: stdout is the command's."""
    for link_trial in ran.links:
        link = settled.link(link_trial["begin"], link_trial["end"])
        direction = f"n{link_trial['begin'] + 1}-n{link_trial['end'] + 1}"
        rate_text = f"{link.rate / 1e6:.4g}" if link.rate else "any"
        carried = ran.directions[direction]
        console.step(
            f"{direction}: round trip {1e6 * link_trial['round_trip_s']:.0f} us (latency "
            f"{1e6 * link.latency_s:.0f}), {link_trial['rate'] / 1e6:.4g} Mbit/s (asked "
            f"{rate_text}); "
            f"carried {carried['packets']} packets, {carried['bytes']} bytes, "
            f"lost {carried['lost']}"
        )
    for loss in ran.lost:
        console.step(f"lost: {loss['what']} after {loss['after_s']} s")
    mounts = ", ".join(f"{name} {most}" for name, most in sorted(ran.mounts.items()))
    console.step(f"most image mounts at a time: {mounts or 'not counted'}")
