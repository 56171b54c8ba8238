"""Checks of an image's file: nothing of the image runs."""

from collections.abc import Iterator

from dlcontainer.formats import labels as names
from dlcontainer.image import record as records
from dlcontainer.planning import built_for
from dlcontainer.system.process import quote
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer


def architecture(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the image's architecture with the site's, or else this host's."""
    arch = image.site.arch if image.site else image.context.execution.host.arch
    same = image.arch == arch
    hint = "" if image.site or same else "; if the image is for another site: --site SITE"
    detail = f"{image.arch}, wanted {arch}{hint}"
    yield CheckOutcome(ok=same, detail=detail, next_step=_for_arch(image))


def _for_arch(image: ImageInspection) -> str:
    written = image.record
    if image.site is None:
        origin = built_for.origin(written.content) if written else "SITE"
        return f"dlcontainer validate {quote([str(image.image)])} --site {origin}"
    if written is None:
        return f"take an image that was built for {built_for.named(image.site)}"
    return built_for.again(written.content, built_for.named(image.site))


def record(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the file with its record."""
    record_path = records.beside(image.image)
    if image.record is None:
        missing = f"no {record_path.name} beside the image"
        if image.is_by_hand:
            yield CheckOutcome(ok=None, detail=f"{missing}: built by hand from a rendered text")
            return
        yield CheckOutcome(ok=False, detail=missing, next_step=records.copy_too(record_path))
        return
    same = image.sha256 == image.record.image.sha256
    differs = "" if same else " is not the record's"
    size = image.image.stat().st_size / 1e6
    yield CheckOutcome(
        ok=same,
        detail=f"sha256 {image.sha256[:12]}…{differs}, {size:.0f} MB",
        next_step=f"copy the image and {record_path.name} again, both from the folder of the "
        "build: one of them is truncated, changed, or belongs to another image",
    )


def labels(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the plan that the labels name with the record's."""
    label_values = image.labels
    if isinstance(label_values, MissingAnswer):
        yield CheckOutcome(ok=False, detail=label_values.why, next_step=label_values.next_step)
        return
    digest = label_values.get(f"{names.PREFIX}.digest", "")
    plan = image.record.digest if image.record else None
    if not digest:
        yield CheckOutcome(
            ok=False,
            detail="no digest: not an image of dlcontainer",
            next_step="if another tool built the image: dlcontainer adopt "
            f"{quote([str(image.image)])} --site SITE",
        )
    elif plan is not None and digest != f"sha256:{plan}":
        yield CheckOutcome(
            ok=False,
            detail=f"digest {digest[7:19]}… is not the record's {plan[:12]}…",
            next_step=of_another(image),
        )
    else:
        title = label_values.get("org.opencontainers.image.title", "?")
        version = label_values.get("org.opencontainers.image.version", "?")
        yield CheckOutcome(ok=True, detail=f"{title} {version}, plan {digest[7:19]}…")


def _plan(image: ImageInspection) -> str:
    if image.record is not None:
        return f" ({image.record.digest[:12]}…)"
    return f" ({str(image.inside['digest'])[:12]}…)"


def of_another(image: ImageInspection) -> str:
    """Return what to do where the record speaks of another plan than the image."""
    name = records.beside(image.image).name
    return f"{name} is another image's: copy the one that was made with this image"


def site(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Compare the site that the image was built for with the one that is named."""
    if image.site is None:
        return
    content = image.content
    if isinstance(content, MissingAnswer):
        yield CheckOutcome(ok=None, detail=content.why)
        return
    mismatch = built_for.mismatch(content, image.site)
    if mismatch is not None:
        detail = f"{mismatch.what}: {mismatch.why}{_plan(image)}"
        yield CheckOutcome(ok=False, detail=detail, next_step=mismatch.next_step)
        return
    detail = f"built for {built_for.named(image.site)}"
    if built_for.lacks_device_code(content, image.site):
        gpu = built_for.accelerator(image.site)
        detail += f"; its recipe states no device code (--cpu): programs leave {gpu} alone"
    yield CheckOutcome(ok=True, detail=detail)
