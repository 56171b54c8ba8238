"""`dlcontainer setup engine`: Apptainer in the user's own folder, without root."""

import contextlib
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dlcontainer.engine_setup.set_up import UsableEngine
    from dlcontainer.engine_setup.user_prefix import UserPrefix


def engine(
    prefix: Annotated[
        Path | None,
        typer.Option(
            "--prefix",
            metavar="DIR",
            help="Folder for the engine. Default: dlcontainer/engine in your data folder "
            "($XDG_DATA_HOME, else ~/.local/share).",
        ),
    ] = None,
    agree: Annotated[
        bool | None,
        typer.Option(
            "--yes/--no",
            help="As root: install packages of the distribution, and append to /etc/subuid and "
            "/etc/subgid; --no leaves the system as it is. Default: ask.",
        ),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Fetch the newest again, also if one is there.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the engine and its programs.")
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Set up Apptainer and the programs that it needs in a folder of your own, without root.

    Programs on PATH are used as they are; all others come from the package mirrors of this host
    (Debian, Ubuntu), about 45 MB, with their signatures checked. On other hosts the ways to an
    engine are listed. All commands find the engine afterwards.
    """
    from dlcontainer.cli.context import here
    from dlcontainer.engine_setup import user_prefix
    from dlcontainer.engine_setup.surroundings import Session, begun
    from dlcontainer.errors import UsageError

    if remove and (upgrade or agree is not None):
        raise UsageError("--remove takes no --upgrade, --yes or --no", next_step="leave these out")
    console = output.Console(verbose=verbose, quiet=as_json)
    teller = _ConsoleTeller(console=console)
    session = Session(
        environ=here().environ,
        teller=teller,
        elsewhere="choose another folder with --prefix",
    )
    with begun(session), user_prefix.written_by_one(), console.beating():
        place = user_prefix.locate(prefix)
        if remove:
            was_set_up = user_prefix.take_away(place)
        else:
            result = _made(place, console, agree, newest=upgrade)
    if remove:
        _say_removed(place, was_set_up=was_set_up, as_json=as_json)
    else:
        _say_result(place, result, teller, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ConsoleTeller:
    """What the set-up tells, as progress of a command."""

    console: output.Console
    notes: list[str] = field(default_factory=list)

    def step(self, title: str) -> None:
        self.console.step(title)

    def say(self, text: str) -> None:
        self.console.phase(text)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            self.console.note(text)

    def tool(self, line: str) -> None:
        self.console.line(line)

    @contextlib.contextmanager
    def waiting(self, what: str) -> "Iterator[None]":
        self.console.phase(what)
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class _SetupResult:
    engine: "UsableEngine"
    changes: "Sequence[str]"


def _made(
    place: "UserPrefix", console: output.Console, agree: bool | None, *, newest: bool
) -> _SetupResult:
    from dlcontainer.engine_setup import set_up, user_prefix

    plan = set_up.SetupPlan(prefix=place.prefix, bin=place.links, newest=newest)
    console.expect(len(set_up.TITLES))
    changes = _agreed(set_up.system_changes(plan), agree) if os.geteuid() == 0 else []
    if changes:
        plan = replace(plan, as_root=list)
    user_prefix.prepare(place)
    try:
        engine = set_up.ensure_engine(plan)
    finally:
        user_prefix.show(place)
    return _SetupResult(engine=engine, changes=changes)


def _agreed(changes: "Sequence[str]", agree: bool | None) -> "Sequence[str]":
    """Return the changes of this system that may be made: all, or none."""
    from dlcontainer.errors import UsageError

    if not changes or agree is not None:
        return changes if agree else []
    listed = "".join(f"\n    {change}" for change in changes)
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f"As root this changes the system:{listed}\nChange it? (no: unpack privately)"
        return changes if output.is_agreed(question) else []
    raise UsageError(
        f"as root this changes the system:{listed}",
        why="without a terminal dlcontainer cannot ask for your consent",
        next_step="type it with --yes to allow these changes, or with --no to leave the system as "
        "it is and unpack everything privately",
    )


def _say_result(
    place: "UserPrefix", result: _SetupResult, teller: _ConsoleTeller, *, as_json: bool
) -> None:
    engine = result.engine
    if as_json:
        body = {
            "program": str(engine.program),
            "version": engine.version,
            "private": engine.private,
            "prefix": str(place.prefix) if place.is_set_up else None,
            "system_changes": list(result.changes),
            "notes": teller.notes,
        }
        output.emit("setup-engine", body)
        return
    output.copied(str(engine.program), before=f"{engine.version}: ")
    if place.is_set_up:
        output.copied(str(place.prefix), before="private programs are in ")
    output.say("next: dlcontainer doctor")


def _say_removed(place: "UserPrefix", *, was_set_up: bool, as_json: bool) -> None:
    if as_json:
        output.emit("setup-engine-removed", {"prefix": str(place.prefix), "removed": was_set_up})
    elif was_set_up:
        output.copied(str(place.prefix), before="removed the engine in ")
    else:
        output.copied(str(place.prefix), before="no engine is set up in ")
