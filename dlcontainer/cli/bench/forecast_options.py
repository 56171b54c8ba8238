"""What `bench forecast` takes, as it is typed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import completion

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
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="TRACE.json",
        help="A trace of `bench trace`: bytes of gradients, their messages, what computing hides.",
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
        help="Write the forecast, frozen by its digest, for --held-out.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastWords:
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
    trace: Path | None
    held_out: Path | None
    target: Path | None
    site: str | None
