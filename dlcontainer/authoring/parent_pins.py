"""What a settled plan fixes for packages on top of it: target, pins and how firmly each stands."""

from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.packages.resolve.resolution import ParentPin, Strength, Target
from dlcontainer.planning import pins
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.recipe import Recipe

# Frameworks, and what each is compiled against or loads: another version of it is another build.
_HARD = frozenset({"mxnet", "tensorflow", "torch", "triton"})
_HARD_BEGIN = ("cuda-", "jax", "mxnet-", "nvidia-", "tensorflow-", "triton-", "pytorch-triton")


def pins_of(plan: Plan) -> tuple[ParentPin, ...]:
    """List the Python packages that a plan pins, each once, with its place.

    Of a package that a later step pins again the later version holds.
    """
    holding: dict[str, ParentPin] = {}
    for planned in pins.of_plan(plan):
        requirement = Requirement(planned.package)
        holding[canonicalize_name(requirement.name)] = ParentPin(
            requirement=requirement,
            origin=planned.origin,
            strength=_strength(requirement, plan.recipe),
        )
    return tuple(holding.values())


def target_of(plan: Plan) -> Target | None:
    """Return what a plan's packages run on; None where its base does not say."""
    facts = plan.recipe.base.facts
    if facts is None or facts.python is None or facts.glibc is None:
        return None
    return Target(python=facts.python, arch=plan.site.arch, glibc=facts.glibc)


def verified(plan: Plan) -> frozenset[str]:
    """Name the pinned packages whose modules the recipe's verify imports."""
    modules = plan.recipe.verify.imports
    names = {canonicalize_name(pin.requirement.name) for pin in pins_of(plan)}
    return frozenset(name for name in names if any(_has(name, module) for module in modules))


def unseen(plan: Plan) -> str | None:
    """Return why no resolver can add packages to a plan's image; None where one can.

    What an image, a distribution or a compiler brought is in no list of pins: a resolver would
    put its own beside it, or over it.
    """
    recipe = plan.recipe
    if recipe.base.image and not pins_of(plan):
        return "the base image has Python packages of its own that no resolver can list"
    usual = Recipe.model_fields["interpreter"].default
    conda = any(step.conda_packages for step in recipe.steps)
    if conda or recipe.interpreter != usual:
        return "its Python is not the base's own, so the packages' wheels can't be chosen ahead"
    modules, names = list(recipe.verify.imports), [pin.requirement.name for pin in pins_of(plan)]
    if modules and not any(_has(name, module) for name in names for module in modules):
        return f"its {' and '.join(modules[:3])} are installed by other means than pinned wheels"
    if target_of(plan) is None:
        return "Python and C library of its base are not known (base.system)"
    return None


def upstream_of(plan: Plan, versions: Iterable[str]) -> str | None:
    """Name the further index for these versions: that of the framework, for a local part alone.

    A version such as 0.28.0+cpu is on the framework's own index and on no general one.
    """
    if not any(Version(version).local for version in versions):
        return None
    steps = (step.python_packages for step in plan.recipe.steps)
    return next((packages.upstream for packages in steps if packages and packages.upstream), None)


def _strength(requirement: Requirement, recipe: Recipe) -> Strength:
    name = canonicalize_name(requirement.name)
    has_local = any(Version(part.version).local for part in requirement.specifier)
    # What the recipe has a version for is what it is made for.
    is_subject = name in map(canonicalize_name, recipe.versions)
    firm = name in _HARD or name.startswith(_HARD_BEGIN) or has_local or is_subject
    return "hard" if firm else "soft"


def _has(package: str, module: str) -> bool:
    """Return whether a package is the one of a module: tensorflow-cpu has tensorflow."""
    name, of_module = canonicalize_name(package), canonicalize_name(module)
    return name == of_module or name.startswith(f"{of_module}-")
