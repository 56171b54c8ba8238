"""The options of every session's command (`bench import`, `bench train`, ...), as typed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, get_args

import typer

from dlcontainer.bench.probes.probe import NATIVE_AS, Values
from dlcontainer.bench.samples.vocabulary import TRIPLES, ArmName, Question
from dlcontainer.cli import options
from dlcontainer.cli.bench import rank_options
from dlcontainer.errors import UsageError

# The groups of a help page; ranks have their own.
SESSION, LAUNCH = "Session", "Each launch"
# Below, no session of a practical length decides; above, a margin says nothing.
LEAST_MARGIN, MOST_MARGIN = 0.001, 0.5

Image = Annotated[Path, typer.Option("--image", metavar="IMAGE", help="An image file (.sif).")]
Asked = Annotated[
    Question,
    typer.Option(
        "--question",
        help="overhead: the same software without and with a container; deployment: the "
        "site's own stack (--native) against the image, each as it is installed.",
        rich_help_panel=SESSION,
    ),
]
Looks = Annotated[
    str | None,
    typer.Option(
        "--looks",
        metavar="N,N,...",
        help="Numbers of pairs after which the session may end. Default: 8,16,32; with "
        "three arms, triples: 12,18,36.",
        rich_help_panel=SESSION,
    ),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        metavar="N",
        help="Run a quick session with one look, after N pairs (a verdict needs 8) or "
        "triples (12).",
        rich_help_panel=SESSION,
    ),
]
Resumed = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE.jsonl",
        help="Resume an interrupted session with its declared settings.",
    ),
]
OneLook = Annotated[
    bool,
    typer.Option(
        "--one-look-if-busy",
        help="If other processes use this machine when the session begins, measure only "
        "the pairs of the first look, without controls.",
        rich_help_panel=SESSION,
    ),
]
Controls = Annotated[
    str | None,
    typer.Option(
        "--controls",
        metavar="N[,M]",
        help="Number of control pairs: N native against native, M container against "
        "container. Default: as many as pairs, and 0.",
        rich_help_panel=SESSION,
    ),
]
Arms = Annotated[
    str | None,
    typer.Option(
        "--arms",
        metavar="ARM,ARM[,ARM]",
        help="Arms to compare: native, bare (the image's Python without an engine), "
        "unpacked, container. Default: native (unpacked where there is no native side) "
        "and container.",
        rich_help_panel=SESSION,
    ),
]
Margin = Annotated[
    str | None,
    typer.Option(
        "--margin",
        metavar="M",
        help="Largest difference that does not matter, declared in advance: 2% or 0.02. "
        "Default: the probe's own, mostly 2%. The report gives the smallest margin "
        "that this machine supports.",
        rich_help_panel=SESSION,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="K",
        help="Seed for the order of the launches. Default: a new one.",
        rich_help_panel=SESSION,
    ),
]
File = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.jsonl", help="File to write the samples to."),
]
NativeFolder = Annotated[
    Path | None,
    typer.Option(
        "--native",
        metavar="FOLDER",
        help="Python prefix of the native side. Default: the recipe's native twin.",
        rich_help_panel=LAUNCH,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="T",
        min=1,
        help="Threads on both sides. Default: all cores; in groups, the site's cores "
        "per rank, or 1.",
        rich_help_panel=LAUNCH,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="S",
        min=1.0,
        help="Time limit of a launch, in seconds.",
        rich_help_panel=LAUNCH,
    ),
]

Module = Annotated[
    str | None,
    typer.Option(
        "--module",
        metavar="NAME",
        help="Module that ranks import. Default: the recipe's first module.",
        rich_help_panel=LAUNCH,
    ),
]
RecipeOf = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="RECIPE", help="The recipe's name or file. Default: the image's own."
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """The options of a session's command as they were typed; None is what was not given.

    Each field is an option of every such command; `values` are those of the command's own probe.
    """

    site: options.Site
    image: Image
    question: Asked = "overhead"
    arms: Arms = None
    pairs: Pairs = None
    looks: Looks = None
    one_look_if_busy: OneLook = False
    controls: Controls = None
    margin: Margin = None
    seed: Seed = None
    target: File = None
    resume: Resumed = None
    native: NativeFolder = None
    values: Values = field(default_factory=dict)
    threads: Threads = None
    timeout: Timeout = 600.0
    ranks: rank_options.Ranks = None
    per_node: rank_options.PerNode = None
    nodes: rank_options.Nodes = None
    start: rank_options.Started = None
    launcher: rank_options.LauncherWords = None
    form: rank_options.FormName = None
    recipe: RecipeOf = None
    settings: options.Set = None
    as_json: options.Json = False
    verbose: options.Verbose = False

    def check(self) -> None:
        """Refuse what contradicts itself; raises UsageError."""
        check_pairs(self.pairs)
        if self.resume is not None and self.target is not None:
            raise UsageError("--resume takes no -o: a resumed session continues in its own file")
        self._check_native()

    def _check_native(self) -> None:
        names, shown_as = arms(self.arms), self.values.get(NATIVE_AS.name)
        if names and "native" not in names and shown_as is not None:
            raise UsageError(
                f"{NATIVE_AS.flag} {shown_as}: there is no native arm in --arms {self.arms}",
                next_step="leave one of them out",
            )
        if names and "native" not in names and self.native is not None:
            raise UsageError(
                f"--native {self.native}: there is no native arm in --arms {self.arms}",
                next_step="leave one of them out",
            )
        if self.native is None:
            if self.question == "deployment":
                raise UsageError(
                    "--question deployment requires the site's own stack",
                    next_step="name the folder that holds its bin/python: --native FOLDER",
                )
        elif not (self.native / "bin/python").is_file():
            raise UsageError(
                f"--native {self.native}: there is no bin/python in it",
                next_step="give the folder of a virtual environment or a Python installation",
            )


def check_pairs(pairs: int | None) -> None:
    """Refuse a session of no pair; raises UsageError."""
    if pairs is not None and pairs < 1:
        raise UsageError(
            f"--pairs {pairs}: must be at least 1", next_step="use --pairs 8: a verdict needs 8"
        )


def arms(text: str | None) -> tuple[ArmName, ...]:
    """Read the arms, in their own order; empty where none were given. Raises UsageError."""
    if text is None:
        return ()
    words = {word.strip() for word in text.split(",")}
    names = tuple(name for name in get_args(ArmName) if name in words)
    if len(names) < len(words) or len(words) < len(text.split(",")) or not 1 < len(words) < 4:
        raise UsageError(
            f"--arms {text}: must be two or three different arms of {', '.join(get_args(ArmName))}",
            next_step="use, for example, --arms native,unpacked,container",
        )
    if len(names) == 3 and names not in TRIPLES:
        raise UsageError(
            f"--arms {text}: these three arms can't be measured together",
            next_step="use one of: " + "; ".join(map(",".join, TRIPLES)),
        )
    return names


def margin(text: str | None, option: str = "--margin") -> float | None:
    """Read a margin, as a share or with a percent sign; None where none was given.

    Raises UsageError.
    """
    if text is None:
        return None
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not LEAST_MARGIN <= share <= MOST_MARGIN:
        raise UsageError(
            f"{option} {text}: must be a share from {100 * LEAST_MARGIN:g}% to "
            f"{100 * MOST_MARGIN:g}%",
            next_step=f"use, for example, {option} 5%",
        )
    # As it is typed, so that a session that goes on declares the same number.
    return round(share, 6)


def controls(text: str | None) -> tuple[int | None, int]:
    """Read the controls of reference (None: not given) and candidate. Raises UsageError."""
    if text is None:
        return None, 0
    words = [word.strip() for word in text.split(",")]
    if len(words) > 2 or not all(word.isdecimal() and len(word) < 7 for word in words):
        raise UsageError(
            f"--controls {text}: must be one or two numbers, 0 or more",
            next_step="give pairs of native against native, then of container against "
            "container: --controls 8,8",
        )
    counts = [int(word) for word in words]
    return counts[0], counts[1] if len(counts) > 1 else 0
