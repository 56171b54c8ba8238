"""pyproject.toml: what a project needs, without running or asking its build backend.

Sources: packaging.python.org, "pyproject.toml specification" and "Dependency Groups" (PEP 735);
uv's documentation, "Managing dependencies".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers import requirement_words
from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.faults import INDEX_NEXT, RELEASE_NEXT
from dlcontainer.authoring.readers.toml_requirements import LIST_NEXT, AskedBy, TomlRequirements
from dlcontainer.authoring.readers.toml_text import TomlText
from dlcontainer.config.document import KeyPath
from dlcontainer.config.suggestions import cut

_LIST: KeyPath = ("project", "dependencies")
_EXTRAS: KeyPath = ("project", "optional-dependencies")
_LIST_NEXT = "write [project].dependencies: a list of requirements (PEP 621)"
_POETRY_NEXT = f"{_LIST_NEXT}, or give what `poetry export -f requirements.txt` writes"
# What names an index, or a folder, for all packages.
_INDEXES = (
    *(f"uv {key}" for key in ("index-url", "extra-index-url", "find-links", "no-index")),
    *(f"uv pip {key}" for key in ("index-url", "extra-index-url", "find-links", "no-index")),
    *("pdm source", "poetry source"),
)
# The recipe's variant brings these from its own upstream, whatever index the file names.
_OF_VARIANT = frozenset(
    {
        *("torch", "torchvision", "torchaudio", "triton", "pytorch-triton"),
        *("tensorflow", "jax", "jaxlib"),
    }
)
# What a table of uv or Poetry names beside a version.
_KINDS = {
    "git": "git",
    "path": "a path",
    "file": "a path",
    "url": "an address",
    "workspace": "the workspace",
    "index": "an index of its own",
    "source": "an index of its own",
}
_DEEPEST = 10


@dataclass(kw_only=True, slots=True)
class PyprojectReader:
    """Reads one project into a draft."""

    of: TomlRequirements
    _read: set[str] = field(default_factory=set)

    @property
    def project(self) -> dict[str, Any]:
        """The table [project]; empty where there is none."""
        return self.of.table("project")

    def read(self, groups: Sequence[str], extras: Sequence[str]) -> None:
        """Take the dependencies, and the extras and groups that were asked for."""
        self._refuse_indexes()
        if not self._is_static(groups):
            return
        self.of.python(self.project.get("requires-python"), ("project", "requires-python"))
        self._list(self.project.get("dependencies", []), _LIST, AskedBy())
        for extra in extras:
            self._extra(extra, _EXTRAS, AskedBy())
        for group in groups:
            self._group(group, ("dependency-groups",), AskedBy())
        self._constraints()
        self._refuse_sources()
        self._note_rest()

    def _is_static(self, groups: Sequence[str]) -> bool:
        """Refuse a project whose dependencies only a program can tell."""
        if "dependencies" in self.of.texts("project", "dynamic"):
            what = "[project].dependencies is dynamic: only the project's build backend knows it"
            step = f"{_LIST_NEXT}; no program of the project runs here"
            self.of.refuse(("project", "dynamic"), what, step)
        elif "dependencies" in self.project or (groups and not self._poetry()):
            return True
        elif self._poetry():
            path = ("tool", "poetry", "dependencies")
            what = "[tool.poetry.dependencies] is Poetry's own form"
            self.of.refuse(path, what, _POETRY_NEXT)
        elif self.project:
            return True  # it may have extras; a list of nothing is refused in the end
        else:
            self.of.refuse((), "no table [project], so no dependencies", _LIST_NEXT)
        return False

    def _poetry(self) -> dict[str, Any]:
        return self.of.table("tool", "poetry", "dependencies")

    def _list(self, entries: object, path: KeyPath, request: AskedBy) -> None:
        """Take a list of requirements, its groups, and its extras of the project itself."""
        if not isinstance(entries, list):
            self.of.refuse(path, "expected a list of requirements", LIST_NEXT)
            return
        for index, entry in enumerate(entries):
            place = (*path, index)
            if self.of.draft.is_full:
                return
            if isinstance(entry, dict) and path[0] == "dependency-groups":
                self._included_group(entry, place, request)
                continue
            requirement = self.of.requirement(entry, place)
            if requirement is None:
                continue
            wish = self.of.wish(requirement, place, request.marker)
            if not self._is_own(requirement):
                self.of.draft.wishes.append(wish)
                continue
            for extra in sorted(requirement.extras):
                self._extra(extra, place, request.through(extra, wish.requirement.marker))

    def _is_own(self, requirement: Requirement) -> bool:
        name = self.project.get("name")
        self_name = canonicalize_name(name) if isinstance(name, str) else None
        return self_name == requirement_words.name_of(requirement)

    def _extra(self, name: str, place: KeyPath, request: AskedBy) -> None:
        if "optional-dependencies" in self.of.texts("project", "dynamic"):
            what = f"extra '{cut(name, 80)}': the extras are dynamic: only the build backend knows"
            self.of.refuse(("project", "dynamic"), what, "write [project.optional-dependencies]")
            return
        table = self.of.table("project", "optional-dependencies")
        key = self.of.find(name, list(table), place, "extra")
        if key is None or not self._is_new(f"extra {key}; {request.marker or ''}"):
            return
        self._read.add(f"extra {key}")
        if len(request.chain) > _DEEPEST:
            what = f"extras name each other more than {_DEEPEST} times"
            self.of.refuse((*_EXTRAS, key), what, "write their requirements out")
        else:
            self._list(table[key], (*_EXTRAS, key), request)

    def _group(self, name: str, place: KeyPath, request: AskedBy) -> None:
        table = self.of.table("dependency-groups")
        key = self.of.find(name, list(table), place, "group")
        if key is None:
            return
        if key in request.chain:
            chain = " > ".join((*request.chain, key))
            what = f"a group includes itself: {cut(chain, 200)}"
            self.of.refuse(place, what, "remove one include-group")
        elif self._is_new(f"group {key}"):
            self._list(table[key], ("dependency-groups", key), request.through(key, None))

    def _included_group(self, entry: dict[str, Any], place: KeyPath, request: AskedBy) -> None:
        included = entry.get("include-group")
        if list(entry) != ["include-group"] or not isinstance(included, str):
            what = "a table in a group has include-group alone"
            self.of.refuse(place, what, 'write {include-group = "NAME"}')
        elif len(request.chain) > _DEEPEST:
            what = f"groups include each other more than {_DEEPEST} times"
            self.of.refuse(place, what, "write their requirements out")
        else:
            self._group(included, place, request)

    def _is_new(self, key: str) -> bool:
        before = len(self._read)
        self._read.add(key)
        return len(self._read) > before

    def _constraints(self) -> None:
        path = ("tool", "uv", "constraint-dependencies")
        entries = self.of.table(*path[:-1]).get(path[-1], [])
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            requirement = self.of.requirement(entry, (*path, index))
            if requirement is not None:
                wish = self.of.wish(requirement, (*path, index), None)
                self.of.draft.constraints.append(wish)
        overrides = (*path[:-1], "override-dependencies")
        if self.of.table(*overrides[:-1]).get(overrides[-1]):
            origin = self.of.toml.origin(overrides)
            self.of.draft.notes.append(f"{origin}: tool.uv.override-dependencies is not taken")

    def _refuse_indexes(self) -> None:
        for words in _INDEXES:
            keys = ("tool", *words.split())
            if self.of.table(*keys[:-1]).get(keys[-1]):
                self.of.refuse(keys, f"{'.'.join(keys)} is not taken", INDEX_NEXT)
        indexes = self.of.table("tool", "uv").get("index", [])
        for number, index in enumerate(indexes if isinstance(indexes, list) else []):
            # An explicit one counts for what [tool.uv.sources] names alone.
            if not (isinstance(index, dict) and index.get("explicit") is True):
                path = ("tool", "uv", "index", number)
                self.of.refuse(path, "[[tool.uv.index]] is not taken", INDEX_NEXT)

    def _refuse_sources(self) -> None:
        """Refuse a wish that the project takes from elsewhere than an index."""
        names = {requirement_words.name_of(wish.requirement) for wish in self.of.draft.wishes}
        for tool, table in (("uv", "sources"), ("poetry", "dependencies")):
            for name, sources in self.of.table("tool", tool, table).items():
                if canonicalize_name(name) not in names:
                    continue
                for kind in _kinds(sources):
                    self._source(("tool", tool, table, name), kind)

    def _source(self, path: KeyPath, kind: str) -> None:
        name = str(path[-1])
        table = ".".join(map(str, path[:-1]))
        is_index = kind in ("index", "source")
        if is_index and canonicalize_name(name) in _OF_VARIANT:
            origin = self.of.toml.origin(path)
            note = f"{origin}: the index of '{name}' is not taken: the variant brings its own"
            self.of.draft.notes.append(note)
        else:
            what = f"'{cut(name, 80)}' comes from {_KINDS[kind]} ({table}), which is not taken"
            self.of.refuse(path, what, INDEX_NEXT if is_index else RELEASE_NEXT)

    def _note_rest(self) -> None:
        notes = self.of.draft.notes
        name = self.project.get("name")
        if isinstance(name, str) and self.of.table("tool", "uv").get("package") is not False:
            notes.append(
                f"your own package is not in the image: '{cut(name, 80)}' "
                "(bind its folder, or add a folder with its wheel: routing.wheels)"
            )
        if self.of.table("tool", "pixi", "dependencies"):
            origin = self.of.toml.origin(("tool", "pixi", "dependencies"))
            notes.append(f"{origin}: conda packages of [tool.pixi.dependencies] are not taken")
        for noun, table in (
            ("extra", self.of.table("project", "optional-dependencies")),
            ("group", self.of.table("dependency-groups")),
        ):
            rest = [key for key in table if f"{noun} {key}" not in self._read]
            if rest:
                notes.append(f"{noun}s that were not asked for: {cut(', '.join(rest), 200)}")


def _kinds(sources: object) -> Iterator[str]:
    """Yield where a package comes from: of uv a table or several, of Poetry a table or a bound."""
    for source in sources if isinstance(sources, list) else [sources]:
        if isinstance(source, dict):
            yield from (key for key in _KINDS if source.get(key))


def read(toml: TomlText, draft: WishDraft, groups: Sequence[str], extras: Sequence[str]) -> None:
    """Read a project into a draft."""
    PyprojectReader(of=TomlRequirements(toml=toml, draft=draft)).read(groups, extras)
