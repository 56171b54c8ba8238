"""Variants of a recipe: which of them a site can have, which is meant, and why."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from dlcontainer import config
from dlcontainer.config import Document, SelectedDocument, ValueOrigin
from dlcontainer.errors import ConfigError
from dlcontainer.planning import refusals
from dlcontainer.planning.choice import (
    KINDS,
    Candidate,
    ChoiceRequest,
    Judge,
    VariantChoice,
    VariantRequest,
    best,
    by_newness,
)
from dlcontainer.planning.refusals import Refusal
from dlcontainer.recipes.variant import Variant
from dlcontainer.sites.site import Site


def wish(over: Sequence[Document], typed: str | None, *, cpu: bool) -> ChoiceRequest:
    """Return what is asked for: on the command line, else by what lies over the recipe."""
    if typed is not None:
        named = VariantRequest(name=typed, origin=ValueOrigin(layer="--variant", mark=None))
        return ChoiceRequest(request=named, cpu=cpu)
    for change in reversed(over):
        name = change.data.get("variant")
        if isinstance(name, str):
            return ChoiceRequest(
                request=VariantRequest(name=name, origin=change.origin(("variant",))), cpu=cpu
            )
    return ChoiceRequest(cpu=cpu)


def choose(
    recipe: Document, site: SelectedDocument[Site], wish: ChoiceRequest, judge: Judge
) -> VariantChoice | None:
    """Choose a variant: by name or kind where one is asked for, else the best that runs.

    At a site with accelerators only a variant with device code, unless `wish.cpu` or a name asks
    for another. None for a recipe without variants, for which the same holds. Raises ConfigError
    for an unknown name, MisfitError where the site can't have what is asked for.
    """
    request = wish.request
    variants = _read(recipe)
    if not variants:
        if request:
            name = recipe.data.get("name")
            raise ConfigError(f"recipe {name} has no variants", where=request.origin.where)
        refusals.require_asked(recipe, site, cpu=wish.cpu)
        return None
    candidates = {
        name: judge(recipe, name, variant, site.value) for name, variant in variants.items()
    }
    refuse = Refusal(recipe=recipe, site=site, candidates=candidates, wish=wish)
    if request and request.name not in (*candidates, *KINDS):
        raise refuse.unknown(request)
    if request and request.name in candidates:
        chosen = candidates[request.name]
        if chosen.misfits:
            raise refuse.named(request, chosen)
        if wish.cpu and chosen.has_code:
            raise refuse.contradictory(request)
    else:
        of_kind = [
            candidate
            for candidate in candidates.values()
            if not request or candidate.variant.kind == request.name
        ]
        winner = best(of_kind, site.value, cpu=wish.cpu)
        if winner is None:
            raise refuse.nothing(of_kind)
        chosen = winner
    usual = best(candidates.values(), site.value, cpu=False)
    return VariantChoice(
        name=chosen.name,
        kind=chosen.variant.kind,
        why=f"{_why(chosen, site.value, wish)}: {chosen.variant.summary}",
        usual=chosen is usual,
        passed_over={
            name: _why_not(candidate, chosen, site.value)
            for name, candidate in candidates.items()
            if candidate is not chosen
        },
        status=chosen.variant.status,
        lock=chosen.variant.lock,
        refused=_refused(candidates, chosen),
        fitting=tuple(
            name
            for name, candidate in candidates.items()
            if candidate is not chosen and not candidate.misfits
        ),
    )


def _refused(candidates: Mapping[str, Candidate], chosen: Candidate) -> tuple[str, ...]:
    """Say which variants nothing but the recipe keeps from running here, once for each reason."""
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for name, candidate in candidates.items():
        alone = candidate.variant.refused and len(candidate.reasons) == 1
        if alone and candidate.has_code == chosen.has_code:
            why = candidate.variant.refused or ""
            by_reason.setdefault(why, []).append((name, candidate.reasons[0]))
    notes = []
    for why, members in by_reason.items():
        if len(members) == 1:
            ((name, reason),) = members
            notes.append(f"variant {name} would run here, but {reason}")
            continue
        names = ", ".join(name for name, _ in members)
        notes.append(f"variants {names} would run here, but are refused by the recipe: {why}")
    return tuple(notes)


def _why(chosen: Candidate, site: Site, wish: ChoiceRequest) -> str:
    if wish.request:
        return "asked for"
    if wish.cpu:
        return "without device code, as asked for; the first that fits"
    if chosen.code and site.accelerator:
        return f"the best that runs on {site.accelerator.target} ({chosen.code.words})"
    return "the first that fits"


def _why_not(candidate: Candidate, chosen: Candidate, site: Site) -> str:
    if candidate.reasons:
        return candidate.reasons[0]
    if site.accelerator and not candidate.has_code:
        return "has no device code (--cpu takes such a variant)"
    if candidate.code and candidate.rank > chosen.rank:
        older = ", of a CUDA that is older than the GPU" if candidate.older_than_gpu else ""
        return f"runs less well: {candidate.code.words}{older}"
    if by_newness(chosen, site) and candidate.newness.order < chosen.newness.order:
        return f"older: {_dated(candidate)}"
    return "not the first that fits"


def _dated(candidate: Candidate) -> str:
    parts = (
        candidate.newness.version,
        candidate.newness.toolkit and f"toolkit {candidate.newness.toolkit}",
    )
    return ", ".join(filter(None, parts))


def names(recipe: Document, kind: str | None = None) -> list[str]:
    """Name a recipe's variants in their order, all or those of one kind."""
    return [name for name, variant in _read(recipe).items() if kind in (None, variant.kind)]


def kinds(recipe: Document, site: Site, judge: Judge, *, cpu: bool) -> list[str]:
    """Name the kinds of variants that are worth a question at a site.

    At one with accelerators, or with `cpu`, a kind without a variant that may be taken is
    left out beside one that has some.
    """
    candidates = [judge(recipe, name, variant, site) for name, variant in _read(recipe).items()]
    meant = {candidate.variant.kind for candidate in candidates if candidate.has_code != cpu}
    kinds_here = {candidate.variant.kind for candidate in candidates}
    worth_asking = (meant or kinds_here) if site.accelerator or cpu else kinds_here
    return [kind for kind in KINDS if kind in worth_asking]


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
        if recipe.data.get("variants") is not None:
            raise ConfigError(
                "variants: expected a mapping (NAME: …)", where=recipe.origin(("variants",)).where
            )
        return {}
    parts = {name: config.subtree(written, (name,)) for name in written.data}
    variants = {}
    for name, part in parts.items():
        if name in KINDS:
            raise ConfigError(
                f"variants.{name}: this is the name of a kind, and --variant {name} would "
                "mean the first variant of the kind",
                where=written.origin((name,)).where,
                next_step="name the variant by its contents: wheels, cuda, debian …",
            )
        if part is None:
            raise ConfigError(
                f"variants.{name}: expected a mapping", where=written.origin((name,)).where
            )
        variants[name] = config.validate(part, Variant)
    return variants
