"""Variants of a recipe: which of them a site can have, which is meant, and why."""

from collections.abc import Sequence
from functools import lru_cache

from dlcontainer import config
from dlcontainer.config import Document, Origin, Sourced
from dlcontainer.errors import ConfigError
from dlcontainer.planning import refusals
from dlcontainer.planning.choice import (
    KINDS,
    Asked,
    Candidate,
    Choice,
    Judge,
    Wish,
    best,
    by_newness,
)
from dlcontainer.planning.refusals import Refusal
from dlcontainer.recipes.variant import Variant
from dlcontainer.sites.site import Site


def wish(over: Sequence[Document], asked: str | None, *, cpu: bool) -> Wish:
    """Say what is asked for: on the command line, else by what lies over the recipe."""
    if asked is not None:
        named = Asked(name=asked, origin=Origin(layer="--variant", mark=None))
        return Wish(asked=named, cpu=cpu)
    for change in reversed(over):
        name = change.data.get("variant")
        if isinstance(name, str):
            return Wish(asked=Asked(name=name, origin=change.origin(("variant",))), cpu=cpu)
    return Wish(cpu=cpu)


def choose(recipe: Document, site: Sourced[Site], wish: Wish, judge: Judge) -> Choice | None:
    """Choose a variant: by name or kind where one is asked for, else the best that runs.

    At a site with accelerators only a variant with device code, unless `wish.cpu` or a name asks
    for another. None for a recipe without variants, for which the same holds. Raises ConfigError
    for an unknown name, MisfitError where the site can't have what is asked for.
    """
    asked = wish.asked
    variants = _read(recipe)
    if not variants:
        if asked:
            name = recipe.data.get("name")
            raise ConfigError(f"recipe {name} has no variants", where=asked.origin.where)
        refusals.require_asked(recipe, site, cpu=wish.cpu)
        return None
    known = {name: judge(recipe, name, one, site.value) for name, one in variants.items()}
    refuse = Refusal(recipe=recipe, site=site, known=known, wish=wish)
    if asked and asked.name not in (*known, *KINDS):
        raise refuse.unknown(asked)
    if asked and asked.name in known:
        chosen = known[asked.name]
        if chosen.misfits:
            raise refuse.named(asked, chosen)
        if wish.cpu and chosen.has_code:
            raise refuse.contradictory(asked)
    else:
        of_kind = [one for one in known.values() if not asked or one.variant.kind == asked.name]
        found = best(of_kind, site.value, cpu=wish.cpu)
        if found is None:
            raise refuse.nothing(of_kind)
        chosen = found
    usual = best(known.values(), site.value, cpu=False)
    return Choice(
        name=chosen.name,
        kind=chosen.variant.kind,
        why=f"{_why(chosen, site.value, wish)}: {chosen.variant.summary}",
        usual=chosen is usual,
        passed_over={
            name: _why_not(one, chosen, site.value)
            for name, one in known.items()
            if one is not chosen
        },
        status=chosen.variant.status,
        lock=chosen.variant.lock,
    )


def _why(chosen: Candidate, site: Site, wish: Wish) -> str:
    if wish.asked:
        return "asked for"
    if wish.cpu:
        return "without device code, as asked for; the first that fits"
    if chosen.code and site.accelerator:
        return f"the best that runs on {site.accelerator.target} ({chosen.code.words})"
    return "the first that fits"


def _why_not(one: Candidate, chosen: Candidate, site: Site) -> str:
    if one.reasons:
        return one.reasons[0]
    if site.accelerator and not one.has_code:
        return "has no device code (--cpu takes such a variant)"
    if one.code and one.rank > chosen.rank:
        older = ", of a CUDA that is older than the GPU" if one.older_than_gpu else ""
        return f"runs less well: {one.code.words}{older}"
    if by_newness(chosen, site) and one.newness.order < chosen.newness.order:
        return f"older: {_dated(one)}"
    return "not the first that fits"


def _dated(one: Candidate) -> str:
    parts = (one.newness.version, one.newness.toolkit and f"toolkit {one.newness.toolkit}")
    return ", ".join(filter(None, parts))


def names(recipe: Document, kind: str | None = None) -> list[str]:
    """Name a recipe's variants in their order, all or those of one kind."""
    return [name for name, variant in _read(recipe).items() if kind in (None, variant.kind)]


def kinds(recipe: Document, site: Site, judge: Judge, *, cpu: bool) -> list[str]:
    """Name the kinds of variants that are worth a question at a site.

    At one with accelerators, or with `cpu`, a kind without a variant that may be taken is
    left out beside one that has some.
    """
    known = [judge(recipe, name, one, site) for name, one in _read(recipe).items()]
    meant = {one.variant.kind for one in known if one.has_code != cpu}
    there = {one.variant.kind for one in known}
    asked = (meant or there) if site.accelerator or cpu else there
    return [kind for kind in KINDS if kind in asked]


class _Same:
    """A document as a key: itself, not what is in it."""

    __slots__ = ("document",)

    def __init__(self, document: Document) -> None:
        self.document = document

    def __hash__(self) -> int:
        return id(self.document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.document is other.document


def _read(recipe: Document) -> dict[str, Variant]:
    # `plan --all` asks the same recipe for each site.
    return _validated(_Same(recipe))


@lru_cache(maxsize=64)
def _validated(same: _Same) -> dict[str, Variant]:
    recipe = same.document
    written = config.subtree(recipe, ("variants",))
    if written is None:
        return {}
    parts = {name: config.subtree(written, (name,)) for name in written.data}
    found = {}
    for name, part in parts.items():
        if name in KINDS:
            raise ConfigError(
                f"variants.{name}: a kind's name, which --variant takes for the first of the kind",
                where=written.origin((name,)).where,
                next_step="name it by what it is: wheels, cuda, debian …",
            )
        if part is None:
            raise ConfigError(
                f"variants.{name}: expected a mapping", where=written.origin((name,)).where
            )
        found[name] = config.validate(part, Variant)
    return found
