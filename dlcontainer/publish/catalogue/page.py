"""The modules of a generation, with the facts of their releases -> catalogue.html and its JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.config.templating import render_page
from dlcontainer.proof.reach import NOT_SHOWN
from dlcontainer.publish.catalogue import facts
from dlcontainer.publish.catalogue.facts import PublishedCheck, ReleaseFacts
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree.generation import Generation, GenerationEntry, NumberedRelease
from dlcontainer.publish.tree.layout import KINDS, MODULES, RELEASES
from dlcontainer.system.process import quote

HTML, JSON = "catalogue.html", "catalogue.json"
_MB = 1_000_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
SCHEMA = "dlcontainer/catalogue/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class CataloguePage:
    """A module that is live, and the facts of its release: of `release`, else of the newest.

    `older` has the pages of those that it took the place of, the newest first.
    """

    entry: GenerationEntry
    facts: ReleaseFacts
    release: NumberedRelease | None = None
    older: tuple["CataloguePage", ...] = ()

    @property
    def module(self) -> str:
        """The name that loads it."""
        return self.entry.named(self.release) if self.release else self.entry.module

    @property
    def shown(self) -> NumberedRelease:
        """The release that it is of."""
        return self.release or self.entry.newest

    @property
    def pages(self) -> tuple["CataloguePage", ...]:
        """This one, and those of the older releases."""
        return (self, *self.older)

    @property
    def loads(self) -> tuple[str, ...]:
        """The lines that load it, the plainest first."""
        if self.release is not None:
            return (f"module load {self.module}",)
        name = self.entry.name
        names = [*([name] if self.entry.default else []), self.entry.module]
        aliases = (f"{name}/{alias}" for alias in self.entry.aliases)
        newest = self.entry.newest
        releases = (
            f"{name}/{version}" for version, release in self.entry.loadable if release == newest
        )
        loads = dict.fromkeys((*names, *releases, *aliases))
        return tuple(f"module load {name}" for name in loads)

    @property
    def checks(self) -> str:
        """The checks in a few words."""
        states = [check.state for check in self.facts.checks]
        counts = [f"{states.count('ok')} passed"]
        counts += [
            f"{states.count(state)} {state}" for state in ("not tried", "failed") if state in states
        ]
        return ", ".join(counts) if states else "not known"

    @property
    def day(self) -> str:
        """The day of the checks, which publishing makes."""
        day = self.facts.checked[:10]
        return day if _DAY.fullmatch(day) else "not known"

    @property
    def other_checks(self) -> tuple[PublishedCheck, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.facts.checks if check.state != "ok")

    @property
    def reached(self) -> str:
        """The last stage of the way that a file shows for this site."""
        shown = [line for line in self.facts.reached if not line.startswith("not counted")]
        stages = [line.partition(":")[0] for line in shown if not line.endswith(NOT_SHOWN)]
        return stages[-1] if stages else "no proof was given"

    @property
    def size(self) -> str:
        """The image's size for people."""
        size = self.facts.size
        if size is None:
            return "not known"
        return f"{size / 1e6:,.0f} MB".replace(",", " ") if size >= _MB else "under 1 MB"


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    """All that is live in a tree; `base` is the address of its releases in links."""

    root: Path
    generation: Generation
    modules: tuple[CataloguePage, ...]
    base: str = f"../{RELEASES}/"
    version: str = __version__

    @property
    def uses(self) -> Mapping[str, str]:
        """The line that makes the modules visible, by module system."""
        return {
            system: quote(["module", "use", str(self.root / MODULES / kind)])
            for system, kind in zip(("Lmod", "Environment Modules"), KINDS, strict=True)
        }


def of(root: Path, generation: Generation, releases: Folder) -> Catalogue:
    """Read the facts of all that is live."""
    return Catalogue(
        root=root,
        generation=generation,
        modules=tuple(
            CataloguePage(
                entry=entry,
                facts=facts.of(releases, entry.digest),
                older=tuple(
                    CataloguePage(
                        entry=entry, facts=facts.of(releases, release.digest), release=release
                    )
                    for release in entry.older
                ),
            )
            for entry in generation.entries
        ),
    )


def html(catalogue: Catalogue, templates: Iterable[Path]) -> bytes:
    """Set a catalogue as one self-contained page: no script, nothing fetched."""
    text = render_page(list(templates), "catalogue/page.html.j2", {"page": catalogue})
    return text.encode("utf-8", "backslashreplace")


def body(catalogue: Catalogue) -> dict[str, object]:
    """Return a catalogue for programs."""
    now = catalogue.generation
    return {
        "root": str(catalogue.root),
        "generation": now.number,
        "time": now.time,
        "use": dict(catalogue.uses),
        "modules": [dict(_module(catalogue.root, module)) for module in catalogue.modules],
    }


def as_json(catalogue: Catalogue) -> bytes:
    """Write a catalogue as JSON."""
    return (json.dumps({"schema": SCHEMA, **body(catalogue)}, indent=1) + "\n").encode()


def _module(root: Path, module: CataloguePage) -> Iterator[tuple[str, object]]:
    entry = module.entry
    yield "module", entry.module
    yield "name", entry.name
    yield "version", entry.version
    yield "default", entry.default
    yield "aliases", list(entry.aliases)
    warned = entry.deprecated
    yield "deprecated", asdict(warned) if warned else None
    yield "number", entry.newest.number
    yield "older", [dict(_older(root, page)) for page in module.older]
    yield "release", entry.digest
    yield "folder", str(root / RELEASES / entry.digest)
    yield "load", list(module.loads)
    yield from asdict(module.facts).items()


def _older(root: Path, page: CataloguePage) -> Iterator[tuple[str, object]]:
    yield from asdict(page.shown).items()
    yield "module", page.module
    yield "folder", str(root / RELEASES / page.shown.digest)
    yield "load", list(page.loads)
    yield "facts", asdict(page.facts)
