"""Checks of an image's file: nothing of the image runs."""

from collections.abc import Iterator

from dlcontainer.formats import labels as names
from dlcontainer.image import record as records
from dlcontainer.validate.checks.base import Answer
from dlcontainer.validate.inspected import Inspected, Unanswered


def architecture(image: Inspected) -> Iterator[Answer]:
    """Compare the image's architecture with the site's, or else this host's."""
    wanted = image.site.arch if image.site else image.context.execution.host.arch
    same = image.arch == wanted
    hint = "" if image.site or same else "; for another site's image name it: --site"
    yield Answer(ok=same, detail=f"{image.arch}, wanted {wanted}{hint}")


def record(image: Inspected) -> Iterator[Answer]:
    """Compare the file with its record."""
    if image.record is None:
        missing = f"no {records.beside(image.image).name} beside the image"
        if image.is_by_hand:
            yield Answer(ok=None, detail=f"{missing}: built by hand from a rendered text")
        else:
            yield Answer(ok=False, detail=missing)
        return
    same = image.sha256 == image.record.image.sha256
    differs = "" if same else " is not the record's"
    size = image.image.stat().st_size / 1e6
    yield Answer(ok=same, detail=f"sha256 {image.sha256[:12]}…{differs}, {size:.0f} MB")


def labels(image: Inspected) -> Iterator[Answer]:
    """Compare the plan that the labels name with the record's."""
    found = image.labels
    if isinstance(found, Unanswered):
        yield Answer(ok=False, detail=found.why)
        return
    digest = found.get(f"{names.PREFIX}.digest", "")
    plan = image.record.digest if image.record else None
    if not digest:
        yield Answer(ok=False, detail="no digest: not an image of dlcontainer")
    elif plan is not None and digest != f"sha256:{plan}":
        detail = f"digest {digest[7:19]}… is not the record's {plan[:12]}…"
        yield Answer(ok=False, detail=detail)
    else:
        title = found.get("org.opencontainers.image.title", "?")
        version = found.get("org.opencontainers.image.version", "?")
        yield Answer(ok=True, detail=f"{title} {version}, plan {digest[7:19]}…")
