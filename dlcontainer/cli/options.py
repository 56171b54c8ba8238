"""Options that several commands share: one spelling, one help text."""

from pathlib import Path
from typing import Annotated

import typer

Recipe = Annotated[
    str | None,
    typer.Argument(
        metavar="[RECIPE]", help="A recipe's name or its file; without it the site's default."
    ),
]
Site = Annotated[
    str, typer.Option("--site", "-s", metavar="SITE", help="A site's name or its file.")
]
OptionalSite = Annotated[
    str | None, typer.Option("--site", "-s", metavar="SITE", help="A site's name or its file.")
]
NodeType = Annotated[
    str | None,
    typer.Option("--node-type", metavar="NAME", help="One of the site's node types; else usual."),
]
Epoch = Annotated[
    str | None,
    typer.Option("--epoch", metavar="NAME", help="One of the site's software epochs; else usual."),
]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="A variant of the recipe, or its kind (vendor, distro); else the first that fits.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override one value, e.g. environment.OMP_NUM_THREADS=4."
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON of a versioned schema, and nothing else.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show the tools' own output and commands.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where the image goes.")
]
Tmpdir = Annotated[
    Path | None,
    typer.Option("--tmpdir", metavar="DIR", help="Where the tree is unpacked while building."),
]
