"""The matrix: every recipe for every site, epoch and node type; unsupported combinations too."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dlcontainer.config import Document, Sourced
from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.planning import candidates, variants
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.site import STATUSES, Site, Target, read_target, targets


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Where sites and recipes come from; each is asked for the same thing once."""

    site: Callable[[str, Target], Sourced[Site]]
    recipe: Callable[[str], Document]
    settle: Callable[[Sourced[Site], str, str | None], Plan]
    # what `settle` asks for: variants without device code
    cpu: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """One recipe for one target: a plan; or why it is unsupported; or an error in a file."""

    target: str
    recipe: str
    kind: str | None
    plan: Plan | None = None
    reason: str | None = None
    error: ConfigError | None = None


def combinations(
    sites: Sequence[str], recipes: Sequence[str], sources: Sources, *, archived: bool
) -> Iterator[Combination]:
    """Settle each recipe for each target: its vendor and its distro variant, where it has them.

    At a site with accelerators those with device code, or with `sources.cpu` those without.
    Sites of the archive only where `archived` says so. A site or recipe that is wrong is a
    combination with an error, and the rest goes on. Sites in use come first.
    """
    settled: list[tuple[str, Sourced[Site]]] = []
    for name in sites:
        bare, meant = read_target(name)
        try:
            usual = sources.site(bare, meant).value
            if archived or usual.status != "archive":
                settled += [
                    (one.named(bare), sources.site(bare, one)) for one in targets(usual, meant)
                ]
        except ConfigError as error:
            yield Combination(target=name, recipe="*", kind=None, error=error)
    for target, site in sorted(settled, key=lambda one: STATUSES.index(one[1].value.status)):
        for recipe in recipes:
            yield from _of_target(target, site, recipe, sources)


def _of_target(
    target: str, site: Sourced[Site], recipe: str, sources: Sources
) -> Iterator[Combination]:
    try:
        written = sources.recipe(recipe)
        kinds: Sequence[str | None] = variants.kinds(
            written, site.value, candidates.judge, cpu=sources.cpu
        ) or [None]
    except ConfigError as error:
        yield Combination(target=target, recipe=recipe, kind=None, error=error)
        return
    for kind in kinds:
        try:
            plan = sources.settle(site, recipe, kind)
            yield Combination(target=target, recipe=recipe, kind=kind, plan=plan)
        except MisfitError as error:
            yield Combination(target=target, recipe=recipe, kind=kind, reason=error.brief)
        except ConfigError as error:
            yield Combination(target=target, recipe=recipe, kind=kind, error=error)


def that_go(site: Sourced[Site], recipe: str, asked: str | None, sources: Sources) -> list[str]:
    """List the options with which a refused recipe goes with a site after all.

    Other variants at the same epoch and node type; other epochs and node types with the same
    request.
    """
    value = site.value
    here = Target(epoch=value.epoch, node_type=value.node_type)
    found = [
        f"--variant {name}"
        for name in variants.names(sources.recipe(recipe))
        if name != asked and _goes(sources, site.value.name, here, recipe, name)
    ]
    for other in targets(value):
        if other != here and _goes(sources, value.name, other, recipe, asked):
            options = (("--epoch", other.epoch), ("--node-type", other.node_type))
            found.append(" ".join(f"{option} {name}" for option, name in options if name))
    return found


def _goes(sources: Sources, site: str, target: Target, recipe: str, asked: str | None) -> bool:
    try:
        sources.settle(sources.site(site, target), recipe, asked)
    except (ConfigError, MisfitError):
        return False
    return True
