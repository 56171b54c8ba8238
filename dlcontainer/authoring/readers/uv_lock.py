"""uv.lock: the packages that a project reaches, each with the markers on the way to it.

The lock is a graph without markers at its packages: these are put together from its edges, as
`uv export` does. What can't be told so is refused with that command. Source: uv's documentation,
"Structure and files", and the locks that uv 0.13.9 writes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.faults import RELEASE_NEXT
from dlcontainer.authoring.readers.toml_requirements import TomlRequirements
from dlcontainer.authoring.readers.toml_text import TomlText
from dlcontainer.config.suggestions import cut
from dlcontainer.packages.resolve.wishes import Wish

EXPORT = "uv export --frozen --no-dev --no-emit-project --format pylock.toml -o pylock.toml"
_EXPORT_NEXT = f"run `{EXPORT}` in the project, and give that file"
_MEMBER_NEXT = f"run `{EXPORT} --package NAME` in the project, and give that file"
_LOCAL = ("editable", "virtual", "directory", "path", "git", "url")
# A choice among extras and groups that exclude each other.
_CHOICE = re.compile(
    r"""\bextra\s*(?P<sign>==|!=)\s*'(?P<kind>extra|group)-(?P<length>\d{1,3})-(?P<name>[^']*)'"""
)
_ALWAYS, _NEVER = 'python_version >= "0"', 'python_version < "0"'
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
# Routes to one package that no shorter one covers; beyond, a marker is nobody's to read.
_MOST_ROUTES, _LONGEST_MARKER, _LONGEST_CHOICES = 32, 500, 10_000

Routes = set[frozenset[str]]


class LockNode(NamedTuple):
    """A package of the lock by its number there, or one of its extras."""

    number: int
    extra: str | None


class _UnclearLockError(Exception):
    """The lock says what this reader does not understand: its text says what."""


@dataclass(kw_only=True, slots=True)
class LockChoices:
    """The extras and groups that were asked for, of a project whose choices exclude each other.

    uv writes such a choice into markers as `extra == 'extra-8-mytrainer-gpu'`: the kind, the length
    of the project's name, the name, the choice.
    """

    extras: frozenset[str]
    groups: frozenset[str]
    project: str = ""

    def marker(self, edge: dict[str, Any]) -> str | None:
        """Return an edge's marker with the choices made; None where it always holds."""
        marker = edge.get("marker")
        if marker is None:
            return None
        written = str(marker)
        text = written
        if len(written) <= _LONGEST_CHOICES and "extra" in written:
            text = _settled(_CHOICE.sub(self._chosen, written))
        if len(text) > _LONGEST_MARKER or "extra" in text:
            raise _UnclearLockError(f"the marker '{cut(written, 80)}'")
        try:
            return str(Marker(text)) if text else None
        except (InvalidMarker, RecursionError):
            raise _UnclearLockError(f"the marker '{cut(written, 80)}'") from None

    def _chosen(self, match: re.Match[str]) -> str:
        length, name = int(match["length"]), match["name"]
        project, choice = name[:length], name[length + 1 :]
        if canonicalize_name(project) != canonicalize_name(self.project):
            return match[0]
        chosen = self.extras if match["kind"] == "extra" else self.groups
        is_in = canonicalize_name(choice) in chosen
        return _ALWAYS if is_in == (match["sign"] == "==") else _NEVER


@dataclass(kw_only=True, slots=True)
class LockGraph:
    """The packages of a lock, and the routes that lead to them."""

    packages: list[dict[str, Any]]
    choices: "LockChoices"
    by_name: dict[str, list[int]] = field(default_factory=dict)
    routes: dict[LockNode, Routes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, package in enumerate(self.packages):
            self.by_name.setdefault(str(package.get("name")), []).append(index)

    def roots(self) -> list[int]:
        """List the packages that are a project's own: of a workspace several."""
        return [
            index
            for index, package in enumerate(self.packages)
            if any(key in _source(package) for key in ("editable", "virtual"))
        ]

    def walk(self, root: int, starts: Sequence[object]) -> None:
        """Note all routes from lists of edges of the root."""
        todo: list[LockNode] = [LockNode(root, None)]
        self.routes[todo[0]] = {frozenset()}
        for edges in starts:
            todo += self._spread(edges, {frozenset()})
        while todo:
            node = todo.pop()
            todo += self._spread(self._edges(node), self.routes[node])

    def reached(self) -> dict[int, Routes]:
        """Map the packages to the routes to them."""
        return {node.number: routes for node, routes in self.routes.items() if node.extra is None}

    def _edges(self, node: LockNode) -> object:
        package = self.packages[node.number]
        if node.extra is None:
            return package.get("dependencies", [])
        return _table(package, "optional-dependencies").get(node.extra, [])

    def _spread(self, edges: object, routes: Routes) -> list[LockNode]:
        """Carry routes over edges; list the nodes that have new ones."""
        changed = []
        for edge in edges if isinstance(edges, list) else []:
            if not isinstance(edge, dict):
                raise _UnclearLockError("a dependency that is no table")
            marker = self.choices.marker(edge)
            if marker == _NEVER:
                continue
            over = {route | {marker} if marker else route for route in routes}
            changed += [node for node in self._targets(edge) if self._take(node, over)]
        return changed

    def _targets(self, edge: dict[str, Any]) -> Iterator[LockNode]:
        name = str(edge.get("name"))
        indexes = self.by_name.get(name, [])
        # An edge says what tells a package from others of its name: the build of another index may
        # have the same version.
        for key in ("version", "source"):
            if key in edge and len(indexes) > 1:
                indexes = [n for n in indexes if self.packages[n].get(key) == edge[key]]
        if len(indexes) != 1:
            raise _UnclearLockError(f"'{cut(name, 80)}' stands {len(indexes)} times")
        extras = edge.get("extra", [])
        for extra in (None, *(extras if isinstance(extras, list) else [extras])):
            yield LockNode(indexes[0], extra if extra is None else str(extra))

    def _take(self, node: LockNode, routes: Routes) -> bool:
        before = self.routes.get(node, set())
        every = before | routes
        shortest = {route for route in every if not any(shorter < route for shorter in every)}
        if len(shortest) > _MOST_ROUTES:
            raise _UnclearLockError(f"more than {_MOST_ROUTES} routes lead to one package")
        self.routes[node] = shortest
        return shortest != before


@dataclass(frozen=True, kw_only=True, slots=True)
class UvLockReader:
    """Reads one lock into a draft."""

    of: TomlRequirements

    def read(self, groups: Sequence[str], extras: Sequence[str]) -> None:
        """Take what the project, and the extras and groups asked for, reach."""
        data = self.of.toml.data
        packages = data.get("package")
        if data.get("version") != 1 or not isinstance(packages, list):
            self.of.refuse(("version",), "no uv.lock of version 1", _EXPORT_NEXT)
            return
        self.of.python(data.get("requires-python"), ("requires-python",))
        choices = LockChoices(
            extras=frozenset(map(canonicalize_name, extras)),
            groups=frozenset(map(canonicalize_name, groups)),
        )
        entries = [entry for entry in packages if isinstance(entry, dict)]
        graph = LockGraph(packages=entries, choices=choices)
        roots = graph.roots()
        if len(graph.packages) != len(packages) or len(roots) != 1:
            several = f"{len(roots)} projects in one lock" if roots else "no project in the lock"
            step = _MEMBER_NEXT if len(roots) > 1 else _EXPORT_NEXT
            self.of.refuse(("package",), several, step)
            return
        choices.project = str(graph.packages[roots[0]].get("name"))
        starts = self._starts(graph.packages[roots[0]], groups, extras)
        try:
            graph.walk(roots[0], starts)
            self._wishes(graph, roots[0])
        except _UnclearLockError as error:
            self.of.refuse(("package",), f"can't be read without uv: {error}", _EXPORT_NEXT)

    def _starts(
        self, root: dict[str, Any], groups: Sequence[str], extras: Sequence[str]
    ) -> list[object]:
        starts: list[object] = []
        for noun, table, names in (
            ("extra", _table(root, "optional-dependencies"), extras),
            ("group", _table(root, "dev-dependencies"), groups),
        ):
            for name in names:
                key = self.of.find(name, list(table), ("package",), noun)
                if key is not None:
                    starts.append(table[key])
        name = cut(str(root.get("name")), 80)
        if "virtual" not in _source(root):
            self.of.draft.notes.append(
                f"your own package is not in the image: '{name}' "
                "(bind its folder, or add a folder with its wheel: routing.wheels)"
            )
        return starts

    def _wishes(self, graph: LockGraph, root: int) -> None:
        reached = graph.reached()
        for index, package in enumerate(graph.packages):
            if index != root and index in reached and not self.of.draft.is_full:
                wish = self._wish(index, package, reached[index])
                if wish is not None:
                    self.of.draft.wishes.append(wish)

    def _wish(self, index: int, package: dict[str, Any], routes: Routes) -> Wish | None:
        path, name = ("package", index), str(package.get("name"))
        kind = next((kind for kind in _LOCAL if kind in _source(package)), None)
        if kind is not None:
            what = f"'{cut(name, 80)}' comes from a {kind} source, not from an index"
            self.of.refuse((*path, "source"), what, RELEASE_NEXT)
            return None
        version = cut(str(package.get("version")), 200)
        requirement = self.of.requirement(f"{name}=={version}", (*path, "name"))
        if requirement is None:
            return None
        if frozenset() not in routes:
            requirement.marker = _joined(routes)
        origin = self.of.toml.origin((*path, "name"))
        wheels = package.get("wheels")
        hashes = _hashes(wheels)
        if not wheels:
            self.of.draft.notes.append(f"{origin}: the lock has no wheel of '{cut(name, 80)}'")
        elif not hashes:
            # Some indexes give none; the version is exact all the same.
            note = f"{origin}: the lock has no SHA-256 of '{cut(name, 80)}' to compare"
            self.of.draft.notes.append(note)
        return Wish(requirement=requirement, origin=origin, hashes=hashes)


def _settled(marker: str) -> str:
    """Take out of alternatives what a choice decides: empty where the rest always holds.

    uv writes alternatives of terms; anything else stays as it is.
    """
    alternatives = []
    for alternative in marker.split(" or "):
        terms = alternative.strip().removeprefix("(").removesuffix(")").split(" and ")
        if any("(" in term or ")" in term for term in terms):
            return marker
        if _NEVER not in terms:
            alternatives.append(" and ".join(term for term in terms if term != _ALWAYS))
    if not alternatives:
        return _NEVER
    return " or ".join(f"({text})" for text in alternatives) if all(alternatives) else ""


def _hashes(wheels: object) -> frozenset[str]:
    listed = wheels if isinstance(wheels, list) else []
    digests = [_DIGEST.fullmatch(str(_table({"_": wheel}, "_").get("hash"))) for wheel in listed]
    return frozenset(digest[1].lower() for digest in digests if digest)


def _source(package: dict[str, Any]) -> dict[str, Any]:
    return _table(package, "source")


def _table(package: dict[str, Any], key: str) -> dict[str, Any]:
    value = package.get(key)
    return value if isinstance(value, dict) else {}


def _joined(routes: Routes) -> Marker:
    parts = (" and ".join(f"({marker})" for marker in sorted(route)) for route in routes)
    return Marker(" or ".join(f"({part})" for part in sorted(parts)))


def read(toml: TomlText, draft: WishDraft, groups: Sequence[str], extras: Sequence[str]) -> None:
    """Read a lock into a draft."""
    UvLockReader(of=TomlRequirements(toml=toml, draft=draft)).read(groups, extras)
    draft.is_locked = True
