"""`dlcontainer site outdated`: how old a site's sources are, and what changed in them since."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import completion, options, output, wrong_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.sites.citations import Citation
    from dlcontainer.sites.clones import ChangedFile, Clone
    from dlcontainer.sites.site import Site

# Of a changed file; -v has all.
_SHOWN = 12
State = Literal["changed", "as it was read", "not in HEAD's history", "not in a clone", "a page"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceAge:
    """A source, the day that it is of, and what its clone says."""

    cited: "Citation"
    day: datetime.date | None
    state: State
    files: "tuple[ChangedFile, ...]" = ()

    def age_days(self, today: datetime.date) -> int | None:
        """Return how old it is; None where neither its text nor a clone says its day."""
        return (today - self.day).days if self.day else None


def outdated(
    site: Annotated[
        str | None,
        typer.Argument(
            metavar="[SITE]",
            help="A site's name or file. Default: all that are in use.",
            autocompletion=completion.sites,
        ),
    ] = None,
    clone: Annotated[
        list[Path] | None,
        typer.Option(
            "--clone",
            metavar="FOLDER",
            readable=False,
            help="A clone of a repository that a source names, as new as you want to compare with. "
            "Can be given several times.",
        ),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show how old a site's sources are, and what changed in them since, by clones you give.

    Nothing is fetched.
    """
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ConfigError
    from dlcontainer.sites.clones import Clone

    world, today = here(), datetime.date.today()
    clones = [Clone(folder=folder, environ=world.of_user) for folder in clone or []]
    for copy in clones:
        copy.require()
    wrong: list[ConfigError] = []
    cited: dict[str, tuple[Citation, ...]] = {}
    for name in [site] if site is not None else world.resources.names("site-configs"):
        try:
            usual = world.site(name).value
            if site is not None or usual.status == "active":
                cited[usual.name] = _sources(world, name, usual)
        except ConfigError as error:
            wrong.append(error)
    _require_cited(clones, cited)
    ages = {name: [_age(source, clones) for source in sources] for name, sources in cited.items()}
    if as_json:
        sites = [
            {"name": name, "sources": [_plain(age, today) for age in aged]}
            for name, aged in ages.items()
        ]
        errors = [str(error) for error in wrong]
        body = {"today": today.isoformat(), "sites": sites, "errors": errors}
        output.emit("site-outdated", body)
    else:
        _say_all(ages, today, every=verbose)
        if not clones:
            output.say("\nto see what changed: clone a repository, and give its folder by --clone")
    wrong_files.raise_all(wrong)


def _say_all(
    ages: "Mapping[str, Sequence[SourceAge]]", today: datetime.date, *, every: bool
) -> None:
    for number, (name, aged) in enumerate(ages.items()):
        title = f"{name}: {_summary(aged, today)}"
        output.title(f"\n{title}" if number else title)
        _say(aged, today, every=every)


def _sources(world: "CliContext", name: str, usual: "Site") -> "tuple[Citation, ...]":
    """Read the sources of all epochs and node types."""
    from dlcontainer.sites import citations
    from dlcontainer.sites.site import targets

    merged: dict[str, str] = {}
    for target in targets(usual):
        merged |= world.site(name, target).value.sources
    return citations.all_of(merged)


def _require_cited(clones: "Sequence[Clone]", cited: "Mapping[str, Sequence[Citation]]") -> None:
    """Refuse a clone that holds no commit that was read."""
    from dlcontainer.errors import UsageError

    every = [source for sources in cited.values() for source in sources if source.repository]
    for clone in clones:
        if not any(clone.has(source.commit) for source in every):
            names = ", ".join(sorted({source.repository for source in every})) or "none"
            raise UsageError(
                f"--clone {clone.folder}: no commit that a source names is in it",
                why=f"cited are: {names}",
                next_step="give a clone of one of these, whole: git fetch --unshallow",
            )


def _age(cited: "Citation", clones: "Sequence[Clone]") -> SourceAge:
    if not cited.repository:
        return SourceAge(cited=cited, day=cited.day, state="a page")
    clone = next((copy for copy in clones if copy.has(cited.commit)), None)
    if clone is None:
        return SourceAge(cited=cited, day=cited.day, state="not in a clone")
    # A text may say that a later commit has the same.
    day = max(filter(None, (clone.day(cited.commit), cited.day)), default=None)
    if not clone.leads_to(cited.commit):
        return SourceAge(cited=cited, day=day, state="not in HEAD's history")
    files = clone.changed(cited)
    state: State = "changed" if files else "as it was read"
    return SourceAge(cited=cited, day=day, state=state, files=files)


def _plain(age: SourceAge, today: datetime.date) -> dict[str, object]:
    return {
        "name": age.cited.name,
        "source": age.cited.text,
        "repository": age.cited.repository or None,
        "commit": age.cited.commit or None,
        "day": age.day.isoformat() if age.day else None,
        "age_days": age.age_days(today),
        "state": age.state,
        "files": [
            {
                "path": file.path,
                "commit": file.commit,
                "day": file.day.isoformat(),
                "lines": list(file.lines),
            }
            for file in age.files
        ],
    }


def _summary(ages: "Sequence[SourceAge]", today: datetime.date) -> str:
    from dlcontainer.sites.citations import OLD_DAYS

    changed = sum(age.state == "changed" for age in ages)
    days = [age.age_days(today) for age in ages]
    old = sum(day is not None and day > OLD_DAYS for day in days)
    unknown = sum(day is None for day in days)
    parts = ["1 source" if len(ages) == 1 else f"{len(ages)} sources"]
    parts += [f"{changed} changed since"] if changed else []
    parts += [f"{old} over a year old"] if old else []
    parts += [f"{unknown} of an unknown day"] if unknown else []
    return ", ".join(parts)


def _say(ages: "Sequence[SourceAge]", today: datetime.date, *, every: bool) -> None:
    rows = [
        (age.cited.name, age.day or "-", _long(age.age_days(today)), age.state, age.cited.text)
        for age in ages
    ]
    output.say(output.table(rows, head=("source", "of", "age", "now", "what was read")))
    for age in ages:
        for file in age.files:
            output.title(
                f"\n{age.cited.name}: {file.path} changed, last by {file.commit} of {file.day}"
            )
            shown = file.lines if every else file.lines[:_SHOWN]
            output.say("\n".join(f"  {line}" for line in shown))
            if len(shown) < len(file.lines):
                output.say(f"  ... {len(file.lines) - len(shown)} more lines (-v)")


def _long(days: int | None) -> str:
    if days is None:
        return "-"
    years, rest = divmod(max(days, 0), 365)
    return f"{years} y {rest // 30} mo" if years else f"{rest} d"
