"""The matrix: every recipe for every site, epoch and node type; unsupported combinations too."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dlcontainer.config import Document, SelectedDocument
from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.planning import candidates, variants
from dlcontainer.planning.plan import Plan
from dlcontainer.sites.site import STATUSES, Site, SiteTarget, read_target, targets


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSources:
    """Where sites and recipes come from; each is asked for the same thing once."""

    site: Callable[[str, SiteTarget], SelectedDocument[Site]]
    recipe: Callable[[str], Document]
    settle: Callable[[SelectedDocument[Site], str, str | None], Plan]
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
    sites: Sequence[str], recipes: Sequence[str], sources: PlanSources, *, archived: bool
) -> Iterator[Combination]:
    """Settle each recipe for each target: its vendor and its distro variant, where it has them.

    At a site with accelerators those with device code, or with `sources.cpu` those without.
    Sites of the archive only where `archived` says so. A site or recipe that is wrong is a
    combination with an error, and the rest goes on. Sites in use come first.
    """
    settled: list[tuple[str, SelectedDocument[Site]]] = []
    for name in sites:
        bare, meant = read_target(name)
        try:
            usual = sources.site(bare, meant).value
            if archived or usual.status != "archive":
                settled += [
                    (target.named(bare), sources.site(bare, target))
                    for target in targets(usual, meant)
                ]
        except ConfigError as error:
            yield Combination(target=name, recipe="*", kind=None, error=error)
    for target, site in sorted(settled, key=lambda target: STATUSES.index(target[1].value.status)):
        for recipe in recipes:
            yield from _of_target(target, site, recipe, sources)


def _of_target(
    target: str, site: SelectedDocument[Site], recipe: str, sources: PlanSources
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


def that_go(
    site: SelectedDocument[Site], recipe: str, variant: str | None, sources: PlanSources
) -> list[str]:
    """List the options with which a refused recipe goes with a site after all.

    Other variants at the same epoch and node type; other epochs and node types with the same
    request.
    """
    value = site.value
    meant = SiteTarget(epoch=value.epoch, node_type=value.node_type)
    choices = [
        f"--variant {name}"
        for name in variants.names(sources.recipe(recipe))
        if name != variant and _goes(sources, site.value.name, meant, recipe, name)
    ]
    for target in targets(value):
        if target != meant and _goes(sources, value.name, target, recipe, variant):
            options = (("--epoch", target.epoch), ("--node-type", target.node_type))
            choices.append(" ".join(f"{option} {name}" for option, name in options if name))
    return choices


def _goes(
    sources: PlanSources, site: str, target: SiteTarget, recipe: str, variant: str | None
) -> bool:
    try:
        sources.settle(sources.site(site, target), recipe, variant)
    except (ConfigError, MisfitError):
        return False
    return True
