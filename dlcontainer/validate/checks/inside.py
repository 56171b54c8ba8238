"""Checks of what the probe finds inside an image."""

from collections.abc import Iterator, Mapping

from dlcontainer.formats import labels as names
from dlcontainer.validate.checks import file
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer


def runs(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Run the probe in the image, by its own Python."""
    if isinstance(image.probed, MissingAnswer):
        yield CheckOutcome(ok=False, detail=image.probed.why, next_step=image.probed.next_step)
        return
    mode = image.context.execution.capabilities.run_mode
    yield CheckOutcome(ok=True, detail=f"engine mode {mode}{image.remark}")


def contained(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Yield how an image that nobody here built is kept apart; nothing of one that is trusted."""
    if image.contained == "alone":
        yield CheckOutcome(
            ok=True, detail="no network, no home, no privilege, none of the site's binds"
        )
    elif image.contained == "apart":
        detail = "no home, no privilege; the engine can't take the network away here"
        yield CheckOutcome(ok=None, detail=detail)


def surroundings(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Yield what the site puts around the image in all checks; nothing at a site that adds nothing.

    A fact that does not hold on this host is not tried, and no fault of the image's.
    """
    applied = image.surroundings
    if applied.left_out:
        yield CheckOutcome(ok=None, detail=f"left out: {'; '.join(applied.left_out)}")
        return
    parts = applied.declared()
    if parts:
        detail = "; ".join(f"{name} {' '.join(values)}" for name, values in parts.items())
        yield CheckOutcome(ok=True, detail=detail)


def machine(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the machine that programs see inside with the image's architecture."""
    machine_name = image.inside["machine"]
    yield CheckOutcome(
        ok=machine_name == image.arch,
        detail=f"{machine_name} inside",
        next_step=f"use an unchanged copy of the image: its programs are not for {image.arch}, "
        "the architecture in its header",
    )


def python(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that Python runs from the recipe's prefix."""
    inside = image.inside
    same = inside["sys_prefix"] == str(inside["prefix"])
    yield CheckOutcome(
        ok=same,
        detail=f"{inside['python']} in {inside['sys_prefix']}",
        next_step=f"let the recipe's steps create the environment in its prefix, "
        f"{inside['prefix']}, and not change sys.prefix",
    )


def manifest(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the manifest's plan with the record's, or with the label's where there is none."""
    digest = image.inside["digest"]
    if image.record is not None:
        detail = f"plan {str(digest)[:12]}…"
        same = digest == image.record.digest
        yield CheckOutcome(ok=same, detail=detail, next_step=file.of_another(image))
    elif image.is_by_hand and not isinstance(image.labels, MissingAnswer):
        same = image.labels[f"{names.PREFIX}.digest"] == f"sha256:{digest}"
        differs = "" if same else " is not the label's"
        yield CheckOutcome(
            ok=same,
            detail=f"plan {str(digest)[:12]}…{differs}",
            next_step="use an unchanged copy: the image was changed after the build",
        )


def imports(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that each promised module has its version and comes from the image."""
    inside = image.inside
    # A recipe may put the distribution's packages on its environment's path; what else is on it
    # shows in "host stays out".
    places = (f"{inside['prefix']}/", f"{inside['packages']}/")
    entries = inside["imports"]
    for entry in entries if isinstance(entries, list) else []:
        same = entry["version"] == entry["wanted"]
        detail = entry["error"] or f"{entry['version']} from {entry['file']}"
        if not same:
            detail += f", wanted {entry['wanted']}"
        ok = same and str(entry["file"]).startswith(places)
        step = _for_import(entry, is_same=same)
        yield CheckOutcome(ok=ok, detail=detail, of=str(entry["module"]), next_step=step)


def _for_import(entry: Mapping[str, object], *, is_same: bool) -> str:
    module, version = entry["module"], entry["wanted"]
    if entry["error"]:
        return f"install {module} and its dependencies in a step of the recipe, then build again"
    if not is_same:
        return (
            f"pin {module} {version} in the recipe's steps, or declare the installed version "
            "(verify.imports), then build again"
        )
    return (
        f"install {module} in the recipe's prefix only, without .pth files that point elsewhere: "
        f"another {module} comes first in sys.path"
    )


def pack(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that the module pack is the one that was made; nothing of an image without one."""
    pack_digest = image.inside.get("pack")
    if not isinstance(pack_digest, dict):
        return
    if pack_digest["error"]:
        yield CheckOutcome(
            ok=False,
            detail=str(pack_digest["error"]),
            next_step="use an unchanged copy: the image was changed after the build; or build it "
            "again without the pack: --set image.pack=false",
        )
    elif not pack_digest["fresh"]:
        detail = "not used: the engine unpacks the image here, and what can be written to has none"
        yield CheckOutcome(ok=None, detail=detail)
    else:
        yield CheckOutcome(
            ok=True,
            detail=f"answers for {pack_digest['fresh']} of {pack_digest['folders']} folders",
        )


def host_stays_out(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that nothing of the host's environment reaches programs inside."""
    folders = image.surroundings.image_paths.get("LD_LIBRARY_PATH", "").split(":")
    meant = {f"LD_LIBRARY_PATH {folder}" for folder in folders}
    leaks = [leak for leak in _items(image.inside["leaks"]) if leak not in meant]
    detail = ", ".join(leaks) or "no variable, user site or path of the host"
    yield CheckOutcome(
        ok=not leaks,
        detail=detail,
        next_step="remove it from the engine's settings on this host, or declare it: in the recipe "
        "(environment) or for the site (jobs.inside)",
    )


def no_leftovers(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that the build left nothing of its own behind."""
    if image.record is not None and image.record.content.is_foreign:
        yield CheckOutcome(
            ok=None, detail=f"recipe unknown: the image {image.record.came}, its build is not ours"
        )
        return
    # Where a site's bind shows, the folders above it are the engine's.
    shown = [f"{target}/" for target in image.surroundings.targets]
    paths = _items(image.inside["leftovers"])
    leftovers = [path for path in paths if not any(at.startswith(f"{path}/") for at in shown)]
    detail = ", ".join(leftovers) or "no cache, log, token or CA of a build"
    yield CheckOutcome(
        ok=not leftovers,
        detail=detail,
        next_step="remove them in the recipe step that creates them, then build again",
    )


def _items(items: object) -> list[str]:
    return [str(item) for item in items] if isinstance(items, list) else []
