"""A generation: which modules are live, as a value and as a folder of links.

All that users meet is in the folder before it is switched to. A link leads to a release; the
modulefile of a deprecated version is the release's text with a warning after it.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from dlcontainer.errors import PublishError
from dlcontainer.publish import modulefiles
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree.layout import KINDS, MODULES, RELEASES, PublishedTree
from dlcontainer.system import foreign_files

FILE = "generation.json"
_SCHEMA = "dlcontainer/generation/1"
_MOST_BYTES = 16_000_000
_PART = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,199}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RC = {"lmod": ".modulerc.lua", "tcl": ".modulerc"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Deprecation:
    """A warning on loading a version; `removal` is a date."""

    message: str
    removal: str | None = None

    def __post_init__(self) -> None:
        """Refuse a message of several lines, and a date that is none."""
        if not self.message.isprintable() or not 0 < len(self.message) <= 500:
            raise PublishError(
                f"{self.message[:80]!r} is not a valid message",
                why="a message is one line of 1 to 500 characters",
                next_step="give another text: --message TEXT",
            )
        if self.removal is not None:
            try:
                date.fromisoformat(self.removal)
            except ValueError:
                raise PublishError(
                    f"{self.removal[:80]!r} is not a date", next_step="give --removal YYYY-MM-DD"
                ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationEntry:
    """One module that users see, and the release that it is."""

    name: str
    version: str
    digest: str
    default: bool = False
    aliases: tuple[str, ...] = ()
    deprecated: Deprecation | None = None

    def __post_init__(self) -> None:
        """Refuse what could lead elsewhere: each name becomes one part of a path."""
        for part in (self.name, self.version, *self.aliases):
            if not _PART.fullmatch(part):
                raise PublishError(
                    f"{part[:80]!r} is not a valid name of a module, version or alias",
                    why="a name has letters, digits and . + _ -, and begins with a letter or digit",
                )
        if not _DIGEST.fullmatch(self.digest):
            raise PublishError(f"not a digest: {self.digest[:80]!r}")

    @property
    def module(self) -> str:
        """NAME/VERSION, as users load it."""
        return f"{self.name}/{self.version}"

    @property
    def marks(self) -> str:
        """Default, aliases and deprecation in a few words."""
        marks = [*(["default"] if self.default else []), *self.aliases]
        if self.deprecated:
            removal = self.deprecated.removal
            marks.append(f"deprecated, to go on {removal}" if removal else "deprecated")
        return ", ".join(marks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """All modules that are live together; number 0 is the empty tree before the first."""

    number: int = 0
    base: int = 0
    what: str = ""
    who: str = ""
    time: str = ""
    entries: tuple[GenerationEntry, ...] = ()

    def entry(self, module: str) -> GenerationEntry:
        """Return the entry of NAME/VERSION; raises PublishError where it is not published."""
        for entry in self.entries:
            if entry.module == module:
                return entry
        name = module.partition("/")[0]
        versions = [entry.version for entry in self.entries if entry.name == name]
        raise PublishError(
            f"{module} is not published in generation {self.number}",
            why=f"published versions of {name}: {', '.join(versions)}" if versions else None,
            next_step="list the published modules: dlcontainer modules list",
        )

    def having(self, *entries: GenerationEntry) -> "Generation":
        """Add entries, or put them in the place of those of the same module."""
        merged = {entry.module: entry for entry in (*self.entries, *entries)}
        return replace(self, entries=tuple(merged[module] for module in sorted(merged)))

    def without(self, module: str) -> "Generation":
        """Leave a module out, with its aliases."""
        gone = self.entry(module)
        return replace(self, entries=tuple(entry for entry in self.entries if entry != gone))


def read(generations: Folder, number: int) -> Generation:
    """Read a generation; raises PublishError for one that is missing or damaged."""
    path = generations.path / str(number) / FILE
    try:
        with generations.sub(str(number)) as folder, folder.open(FILE) as file:
            body = foreign_files.loads(foreign_files.content(file, _MOST_BYTES))
        read_back = _parsed(body)
    except FileNotFoundError:
        raise PublishError(
            f"there is no generation {number}",
            where=str(path),
            next_step="list the generations: dlcontainer modules history",
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PublishError(f"{path} is damaged: {error}") from None
    if read_back.number != number:
        raise PublishError(f"{path} is damaged: it describes generation {read_back.number}")
    return read_back


def _parsed(body: Mapping[str, Any]) -> Generation:
    if body["schema"] != _SCHEMA:
        raise ValueError(f"its schema is {body['schema']!r}, not {_SCHEMA}")
    entries = tuple(_entry(entry) for entry in body["entries"])
    if len({entry.module for entry in entries}) != len(entries):
        raise ValueError("a module is listed twice")
    number, base = body["number"], body["base"]
    if type(number) is not int or type(base) is not int:
        raise TypeError("its number or its base is not a whole number")
    texts = {key: str(body[key]) for key in ("what", "who", "time")}
    return Generation(number=number, base=base, entries=entries, **texts)


def _entry(body: Mapping[str, Any]) -> GenerationEntry:
    warned = body["deprecated"]
    if type(body["default"]) is not bool:
        raise TypeError("default is neither true nor false")
    return GenerationEntry(
        name=body["name"],
        version=body["version"],
        digest=body["digest"],
        default=body["default"],
        aliases=tuple(body["aliases"]),
        deprecated=None if warned is None else Deprecation(**warned),
    )


def stage(generation: Generation, tree: PublishedTree, staged: Folder) -> None:
    """Write a generation's folder: its own file, and what users see of each module."""
    body = {"schema": _SCHEMA, **asdict(generation)}
    staged.write(FILE, (json.dumps(body, indent=1) + "\n").encode())
    with staged.make(MODULES) as modules:
        for kind in KINDS:
            with modules.make(kind) as folder:
                for name in sorted({entry.name for entry in generation.entries}):
                    of_name = [entry for entry in generation.entries if entry.name == name]
                    with folder.make(name) as module:
                        _stage_module(kind, of_name, tree, module)


def _stage_module(
    kind: str, entries: Iterable[GenerationEntry], tree: PublishedTree, module: Folder
) -> None:
    entries = list(entries)
    for entry in entries:
        name = seen_as(kind, entry)
        if entry.deprecated is None:
            os.symlink(link_of(kind, entry), name, dir_fd=module.number)
            tree.ownership.give_link(name, module)
        else:
            module.write(name, warned_text(tree.releases, kind, entry))
    text = rc_text(kind, entries)
    if text:
        module.write(_RC[kind], text)


def seen_as(kind: str, entry: GenerationEntry) -> str:
    """Name a version's file in a module tree."""
    return f"{entry.version}{KINDS[kind][0]}"


def expected(kind: str, entries: Iterable[GenerationEntry]) -> set[str]:
    """Name all files of one module in a module tree."""
    entries = list(entries)
    names = {seen_as(kind, entry) for entry in entries}
    return names | ({_RC[kind]} if rc_text(kind, entries) else set())


def link_of(kind: str, entry: GenerationEntry) -> str:
    """Write the link of a version; from generations/N/modules/KIND/NAME the root is five up."""
    return f"../../../../../{RELEASES}/{entry.digest}/{KINDS[kind][1]}"


def warned_text(releases: Folder, kind: str, entry: GenerationEntry) -> bytes:
    """Write the modulefile of a deprecated version: the release's own, and the warning."""
    with releases.sub(entry.digest) as release, release.open(KINDS[kind][1]) as file:
        text = foreign_files.content(file, _MOST_BYTES)
    warned = entry.deprecated
    if warned is None:
        return text
    when = f" and will be removed on {warned.removal}" if warned.removal else ""
    says = f"{entry.module} is deprecated{when}: {warned.message}"
    if kind == "lmod":
        nag = f'if (mode() == "load") then\n   LmodMessage({modulefiles.lua(says)})\nend\n'
    else:
        nag = f"if {{[module-info mode load]}} {{\n    puts stderr {modulefiles.tcl(says)}\n}}\n"
    return text.rstrip(b"\n") + b"\n\n" + nag.encode()


def rc_text(kind: str, entries: Iterable[GenerationEntry]) -> bytes:
    """Write default and aliases of one module, for Lmod's Lua or for Tcl; empty for none."""
    lines = []
    for entry in entries:
        for alias in (*(("default",) if entry.default else ()), *entry.aliases):
            if kind == "lmod":
                lines.append(f'module_version("{entry.module}", "{alias}")')
            else:
                lines.append(f"module-version {entry.module} {alias}")
    if not lines:
        return b""
    return "\n".join([*([] if kind == "lmod" else ["#%Module1.0"]), *lines, ""]).encode()
