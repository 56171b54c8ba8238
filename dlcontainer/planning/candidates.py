"""Candidates: a recipe's variants against a site's facts, each with all that speaks against it."""

from collections.abc import Iterator, Mapping

from dlcontainer import config
from dlcontainer.config import Document
from dlcontainer.planning import device_code, newness
from dlcontainer.planning.choice import Candidate
from dlcontainer.planning.conflicts import table, toolkits
from dlcontainer.planning.conflicts.model import Contradiction
from dlcontainer.planning.versions import compare, numbers, written
from dlcontainer.recipes.stack import Stack
from dlcontainer.recipes.variant import Needs, Variant
from dlcontainer.sites.site import Site

# Before the words of a recipe that can't have a variant.
REFUSED = "is refused by the recipe: "


def judge(recipe: Document, name: str, variant: Variant, site: Site) -> Candidate:
    """Compare a variant with a site."""
    written = _written_stack(recipe, name)
    stack = _plain(written)
    place = recipe.origin(("variants", name, "refused")).where
    refused = (f"{REFUSED}{variant.refused} ({place})",) if variant.refused else ()
    # Last: where the site can't have it anyway, that is the reason.
    misfits = (*_misfits(variant.needs, stack, site), *refused)
    other_vendor = _of_other_vendor(variant.needs, site)
    # Another vendor's build is one misfit, not three.
    clashes = () if other_vendor else _clashes(stack, site)
    needs = variant.needs
    target = site.accelerator.target if site.accelerator else None
    return Candidate(
        name=name,
        variant=variant,
        has_code=any(written.get(key) for key in Stack.DEVICE_KEYS)
        or bool(needs.gpu or needs.toolkit or set(needs.accelerator) - {"none"}),
        other_vendor=other_vendor,
        code=device_code.best(stack.gpu_targets or needs.gpu, target) if target else None,
        older_than_gpu=any(toolkits.older_than_gpu(site, stack)),
        newness=newness.of_variant(recipe, name, stack),
        misfits=misfits,
        clashes=tuple(clashes),
    )


def _clashes(stack: Stack, site: Site) -> Iterator[str]:
    for rule in table.STACK:
        yield from (
            finding.what
            for finding in rule.check(site, stack)
            if isinstance(finding, Contradiction)
        )


def _written_stack(recipe: Document, name: str) -> Mapping[str, object]:
    written = config.subtree(recipe, ("stack",))
    changed = config.subtree(recipe, ("variants", name, "changes", "stack"))
    return {**(written.data if written else {}), **(changed.data if changed else {})}


def _plain(written: Mapping[str, object]) -> Stack:
    """Read what of a stack decides here; what a template fills in is judged once it is settled."""
    plain = {
        key: value
        for key, value in written.items()
        if key in Stack.DEVICE_KEYS and "{{" not in str(value)
    }
    try:
        return Stack.model_validate(plain, strict=False)
    except ValueError:
        return Stack()  # validating the recipe says what is wrong with it, and where


def _misfits(needs: Needs, stack: Stack, site: Site) -> Iterator[str]:
    gpu = site.accelerator
    facts: tuple[tuple[str, tuple[str, ...], str | None], ...] = (
        ("arch", needs.arch, site.arch),
        ("accelerator", needs.accelerator, gpu.vendor if gpu else "none"),
        ("cpu.target", needs.cpu, site.cpu.target if site.cpu else None),
    )
    for key, accepted, actual in facts:
        if accepted and actual not in accepted:
            yield f"needs {key} {' or '.join(accepted)}, the site's is {actual or 'not known'}"
    yield from _of_target(needs, stack, site)
    yield from _of_mpi(needs, site)
    yield from _of_toolkit(needs, site)


def _of_toolkit(needs: Needs, site: Site) -> Iterator[str]:
    least, gpu = numbers(needs.toolkit or ""), site.accelerator
    if not least:
        return
    # A variant that names how the host's MPI comes in is for an image with an MPI.
    key, newest = toolkits.newest_toolkit(site, with_mpi=bool(needs.mpi_mode))
    if compare(newest or (), least) not in {0, 1}:
        if key == "driver":
            yield (
                f"needs a driver that runs ROCm {needs.toolkit}, the site's is "
                f"{gpu and gpu.driver}, which runs it up to {written(newest or ())}"
            )
            return
        actual = (gpu and gpu.toolkit) or "not known"
        yield f"needs accelerator.toolkit {needs.toolkit} or newer, the site's is {actual}"
    elif needs.mpi_mode and toolkits.brings_gtl(site) and newest and newest[0] > least[0]:
        yield (
            f"is made with ROCm {needs.toolkit}, and the host's GPU-aware MPI wants the HIP of "
            f"ROCm {newest[0]} (accelerator.toolkit {gpu and gpu.toolkit})"
        )


def _of_target(needs: Needs, stack: Stack, site: Site) -> Iterator[str]:
    target = site.accelerator.target if site.accelerator else None
    if target is None:
        # Where there is no accelerator, or another vendor's, that is said already.
        targets = needs.gpu or (stack.gpu_targets if site.accelerator else ())
        if targets and (needs.gpu or not _of_other_vendor(needs, site)):
            yield f"needs accelerator.target {' or '.join(targets)}, the site's is not known"
    elif needs.gpu and device_code.best(needs.gpu, target) is None:
        yield f"needs accelerator.target {' or '.join(needs.gpu)}, the site's is {target}"


def _of_other_vendor(needs: Needs, site: Site) -> bool:
    vendor = site.accelerator.vendor if site.accelerator else "none"
    return bool(needs.accelerator) and vendor not in needs.accelerator


def _of_mpi(needs: Needs, site: Site) -> Iterator[str]:
    demands = [
        f"{key} {' or '.join(values)}"
        for key, values in (("mpi.family", needs.mpi), ("mpi.mode", needs.mpi_mode))
        if values
    ]
    if demands and site.mpi is None:
        yield f"needs {' and '.join(demands)}, the site file does not write `mpi`"
        return
    if site.mpi is not None and needs.mpi and not set(needs.mpi) & set(site.mpi.families):
        families = " or ".join(site.mpi.families)
        yield f"needs mpi.family {' or '.join(needs.mpi)}, the site's is {families}"
    if site.mpi is not None and needs.mpi_mode and site.mpi.mode not in needs.mpi_mode:
        yield f"needs mpi.mode {' or '.join(needs.mpi_mode)}, the site's is {site.mpi.mode}"
