"""Lists of requirements in TOML: each text with its place, each wish with the marker that asks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers import requirement_words
from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.toml_text import TomlText
from dlcontainer.config.document import KeyPath
from dlcontainer.config.suggestions import cut, suggest
from dlcontainer.packages.resolve.wishes import Wish

LIST_NEXT = 'write ["NAME>=VERSION", …]'


@dataclass(frozen=True, kw_only=True, slots=True)
class TomlRequirements:
    """What the readers of TOML have in common: a file and the draft that it goes into."""

    toml: TomlText
    draft: WishDraft

    def table(self, *keys: str) -> dict[str, Any]:
        """Return a table; empty where there is none."""
        value: Any = self.toml.data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def texts(self, *keys: str) -> list[str]:
        """Return the texts of a list; empty where there is none."""
        value = self.table(*keys[:-1]).get(keys[-1])
        return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []

    def refuse(self, path: KeyPath, what: str, next_step: str | None = None) -> None:
        """Note a refusal at a key's place."""
        self.draft.faults.add(self.toml.mark(path), what, next_step)

    def requirement(self, text: object, path: KeyPath) -> Requirement | None:
        """Parse a text at its place; None where it was refused."""
        if not isinstance(text, str):
            self.refuse(path, "a requirement is a text", 'write "NAME>=VERSION"')
            return None
        place = self.toml.mark(path)
        return requirement_words.parse(text.strip(), lambda _: place, self.draft.faults)

    def wish(self, requirement: Requirement, path: KeyPath, marker: Marker | None) -> Wish:
        """Return a wish that holds where both its own marker and another do."""
        if marker is not None:
            requirement.marker = both(marker, requirement.marker)
        return Wish(requirement=requirement, origin=self.toml.origin(path))

    def python(self, bounds: object, path: KeyPath) -> None:
        """Keep the file's bound on Python."""
        if bounds is None:
            return
        try:
            if isinstance(bounds, str):
                self.draft.python = str(SpecifierSet(bounds)) or None
                self.draft.python_at = self.toml.origin(path)
                return
        except InvalidSpecifier:
            pass
        what = f"requires-python is no bound: {cut(repr(bounds), 60)}"
        self.refuse(path, what, 'write requires-python = ">=3.11"')

    def find(self, name: str, names: Sequence[str], path: KeyPath, noun: str) -> str | None:
        """Return the key of an extra or a group by its name as indexes spell it."""
        spelled = canonicalize_name(name)
        keys = [key for key in names if canonicalize_name(key) == spelled]
        if len(keys) == 1:
            return keys[0]
        if keys:
            self.refuse(path, f"two {noun}s are one name: {', '.join(keys)}", "rename one")
        else:
            what = f"there is no {noun} '{cut(name, 80)}'{suggest(name, names)}"
            self.refuse(path, what, f"ask for one of the {noun}s that the file has")
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedBy:
    """Why a list is read: under which marker, and through which extras or groups."""

    marker: Marker | None = None
    chain: tuple[str, ...] = ()

    def through(self, name: str, marker: Marker | None) -> "AskedBy":
        """Return the same one extra or group deeper."""
        return replace(self, chain=(*self.chain, name), marker=marker)


def both(first: Marker | None, second: Marker | None) -> Marker | None:
    """Return the marker that holds where both do."""
    if first is None or second is None or str(first) == str(second):
        return first or second
    return Marker(f"({first}) and ({second})")
