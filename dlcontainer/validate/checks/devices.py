"""The accelerators of this host, as the image's framework sees and uses them."""

from collections.abc import Iterator

from dlcontainer.system import foreign_files
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer

# A probe from before there was this one says so.
_OLDER = "usage: probe NAME"
# A probe of an earlier image, where its Python has no framework that the probe knows.
_NO_FRAMEWORK = "no framework here"


def devices(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Train on every device that the image sees, beside the CPU; nothing at a site of CPUs."""
    if image.site is None or image.site.accelerator is None:
        return
    printed = image.devices
    if isinstance(printed, MissingAnswer):
        yield _unanswered(printed)
        return
    try:
        report = foreign_files.loads(printed.strip().splitlines()[-1])
        state, detail = report["state"], str(report["detail"])
    except (ValueError, KeyError, IndexError, TypeError):
        yield CheckOutcome(
            ok=False,
            detail="the image's probe printed no JSON object with 'state'",
            next_step="read the recipe's notes on the framework's version: the framework "
            "prints when it exits, or it ends the process",
        )
        return
    yield CheckOutcome(
        ok=None if state == "not tried" else state == "ok",
        detail=detail,
        next_step="test the device alone (nvidia-smi, rocm-smi), then validate on another node; if "
        "this fails on all nodes, the framework does not support the devices or the driver",
    )


def _unanswered(printed: MissingAnswer) -> CheckOutcome:
    """Distinguish a probe that could not ask, which is no fault of the image's, from one
    that broke.
    """
    why = printed.why
    if why.startswith(_OLDER):
        return CheckOutcome(ok=None, detail="the image's probe is older than this check")
    if why.startswith(_NO_FRAMEWORK):
        return CheckOutcome(ok=None, detail=f"{why}: devices are tried with one of these alone")
    return CheckOutcome(ok=False, detail=why, next_step=printed.next_step)
