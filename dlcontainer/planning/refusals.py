"""Refusals of a variant in words: why none is taken, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer import config
from dlcontainer.config import Document, SelectedDocument
from dlcontainer.errors import ConfigError, Mark, MisfitError
from dlcontainer.planning.choice import KINDS, Candidate, ChoiceRequest, VariantRequest, best
from dlcontainer.recipes.stack import Stack
from dlcontainer.sites.site import Site

# Between the ways of a next step.
OR = "; or "
_NONE = "choose another recipe, or write a variant: docs/image/add-a-recipe.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """What a refusal speaks of: a recipe at a site, its variants there, and what was asked."""

    recipe: Document
    site: SelectedDocument[Site]
    candidates: Mapping[str, Candidate]
    wish: ChoiceRequest

    @property
    def _fitting(self) -> str:
        named = [name for name, candidate in self.candidates.items() if not candidate.reasons]
        return OR.join(f"--variant {name}" for name in named) or _NONE

    @property
    def _title(self) -> str:
        return f"recipe {self.recipe.data.get('name')}"

    def unknown(self, request: VariantRequest) -> ConfigError:
        """Refuse a name that no variant has."""
        return ConfigError(
            f"no variant {request.name!r} of {self._title}"
            f"{config.suggest(request.name, [*self.candidates, *KINDS])}",
            where=request.origin.where,
            next_step=self._fitting,
        )

    def named(self, request: VariantRequest, candidate: Candidate) -> MisfitError:
        """Refuse a variant that is asked for and that the site can't have."""
        needs = self.recipe.origin(("variants", candidate.name, "needs")).where
        # A refusal of the recipe's own names its place itself.
        place = "" if candidate.variant.refused else f" ({needs})"
        return MisfitError(
            f"variant {candidate.name!r} of {self._title} is not available at site "
            f"{self.site.value.name}",
            where=request.origin.where,
            why=f"it {'; '.join(candidate.misfits)}{place}",
            next_step=self._fitting,
        )

    def contradictory(self, request: VariantRequest) -> MisfitError:
        """Refuse a variant with device code beside --cpu."""
        return MisfitError(
            f"variant {request.name!r} of {self._title} has device code, but --cpu asks for "
            "an image without",
            where=request.origin.where,
            next_step="remove one of the two options",
        )

    def nothing(self, pool: list[Candidate]) -> MisfitError:
        """Refuse where none of the variants that are meant fits."""
        request, site = self.wish.request, self.site.value
        kind = f"{request.name} " if request else ""
        where = request.origin.where if request else self.recipe.origin(("variants",)).where
        if site.accelerator and not self.wish.cpu:
            return self._without_code(pool, kind, where)
        pool = [candidate for candidate in pool if not (self.wish.cpu and candidate.has_code)]
        reasons = "; ".join(
            f"{candidate.name} {candidate.reasons[0]}" for candidate in pool if candidate.reasons
        )
        missing = f"the recipe has no {kind}variant" + (" for CPUs" if self.wish.cpu else "")
        return MisfitError(
            f"no {kind}variant of {self._title} fits site {site.name}",
            where=where,
            why=reasons or missing,
            next_step=self._fitting if request else _NONE,
        )

    def _without_code(
        self, pool: list[Candidate], kind: str, where: Mark | str | None
    ) -> MisfitError:
        site = self.site.value
        with_code = [candidate for candidate in pool if candidate.has_code]
        nearest = min(
            with_code,
            key=lambda candidate: (candidate.other_vendor, len(candidate.reasons)),
            default=None,
        )
        gpu = site.accelerator
        goal = f"{(gpu.target or gpu.model) if gpu else ''} on {site.arch}"
        if nearest is None:
            why = f"no {kind}variant has device code, and an image without must be asked for"
        else:
            place = self.recipe.origin(("variants", nearest.name, "summary")).where
            reasons = "; ".join(nearest.reasons)
            why = f"the nearest is {nearest.name} ({place}): {_sentence(reasons)}"
        for_cpus = best(pool, site, cpu=True)
        options = (
            [f"add --cpu to use {for_cpus.name}, which has no device code"] if for_cpus else []
        )
        if nearest and any("`mpi`" in reason for reason in nearest.reasons):
            options.append("write the site's `mpi` (docs/centre/add-a-site.md)")
        options.append(f"write a variant for {goal} (docs/image/add-a-recipe.md, Variants)")
        return MisfitError(
            f"no {kind}variant of {self._title} runs on the accelerators of site {site.name} "
            f"({goal})",
            where=where,
            why=why,
            next_step=OR.join(options),
        )


def _sentence(reasons: str) -> str:
    """Put a subject before a reason that begins with a form of *be*: behind a colon it has none."""
    return f"it {reasons}" if reasons.startswith("is ") else reasons


def require_asked(recipe: Document, site: SelectedDocument[Site], *, cpu: bool) -> None:
    """Refuse a recipe without variants whose device code is not what the site, or --cpu, wants."""
    coded = device_keys(recipe)
    name, gpu = recipe.data.get("name"), site.value.accelerator
    if coded and cpu:
        raise MisfitError(
            f"recipe {name} has device code, but --cpu asks for an image without",
            where=recipe.origin(("stack", coded[0])).where,
            next_step="remove --cpu, or choose another recipe",
        )
    if gpu and not coded and not cpu:
        keys = ", ".join(f"stack.{key}" for key in Stack.DEVICE_KEYS)
        options = (
            "add --cpu if you want an image for CPUs",
            f"declare the device code of the build: {keys} (docs/image/add-a-recipe.md)",
        )
        raise MisfitError(
            f"recipe {name} declares no device code, but site {site.value.name} has {gpu.model}",
            where=recipe.origin(("stack",) if recipe.data.get("stack") else ("name",)).where,
            why="programs in its image would not use the accelerators "
            f"({site.document.origin(('accelerator',)).where})",
            next_step=OR.join(options),
        )


def device_keys(recipe: Document) -> list[str]:
    """Name the keys in which a recipe itself, without its variants, declares device code."""
    stack = config.subtree(recipe, ("stack",))
    return [key for key in Stack.DEVICE_KEYS if stack and stack.data.get(key)]
