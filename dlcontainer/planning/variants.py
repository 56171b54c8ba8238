"""Variants of a recipe: which of them a site can have, which is meant, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer import config
from dlcontainer.config import Document, Origin, Sourced
from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.planning.versions import compare, numbers
from dlcontainer.recipes.recipe import Needs, Variant
from dlcontainer.sites.site import Site

KINDS = ("vendor", "distro")


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The variant that is meant; `passed_over` says of each other why it was not."""

    name: str
    kind: str
    why: str
    usual: bool
    passed_over: Mapping[str, str]


def choose(
    recipe: Document, site: Sourced[Site], asked: tuple[str, Origin] | None
) -> Choice | None:
    """Choose a variant: by name or kind where one is asked for, else the first that fits.

    None for a recipe without variants. Raises ConfigError for an unknown name, MisfitError for a
    variant that the site can't have.
    """
    known = _read(recipe)
    if not known:
        if asked:
            name = recipe.data.get("name")
            raise ConfigError(f"recipe {name} has no variants", where=asked[1].where)
        return None
    misfits = {name: _misfit(variant.needs, site.value) for name, variant in known.items()}
    fitting = [name for name, reason in misfits.items() if reason is None]
    reasons = {name: reason for name, reason in misfits.items() if reason is not None}
    name = _named(recipe, site, known, asked, fitting, reasons) if asked else None
    if name is None:
        if not fitting:
            raise _nothing_fits(recipe, site, reasons)
        name = fitting[0]
    why = "asked for" if asked else "the first that fits"
    others = {other: "not the first that fits" for other in fitting if other != name} | reasons
    return Choice(
        name=name,
        kind=known[name].kind,
        why=f"{why}: {known[name].summary}",
        usual=bool(fitting) and name == fitting[0],
        passed_over={other: others[other] for other in known if other in others},
    )


def names(recipe: Document, kind: str | None = None) -> list[str]:
    """Name a recipe's variants in their order, all or those of one kind."""
    return [name for name, variant in _read(recipe).items() if kind in (None, variant.kind)]


def apply(recipe: Document, choice: Choice | None) -> Document:
    """Lay the chosen variant's changes over the recipe."""
    plain = config.without(recipe, "variants")
    if choice is None:
        return plain
    changes = config.subtree(recipe, ("variants", choice.name, "changes"))
    for key in ("schema", "name", "variant", "variants"):
        if changes and key in changes.data:
            raise ConfigError(
                f"variants.{choice.name}.changes.{key}: is the whole recipe's",
                where=changes.origin((key,)).where,
            )
    base = changes.data.get("base") if changes else None
    if isinstance(base, dict) and ("image" in base or "distribution" in base):
        # A base is one choice: an image takes a distribution's place and the other way round.
        plain = config.without(plain, "base")
    chosen = config.from_data({"variant": choice.name}, layer="variant")
    return config.merge(plain, changes or chosen, chosen)


def _read(recipe: Document) -> dict[str, Variant]:
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


def _misfit(needs: Needs, site: Site) -> str | None:
    """Say why a site can't have what needs this; None where it can."""
    vendor = site.accelerator.vendor if site.accelerator else "none"
    facts: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
        ("arch", needs.arch, site.arch),
        ("accelerator", needs.accelerator, vendor),
        ("cpu.target", needs.cpu, site.cpu.target if site.cpu else None),
        ("accelerator.target", needs.gpu, site.accelerator.target if site.accelerator else None),
        ("mpi.mode", needs.mpi_mode, site.mpi.mode if site.mpi else None),
    )
    for key, wanted, there in facts:
        if wanted and there not in wanted:
            return f"needs {key} {' or '.join(wanted)}, the site's is {there or 'not known'}"
    families = site.mpi.families if site.mpi else ()
    if needs.mpi and not set(needs.mpi) & set(families):
        there = " or ".join(families) or "not known"
        return f"needs mpi.family {' or '.join(needs.mpi)}, the site's is {there}"
    toolkit = site.accelerator.toolkit if site.accelerator else None
    least = numbers(needs.toolkit or "")
    if least and compare(numbers(toolkit or "") or (), least) not in {0, 1}:
        there = toolkit or "not known"
        return f"needs accelerator.toolkit {needs.toolkit} or newer, the site's is {there}"
    return None


def _named(
    recipe: Document,
    site: Sourced[Site],
    known: Mapping[str, Variant],
    asked: tuple[str, Origin],
    fitting: list[str],
    reasons: Mapping[str, str],
) -> str:
    name, origin = asked
    there = ", ".join(fitting) or "none"
    next_step = f"variants that site {site.value.name} can have: {there}"
    if name in known:
        if name in fitting:
            return name
        raise MisfitError(
            f"variant {name!r} of recipe {recipe.data.get('name')} is not available at site "
            f"{site.value.name}",
            where=origin.where,
            why=f"it {reasons[name]} ({recipe.origin(('variants', name, 'needs')).where})",
            next_step=next_step,
        )
    if name in KINDS:
        of_kind = [other for other in fitting if known[other].kind == name]
        if of_kind:
            return of_kind[0]
        said = "; ".join(
            f"{other} {reasons[other]}" for other in known if known[other].kind == name
        )
        raise MisfitError(
            f"no {name} variant of recipe {recipe.data.get('name')} fits site {site.value.name}",
            where=origin.where,
            why=said or f"the recipe has no {name} variant",
            next_step=next_step,
        )
    raise ConfigError(
        f"no variant {name!r} of recipe {recipe.data.get('name')}"
        f"{config.suggest(name, [*known, *KINDS])}",
        where=origin.where,
        next_step=next_step,
    )


def _nothing_fits(recipe: Document, site: Sourced[Site], reasons: Mapping[str, str]) -> MisfitError:
    return MisfitError(
        f"no variant of recipe {recipe.data.get('name')} fits site {site.value.name}",
        where=recipe.origin(("variants",)).where,
        why="; ".join(f"{name} {reason}" for name, reason in reasons.items()),
        next_step="take another recipe, or write a variant: docs/add-a-recipe.md",
    )
