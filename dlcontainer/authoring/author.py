"""From a file's wishes to a recipe: the parent recipe, its plans, pins, modules, text."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dlcontainer.authoring import (
    foreign_parts,
    own_pins,
    parent_pins,
    parents,
    plain_base,
    recipe_text,
    site_plans,
    verify_text,
)
from dlcontainer.authoring.foreign.image_words import ImageWords
from dlcontainer.authoring.module_names import WheelModules
from dlcontainer.authoring.own_pins import SitePins
from dlcontainer.authoring.readers import near_names
from dlcontainer.authoring.recipe_text import PlainBase, RecipeDraft
from dlcontainer.authoring.site_plans import SitePlan
from dlcontainer.errors import DlcontainerError, MisfitError
from dlcontainer.packages.resolve.resolution import Resolution, ResolveRequest
from dlcontainer.packages.resolve.wishes import WishList
from dlcontainer.planning import variants
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.extends import WrittenRecipe
from dlcontainer.system.progress import Progress

# Steps of progress of one attempt beside those of the sites: the modules.
_STEPS_BESIDE = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorRequest:
    """What a recipe is made for; `below` names a recipe to extend, or leaves it to the wishes.

    `image` has what a foreign file asks for beside its wishes; `version` is the recipe's own, None:
    that of the parent recipe, or 1.
    """

    name: str
    wishes: WishList
    sites: Sequence[str]
    below: str | None = None
    version: str | None = None
    may_change: frozenset[str] = frozenset()
    image: ImageWords | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """What authoring needs of others.

    `read` reads a recipe by name as written; `settle` settles it, or one that is not in a file,
    for a site as typed, and `settle_for_cpus` without device code; `resolve` and `look` ask an
    index: for pins, and for the modules of pinned packages. `scratch` is private.
    """

    recipes: Sequence[str]
    scratch: Path
    read: Callable[[str], WrittenRecipe]
    settle: Callable[[str, WrittenRecipe], Plan]
    settle_for_cpus: Callable[[str, WrittenRecipe], Plan]
    resolve: Callable[[ResolveRequest, Plan], Resolution]
    look: Callable[[Sequence[str], str | None, Plan], Sequence[WheelModules]]
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthoredRecipe:
    """A recipe that is ready to be written, and what it was made of.

    `in_place` says what stands in the place of a foreign file's base.
    """

    name: str
    below: str | None
    files: Mapping[str, str]
    sites: Sequence[SitePins]
    modules: Sequence[str]
    refused: Mapping[str, str]
    notes: Sequence[str]
    image: ImageWords | None = None
    in_place: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """The parent recipe (None: plain Python), the packages for each site, and what to say of it."""

    below: str | None
    sites: Sequence[SitePins]
    notes: Sequence[str]

    @property
    def changed(self) -> list[str]:
        """Names of the pins of the parent recipe that had to change."""
        names = {change.name for site in self.sites for change in site.resolution.changes}
        return sorted(names)


def author(request: AuthorRequest, workshop: Workshop) -> AuthoredRecipe:
    """Make a recipe of a file's wishes for some sites.

    Raises ConfigError for what is wrong in the file, MisfitError where wishes, recipe and site
    contradict each other, BuildError where an index fails.
    """
    choice = _choice(request, workshop)
    wheels = _look(request.wishes, choice.sites, _upstream(choice.sites), workshop)
    draft = _draft(request, choice, wheels, workshop)
    files = {recipe_text.NAME: recipe_text.text(draft)}
    if draft.modules or choice.below is None:
        files[verify_text.NAME] = verify_text.text(draft.modules)
    in_place = (
        None
        if request.image is None
        else foreign_parts.in_place(request.image, choice.below, choice.sites)
    )
    notes = [
        *request.wishes.notes,
        *([f"{request.image.base.origin}: {in_place}"] if request.image else []),
        *choice.notes,
    ]
    for site in choice.sites:
        notes += (f"{site.at.site}: {note}" for note in site.resolution.notes)
    notes += (f"nothing to import in {wheel.package}" for wheel in wheels if not wheel.modules)
    return AuthoredRecipe(
        name=request.name,
        below=choice.below,
        files=files,
        sites=choice.sites,
        modules=draft.modules,
        refused=draft.refused,
        notes=list(dict.fromkeys(notes)),
        image=request.image,
        in_place=in_place,
    )


def _choice(request: AuthorRequest, workshop: Workshop) -> _Choice:
    """Choose the parent recipe, and the packages on it.

    Where the wishes name no framework, what they need may: a first site shows it.
    """
    below = request.below or parents.of_wishes(request.wishes, workshop.recipes)
    workshop.progress.expect(len(request.sites) + _STEPS_BESIDE)
    if below is not None:
        names = workshop.read(below).names
        wishes, notes = parents.without_device_extras(request.wishes, names)
        chosen = _choose(replace(request, wishes=wishes), workshop, below, request.sites)
        return _Choice(below=below, sites=chosen, notes=notes)
    chosen = _choose(request, workshop, None, request.sites[:1])
    needed = parents.named(_pinned(chosen), workshop.recipes)
    if needed is not None:
        note = f"the packages need {_framework_of(chosen, needed)}: on recipe {needed}"
        workshop.progress.expect(len(request.sites) + _STEPS_BESIDE)
        chosen = _choose(request, workshop, needed, request.sites)
        return _Choice(below=needed, sites=chosen, notes=(note,))
    for site in request.sites:
        _require_asked(site, request, workshop)
    chosen += _choose(request, workshop, None, request.sites[1:])
    return _Choice(below=None, sites=chosen, notes=())


def _require_asked(site: str, request: AuthorRequest, workshop: Workshop) -> None:
    """Refuse plain Python at a site with accelerators, unless an image for CPUs was asked for."""
    try:
        workshop.settle(site, _plain(request, workshop))
    except MisfitError as error:
        reason = parents.without_one(request.wishes)
        raise MisfitError(
            f"{request.wishes.path.name} {reason}: an image of plain "
            f"Python has no code for the accelerators of site {site}",
            where=str(request.wishes.path),
            why=error.why,
            next_step="choose a recipe that has a framework: --extends RECIPE; for an image "
            "without code for accelerators: --cpu",
        ) from None


def _draft(
    request: AuthorRequest, choice: _Choice, wheels: Sequence[WheelModules], workshop: Workshop
) -> RecipeDraft:
    chosen, first = choice.sites, choice.sites[0].at.plan
    pins, changed = own_pins.gather(chosen), choice.changed
    imports = _imports(wheels, pins.common) | _verified_again(chosen[0], changed)
    return RecipeDraft(
        name=request.name,
        version=request.version,
        below=choice.below or PlainBase.of(plain_base.of_plan(first)),
        made_of=_made_of(request, chosen),
        wishes=[str(wish.requirement) for wish in request.wishes.wishes],
        step=_step_name([site.at.plan for site in chosen]),
        pins=pins,
        upstream=_upstream(chosen),
        modules=tuple(dict.fromkeys(module for wheel in wheels for module in wheel.modules)),
        imports=imports,
        variant_imports=_variant_imports(chosen, wheels, imports, changed),
        changed=changed,
        refused=_refused(choice.below, chosen, workshop),
        image=foreign_parts.parts(request.image, choice.below, chosen),
        space_mb=recipe_text.space_mb(first.recipe.space_mb, pins),
    )


def _choose(
    request: AuthorRequest, workshop: Workshop, below: str | None, sites: Sequence[str]
) -> list[SitePins]:
    written = _plain(request, workshop) if below is None else workshop.read(below)
    chosen = []
    for site in sites:
        settle_at = partial(workshop.settle_for_cpus if below is None else workshop.settle, site)
        at = site_plans.settle(site, written, settle_at)
        if below is None:
            plain_base.require_python(request.wishes, at.plan)
        chosen.append(SitePins(at=at, resolution=_resolve(request, workshop, at)))
    return chosen


def _plain(request: AuthorRequest, workshop: Workshop) -> WrittenRecipe:
    # A plan wants the files that it names; this recipe's are not written yet.
    base = request.image.base if request.image else None
    draft = plain_base.draft(
        request.name,
        request.wishes.python,
        base.distribution if base else None,
        base.origin if base else str(request.wishes.path),
    )
    (workshop.scratch / verify_text.NAME).touch()
    return WrittenRecipe(document=draft, folder=workshop.scratch)


def _resolve(request: AuthorRequest, workshop: Workshop, at: SitePlan) -> Resolution:
    target = parent_pins.target_of(at.plan)
    if target is None:  # `site_plans.settle` takes no such plan
        raise ValueError("a plan without Python and C library")
    variant = f"variant {at.variant}, " if at.variant else ""
    workshop.progress.step(
        f"choose the packages for {at.site} ({variant}Python {target.python}, {target.arch})"
    )
    wishes = request.wishes
    if request.image is not None:
        # Its Python is its base's, in whose place this plan's stands: `foreign_parts.in_place`.
        wishes = replace(wishes, python=None)
    question = ResolveRequest(
        wishes=wishes,
        target=target,
        pins=parent_pins.pins_of(at.plan),
        verified=parent_pins.verified(at.plan),
        may_change=request.may_change,
    )
    try:
        return workshop.resolve(question, at.plan)
    except DlcontainerError as error:
        slip = _slip(error, request.wishes)
        if slip is not None:
            error.why = f"{error.why.rstrip('.')}; {slip}" if error.why else slip
        raise


def _slip(error: DlcontainerError, wishes: WishList) -> str | None:
    """Say of the line that an error is about whether its name is a slip from a famous one."""
    named = (wish.requirement.name for wish in wishes.wishes if wish.origin == str(error.where))
    name = next(named, None)
    near = near_names.nearest(canonicalize_name(name)) if name else None
    return None if near is None else f"did you mean '{near}'?"


def _pinned(chosen: Sequence[SitePins]) -> list[Requirement]:
    return [Requirement(pin.name) for site in chosen for pin in site.resolution.pins]


def _framework_of(chosen: Sequence[SitePins], recipe: str) -> str:
    names = {canonicalize_name(pin.name) for pin in _pinned(chosen)}
    return " and ".join(sorted(n for n in names if parents.FRAMEWORKS.get(n) == recipe))


def _upstream(chosen: Sequence[SitePins]) -> str | None:
    """Name the index beside the site's; raises MisfitError where the sites' variants differ in it.

    A step of a recipe names one.
    """
    names = {parent_pins.upstream_of(site.at.plan, site.versions.values()) for site in chosen}
    if len(names) > 1:
        sites = ", ".join(site.at.site for site in chosen)
        raise MisfitError(
            f"the framework's own builds of packages differ between {sites}",
            why="a recipe's step takes packages from one further index",
            next_step="make a recipe for each of the sites",
        )
    return next(iter(names), None)


def _look(
    wishes: WishList, chosen: Sequence[SitePins], upstream: str | None, workshop: Workshop
) -> list[WheelModules]:
    """Look into the wheels of what was asked for; of a closure, into those that no other needs."""
    versions = chosen[0].versions
    wished = {canonicalize_name(wish.requirement.name) for wish in wishes.wishes}
    packages = [f"{name}=={versions[name]}" for name in sorted(versions) if name in wished]
    noun = "package" if len(packages) == 1 else "packages"
    workshop.progress.step(f"fetch {len(packages)} {noun} to name their modules")
    if not packages:
        return []
    wheels = list(workshop.look(packages, upstream, chosen[0].at.plan))
    if not wishes.is_locked:
        return wheels
    needed = {name for wheel in wheels for name in wheel.needs - {wheel.package}}
    return [wheel for wheel in wheels if wheel.package not in needed]


def _imports(wheels: Sequence[WheelModules], versions: Mapping[str, str]) -> dict[str, str]:
    """Promise versions of modules whose file states just the wheel's."""
    return {
        module: stated
        for wheel in wheels
        for module, stated in wheel.versions.items()
        if stated == versions.get(wheel.package)
    }


def _variant_imports(
    chosen: Sequence[SitePins],
    wheels: Sequence[WheelModules],
    imports: Mapping[str, str],
    changed: Collection[str],
) -> dict[str, dict[str, str]]:
    by_variant: dict[str, dict[str, str]] = {}
    for site in chosen:
        if site.at.variant is None:
            continue
        meant = {
            module: site.versions[wheel.package]
            for wheel in wheels
            for module in wheel.modules
            if module in imports and wheel.package in site.versions
        } | _verified_again(site, changed)
        differing = {
            name: version for name, version in meant.items() if imports.get(name) != version
        }
        if differing:
            by_variant[site.at.variant] = differing
    return by_variant


def _verified_again(site: SitePins, changed: Collection[str]) -> dict[str, str]:
    """Return the versions at a site of modules that the parent recipe promises and a list changes.

    At another site the same pin may be as it was.
    """
    return {
        module: site.versions.get(canonicalize_name(module), before)
        for module, before in site.at.plan.recipe.verify.imports.items()
        if canonicalize_name(module) in changed
    }


def _refused(below: str | None, chosen: Sequence[SitePins], workshop: Workshop) -> dict[str, str]:
    """Say of each other variant of the parent recipe why it has no packages."""
    if below is None:
        return {}
    taken = {site.at.variant for site in chosen}
    reasons = {name: why for site in chosen for name, why in site.at.refused.items()}
    unknown = "packages were not chosen for it; make the recipe again with its --site"
    return {
        name: reasons.get(name, unknown)
        for name in variants.names(workshop.read(below).document)
        if name not in taken
    }


def _step_name(plans: Sequence[Plan]) -> str:
    taken = {step.name for plan in plans for step in plan.recipe.steps}
    return next(name for name in ("packages", "own-packages", "more-packages") if name not in taken)


def _made_of(request: AuthorRequest, chosen: Sequence[SitePins]) -> str:
    resolver = chosen[0].resolution.resolver
    by = f" with {resolver}" if resolver else ""
    return f"of {request.wishes.path.name} for {', '.join(request.sites)}{by}"
