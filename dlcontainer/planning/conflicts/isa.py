"""Code against processors: what a framework's build holds, and what a site's parts run."""

from collections.abc import Iterator

from dlcontainer.planning import device_code
from dlcontainer.planning.compatibility import CPU_FEATURES, CPU_SOURCE, GENERAL_CPUS
from dlcontainer.planning.conflicts.model import Contradiction, Finding, UnknownFact
from dlcontainer.planning.device_code import GFX_SOURCE, PTX_SOURCE, SASS_SOURCE
from dlcontainer.planning.versions import compare, numbers
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.recipes.stack import Stack
from dlcontainer.sites.facts import Accelerator
from dlcontainer.sites.site import Site


def gpu_code(site: Site, stack: Stack) -> Iterator[Finding]:
    """Refuse a build without code for the site's GPUs."""
    codes = stack.gpu_targets
    if site.accelerator is None or not codes:
        return
    target = site.accelerator.target
    if target is None:
        yield UnknownFact(
            text="the site's GPU target is unknown: cannot guarantee that the build "
            f"({', '.join(codes)}) has device code for it"
        )
        return
    runs = device_code.best(codes, target)
    if runs is None:
        nvidia = device_code.capability(target) is not None
        yield _no_code(target, codes, SASS_SOURCE if nvidia else GFX_SOURCE)
    elif runs.code.startswith("compute_"):
        yield from _by_ptx(site.accelerator, stack.cuda, target)


def _no_code(target: str, codes: tuple[str, ...], source: str) -> Contradiction:
    return Contradiction(
        what=f"the build has device code for {', '.join(codes)}, but not for {target}",
        why=f"the first kernel fails with 'no kernel image' or a similar error ({source})",
        in_site=("accelerator", "target"),
        in_recipe=("stack", "gpu_targets"),
        way_out=f"use a variant whose framework is built for {target}",
    )


def _by_ptx(accelerator: Accelerator, cuda: str | None, target: str) -> Iterator[Finding]:
    cuda_numbers, toolkit_numbers = numbers(cuda or ""), numbers(accelerator.toolkit or "")
    order = compare(cuda_numbers, toolkit_numbers[:2]) if cuda_numbers and toolkit_numbers else None
    if order == 1:
        yield Contradiction(
            what=f"for {target} the build has only PTX of CUDA {cuda}, but the site's "
            f"toolkit is {accelerator.toolkit}",
            why=PTX_SOURCE,
            in_site=("accelerator", "toolkit"),
            in_recipe=("stack", "gpu_targets"),
            way_out=f"use a variant whose framework is built for {target}",
        )
    elif order is None:
        yield UnknownFact(
            text=f"for {target} the build has only PTX, which a driver older than its "
            "toolkit cannot compile: cannot guarantee that it starts"
        )


def cpu_code(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse an image for a processor that can do more than the site's."""
    target = recipe.stack.cpu_target
    if target is None:
        return
    site_target = site.cpu.target if site.cpu else None
    if target == site_target:
        return
    needs, has = CPU_FEATURES.get(target), CPU_FEATURES.get(site_target or "")
    if needs is None or has is None:
        unknown = site_target or "not known" if needs else target
        yield UnknownFact(
            text=f"the image is for {target}, the site's processor is "
            f"{site_target or 'not known'}: dlcontainer does not know {unknown!r}, and "
            "cannot guarantee that the image runs"
        )
    elif not needs <= has:
        general = [name for name in GENERAL_CPUS if CPU_FEATURES[name] <= has]
        yield Contradiction(
            what=f"the image is built for {target}, but the site's processor is {site_target}",
            why=f"programs end with an illegal instruction (SIGILL): {site_target} does not "
            f"have all instructions of {target} ({CPU_SOURCE})",
            in_site=("cpu", "target"),
            in_recipe=("stack", "cpu_target"),
            way_out=f"use a variant for {' or '.join([str(site_target), *general[:1]])}, or "
            "another node type",
        )
