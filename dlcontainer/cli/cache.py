"""`dlcontainer cache`: what builds keep, of every kind, and making room."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.app import App
from dlcontainer.errors import EngineError, UsageError

if TYPE_CHECKING:
    from dlcontainer.build.cache.oci_layers import OciStore
    from dlcontainer.build.cache.stores import CacheEntry, Store
    from dlcontainer.cli.context import CliContext

app = App(
    help="The cache: steps (also in the engines' stores), bases, locked packages, native twins."
)

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only this kind: steps, docker, podman, bases, locked, twins, notes; may be repeated.",
    ),
]


@app.command("list")
def list_(
    kind: Kinds = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """List the cache, last used first; with --site, the steps that the site's users share.

    With -v also the key of each.
    """
    from dlcontainer.build.cache import stores

    world = _world()
    chosen = _stores(world, kind, site)
    entries = stores.entries(chosen)
    if as_json:
        places = {store.kind: store.place for store in chosen}
        body = {"folder": str(world.cache), "places": places}
        output.emit("cache", {**body, "entries": [_body(entry) for entry in entries]})
        return
    head = ("kind", "name", "size", "used", "maker", *(["key"] if verbose else []))
    rows = [
        (kept.kind, kept.name, _size(kept.size), stores.shown(kept.used), kept.maker, kept.key[:24])
        for kept in entries
    ]
    output.say(output.table([row[: len(head)] for row in rows], head=head))
    for store in chosen:
        total = sum(kept.size for kept in entries if kept.kind == store.kind)
        output.copied(store.place, before=f"{_size(total)} of {store.kind} in ")


@app.command("prune")
def prune(
    max_size: Annotated[
        str,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Largest total size to keep, e.g. 500M or 20G; 0 keeps nothing.",
        ),
    ],
    kind: Kinds = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Remove the least recently used entries until the rest fits; a running build keeps its own."""
    from dlcontainer.build.cache import stores

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", max_size.strip().upper())
    if match is None:
        raise UsageError(
            f"--max-size: not a size: {max_size!r}", next_step="give, for example, 500M, 20G or 0"
        )
    world, console = _world(), output.Console(events=as_json)
    most = int(float(match[1]) * _UNITS[match[2]])
    gone = stores.prune(_stores(world, kind, site), most, world.cache, console.note)
    if as_json:
        output.emit("cache-prune", {"removed": [_body(entry) for entry in gone]})
        return
    for entry in gone:
        output.say(f"{entry.kind} {entry.key[:24]} {entry.name}: {_size(entry.size)}")
    output.say(f"removed {len(gone)}, {_size(sum(entry.size for entry in gone))}")


def _world() -> "CliContext":
    from dlcontainer.cli.context import here

    return here()


def _stores(world: "CliContext", kinds: list[str] | None, site: str | None) -> "list[Store]":
    from dlcontainer.build.cache import stores
    from dlcontainer.build.cache.step_cache import StepCache
    from dlcontainer.config.suggestions import suggest

    for name in kinds or ():
        if name not in stores.KINDS:
            raise UsageError(
                f"--kind: no kind {name!r}{suggest(name, stores.KINDS)}",
                next_step=f"use one of: {', '.join(stores.KINDS)}",
            )
    shared = world.site(site).value.engine.cache if site else None
    steps = StepCache(
        folder=Path(shared) if shared else world.cache / "steps",
        builders=(),
        on_note=output.Console().note,
    )
    every_store = stores.of_cache(world.cache, steps, _engines(world, kinds))
    return [store for store in every_store if not kinds or store.kind in kinds]


def _engines(world: "CliContext", kinds: list[str] | None) -> "list[OciStore]":
    """Return the stores of the engines that answer; say of one that is here and does not."""
    from dlcontainer.build.cache.oci_layers import OciStore
    from dlcontainer.config.field_types import ARCHES
    from dlcontainer.engines import oci_socket
    from dlcontainer.engines.oci import OCI_KINDS
    from dlcontainer.system.machine import find_program

    arch = next((arch for arch in ARCHES if arch == world.host.arch), ARCHES[0])
    engine_stores = []
    for kind in OCI_KINDS:
        if kinds and kind not in kinds:
            continue
        try:
            client = oci_socket.connect(kind, world.environ, world.host.uid)
        except EngineError as error:
            if kinds or find_program(kind, world.environ):
                output.Console().note(f"{kind}'s store is left out: {error.what}")
            continue
        engine_stores.append(OciStore(client=client, arch=arch))
    return engine_stores


def _size(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _body(entry: "CacheEntry") -> dict[str, object]:
    from dlcontainer.build.cache import stores

    return {
        "kind": entry.kind,
        "key": entry.key,
        "name": entry.name,
        "size": entry.size,
        "used": stores.shown(entry.used),
        "maker": entry.maker,
    }
