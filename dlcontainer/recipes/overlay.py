"""One recipe laid over the one that it extends: which key is added, joined or replaced. Pure.

Lists replace whole where layers are merged; here steps, commands and mount points are appended. A
variant of the parent recipe may change any key, and own values hold in each variant.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlcontainer import config
from dlcontainer.config import Document, KeyPath, ValueOrigin
from dlcontainer.config.document import walk
from dlcontainer.errors import ConfigError
from dlcontainer.recipes import pin_words
from dlcontainer.recipes.exceptions import OwnParts

_JOINED = ("exposes", "mount_points", "changed_pins")
# What has rules of its own.
_RULED = (*_JOINED, "steps", "variants", "verify")
# No part of a recipe that a variant may change.
_OF_RECIPE = ("schema", "name", "extends", "wishes", "changed_pins")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A value, with the origins of it and of all in it, counted from it."""

    value: object
    origins: Mapping[KeyPath, ValueOrigin]

    @property
    def items(self) -> "list[_Part]":
        """The items of a list, each a part; none of anything else."""
        if not isinstance(self.value, list):
            return []
        return [self.below((index,)) for index in range(len(self.value))]

    def below(self, path: KeyPath) -> "_Part":
        """Return the part at a path; its value is None where there is nothing."""
        value = self.value
        for key in path:
            value = _get(value, key)
        kept = {
            inner: self.origins[inner] for inner, _ in walk(value, path) if inner in self.origins
        }
        return _Part(value=value, origins={key[len(path) :]: kept[key] for key in kept})


def _get(value: object, key: str | int) -> object:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int):
        return value[key]
    return None


def _joined(parts: Sequence[_Part], of_list: Mapping[KeyPath, ValueOrigin]) -> _Part:
    """Make a list of parts, with the origin of a list."""
    origins: dict[KeyPath, ValueOrigin] = {(): of_list[()]} if () in of_list else {}
    for index, part in enumerate(parts):
        origins |= {(index, *path): origin for path, origin in part.origins.items()}
    return _Part(value=[part.value for part in parts], origins=origins)


class _Editor:
    """A document that is changed in place; made of a copy."""

    def __init__(self, document: Document) -> None:
        self.data: dict[str, object] = copy.deepcopy(document.data)
        self.origins: dict[KeyPath, ValueOrigin] = dict(document.origins)

    def part(self, path: KeyPath) -> _Part:
        return _Part(value=self.data, origins=self.origins).below(path)

    def put(self, path: KeyPath, part: _Part) -> None:
        """Put a part at a path, in the place of all that is there; mappings on the way are made."""
        place = self.data
        for depth, key in enumerate(path[:-1], start=1):
            inner = place.get(str(key))
            if not isinstance(inner, dict):
                inner = place[str(key)] = {}
                self.origins.setdefault(path[:depth], next(iter(part.origins.values())))
            place = inner
        for old, _ in walk(place.get(str(path[-1])), path):
            self.origins.pop(old, None)
        place[str(path[-1])] = copy.deepcopy(part.value)
        self.origins |= {(*path, *inner): origin for inner, origin in part.origins.items()}

    @property
    def document(self) -> Document:
        return Document(data=self.data, origins=self.origins)


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A recipe, `upper`, over the one of a name that it extends."""

    lower: Document
    upper: Document
    name: str

    def merged(self) -> Document:
        """Return the recipe; raises ConfigError with both places of what contradicts the lower."""
        self._require_steps()
        self._require_variants()
        self._require_pinned()
        plain = self.upper
        for key in _RULED:
            plain = config.without(plain, key)
        merged = _Editor(config.merge(self.lower, plain))
        for key in _JOINED:
            self._join(merged, key, ())
        names = list(_variants(merged))
        for name in names:
            self._over_variant(merged, plain, name)
        if not names:
            self._append(merged, (), self._steps)
            self._import(merged, (), [self._part(("verify", "imports"))])
        self._prove(merged, ())
        return merged.document

    def _over_variant(self, merged: _Editor, plain: Document, name: str) -> None:
        path: KeyPath = ("variants", name, "changes")
        self._settle(merged, plain, path)
        for key in ("exposes", "mount_points"):
            if merged.part((*path, key)).value is not None:
                self._join(merged, key, path)
        self._append(merged, path, self._steps_in(name))
        if any(merged.part((*path, "verify", key)).value for key in ("script", "before")):
            self._prove(merged, path)
        upper = (("verify", "imports"), ("variants", name, "imports"))
        self._import(merged, path, [self._part(place) for place in upper])
        refused = self._part(("variants", name, "refused"))
        if refused.value is not None:
            merged.put(("variants", name, "refused"), refused)

    @cached_property
    def _parts(self) -> OwnParts:
        """The own keys that have rules, of the right kinds."""
        data = {key: value for key, value in self.upper.data.items() if value is not None}
        kept = {key: data[key] for key in OwnParts.model_fields if key in data}
        return config.validate(Document(data=kept, origins=self.upper.origins), OwnParts)

    @cached_property
    def _steps(self) -> list[_Part]:
        return self._part(("steps",)).items

    def _part(self, path: KeyPath) -> _Part:
        return _Part(value=self.upper.data, origins=self.upper.origins).below(path)

    def _settle(self, merged: _Editor, plain: Document, path: KeyPath) -> None:
        """Let own keys hold where a variant has another value."""
        part = merged.part(path)
        changes = part.value if isinstance(part.value, dict) else {}
        shared = {
            key: value
            for key, value in plain.data.items()
            if key in changes and key not in _OF_RECIPE
        }
        if shared:
            below = Document(data=changes, origins=part.origins)
            settled = config.merge(below, Document(data=shared, origins=plain.origins))
            merged.put(path, _Part(value=settled.data, origins=settled.origins))

    def _join(self, merged: _Editor, key: str, path: KeyPath) -> None:
        """Add own items to a list."""
        upper, below = self._part((key,)), merged.part((*path, key))
        if upper.value is None:
            return
        if not isinstance(below.value, list | None):
            return  # validating the recipe says what is wrong with it
        if not isinstance(upper.value, list):
            merged.put((*path, key), upper)
            return
        # Of changed pins each recipe lists its own.
        present = [] if below.value is None or key == "changed_pins" else below.value
        items = [*below.items, *(item for item in upper.items if item.value not in present)]
        merged.put((*path, key), _joined(items, (upper if below.value is None else below).origins))

    def _append(self, merged: _Editor, path: KeyPath, steps: Sequence[_Part]) -> None:
        """Append own steps to those of the parent recipe, or of a variant of it."""
        below = merged.part((*path, "steps"))
        if "steps" not in _keys(merged.part(path).value):
            below = merged.part(("steps",))
        # Without steps below, validating the recipe says that they are missing.
        if steps and isinstance(below.value, list):
            merged.put((*path, "steps"), _joined([*below.items, *steps], below.origins))

    def _steps_in(self, variant: str) -> list[_Part]:
        """Return the own steps as a variant has them."""
        exception = self._parts.variants.get(variant)
        steps = exception.steps if exception else {}
        upper = [str(_keys(part.value).get("name")) for part in self._steps]
        for name in steps:
            if name not in upper:
                raise ConfigError(
                    f"variants.{variant}.steps.{name}: this recipe has no step of this name of "
                    f"its own{config.suggest(name, upper)}",
                    where=self.upper.origin(("variants", variant, "steps", name)).where,
                )
        return [
            self._excepted(part, ("variants", variant, "steps", name)) if name in steps else part
            for name, part in zip(upper, self._steps, strict=True)
        ]

    def _excepted(self, step: _Part, place: KeyPath) -> _Part:
        """Replace, add and remove pins of a step."""
        path: KeyPath = ("python_packages", "packages")
        listed = {pin_words.name(str(item.value)): item for item in step.below(path).items}
        for key in ("replace", "remove"):
            for item in self._part((*place, key)).items:
                name = pin_words.name(str(item.value))
                if name not in listed:
                    raise ConfigError(
                        f"{config.dotted((*place, key))}: the step has no package {name!r}"
                        f"{config.suggest(name, listed)}",
                        where=item.origins[()].where,
                        next_step="use add for a package that the step does not have",
                    )
                if key == "replace":
                    listed[name] = item
                else:
                    del listed[name]
        for item in self._part((*place, "add")).items:
            name = pin_words.name(str(item.value))
            if name in listed:
                raise ConfigError(
                    f"{config.dotted((*place, 'add'))}: the step has the package {name!r} already",
                    where=item.origins[()].where,
                    why=f"it stands at {listed[name].origins[()].where}",
                    next_step="use replace for another version of it",
                )
            listed[name] = item
        document = Document(data=_keys(step.value), origins=step.origins)
        changed = _Editor(document)
        changed.put(path, _joined(list(listed.values()), step.below(path).origins))
        return _Part(value=changed.data, origins=changed.origins)

    def _prove(self, merged: _Editor, path: KeyPath) -> None:
        """Let the script below run before the own one."""
        upper = self._part(("verify", "script"))
        below, before = (
            next(
                (part for part in (merged.part((*at, "verify", key)) for at in (path, ()))
                 if part.value is not None),
                None,
            )
            for key in ("script", "before")
        )  # fmt: skip
        if upper.value is None or below is None or not isinstance(below.value, str):
            return
        origin = below.origins[()]
        places: list[KeyPath] = [(), ("recipe",), ("script",)]
        entry = _Part(
            value={"recipe": self.name, "script": below.value},
            origins=dict.fromkeys(places, origin),
        )
        scripts = [*(before.items if before else []), entry]
        merged.put((*path, "verify", "before"), _joined(scripts, {(): origin}))
        merged.put((*path, "verify", "script"), upper)

    def _import(self, merged: _Editor, path: KeyPath, upper: Sequence[_Part]) -> None:
        """Lay own imports over those below; the ones below stay the first."""
        verify, below = merged.part((*path, "verify")), merged.part((*path, "verify", "imports"))
        if not all(isinstance(part.value, dict | None) for part in (verify, below)):
            return  # validating the recipe says what is wrong with it
        parts = [part for part in (below, *upper) if part.value is not None]
        documents = [Document(data=_keys(part.value), origins=part.origins) for part in parts]
        if any(part.value for part in upper):
            imports = config.merge(*documents)
            merged.put(
                (*path, "verify", "imports"), _Part(value=imports.data, origins=imports.origins)
            )

    def _require_steps(self) -> None:
        """Refuse an own step with the name of one below."""
        upper = {str(step.get("name")): at for at, step in enumerate(self._parts.steps)}
        below = _Part(value=self.lower.data, origins=self.lower.origins)
        variants = _keys(_keys(self.lower.data.get("variants")))
        for path in ((), *(("variants", name, "changes") for name in variants)):
            for step in below.below((*path, "steps")).items:
                name = str(_keys(step.value).get("name"))
                if name in upper:
                    raise ConfigError(
                        f"steps[{upper[name]}].name: the recipe {self.name} has a step {name!r}",
                        where=self.upper.origin(("steps", upper[name], "name")).where,
                        why=f"its step stands at {step.origins[()].where}",
                        next_step="use another name: own steps are appended to those of "
                        f"{self.name}",
                    )

    def _require_variants(self) -> None:
        """Refuse exceptions for variants that the parent recipe does not have."""
        known = list(_keys(self.lower.data.get("variants")))
        for name in self._parts.variants:
            if name not in known:
                raise ConfigError(
                    f"variants.{name}: no variant of the recipe {self.name} has this name"
                    f"{config.suggest(name, known)}",
                    where=self.upper.origin(("variants", name)).where,
                    why="a recipe that extends another says exceptions of its variants alone",
                    next_step=f"one of: {', '.join(known)}" if known else "remove the key",
                )

    def _require_pinned(self) -> None:
        """Refuse to list a pin as changed that no own step has."""
        parts = self._parts
        pinned = [_packages(step) for step in parts.steps]
        for exception in parts.variants.values():
            pinned += [[*step.replace, *step.add] for step in exception.steps.values()]
        names = {pin_words.name(str(pin)) for listed in pinned for pin in listed}
        for at, changed in enumerate(parts.changed_pins):
            if pin_words.name(changed) not in names:
                raise ConfigError(
                    f"changed_pins[{at}]: no step of this recipe pins {changed!r}"
                    f"{config.suggest(changed, names)}",
                    where=self.upper.origin(("changed_pins", at)).where,
                    next_step="pin it in a step, or remove it here",
                )


def _variants(merged: _Editor) -> Iterator[str]:
    """Name the variants that change something; what is wrong with others, their model says."""
    for name, variant in _keys(merged.data.get("variants")).items():
        if isinstance(_keys(variant).get("changes"), dict):
            yield name


def _packages(step: Mapping[str, object]) -> Sequence[object]:
    packages = _keys(step.get("python_packages")).get("packages")
    return packages if isinstance(packages, list) else []


def _keys(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
