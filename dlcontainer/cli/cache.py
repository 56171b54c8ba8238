"""`dlcontainer cache`: what builds keep, and making room."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.stepcache import StepCache
    from dlcontainer.workbench import Kept

app = typer.Typer(
    help="The cache: what builds keep of their steps.", rich_markup_mode=None, no_args_is_help=True
)

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@app.command("list")
def list_(as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """List the kept steps, the last used first."""
    cache = _cache()
    entries = cache.entries()
    if as_json:
        output.emit("cache", {"folder": str(cache.folder), "entries": [_body(e) for e in entries]})
        return
    rows = [(e.key[:12], e.name, _size(e.size), e.made, e.maker) for e in entries]
    output.say(output.table(rows, head=("key", "step", "size", "made", "maker")))
    output.say(f"{_size(sum(e.size for e in entries))} in {cache.folder}")


@app.command("prune")
def prune(
    max_size: Annotated[
        str,
        typer.Option("--max-size", metavar="SIZE", help="What may stay: 500M, 20G; 0 for nothing."),
    ],
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Remove what was used longest ago until the rest fits."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", max_size.strip().upper())
    if match is None:
        raise UsageError(f"--max-size: not a size: {max_size!r}", next_step="500M, 20G, 0")
    cache = _cache()
    gone = cache.prune(int(float(match[1]) * _UNITS[match[2]]))
    if as_json:
        output.emit("cache-prune", {"removed": [_body(e) for e in gone]})
        return
    output.say(f"removed {len(gone)} kept steps, {_size(sum(e.size for e in gone))}")


def _cache() -> "StepCache":
    from dlcontainer.cli.world import here
    from dlcontainer.stepcache import StepCache

    console = output.Console()
    return StepCache(folder=here().cache / "steps", builders=(), on_note=console.note)


def _size(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _body(kept: "Kept") -> dict[str, object]:
    return {
        "key": kept.key,
        "step": kept.name,
        "size": kept.size,
        "made": kept.made,
        "maker": kept.maker,
    }
