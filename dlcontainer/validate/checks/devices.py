"""The accelerators of this host, as the image's framework sees and uses them."""

from collections.abc import Iterator

from dlcontainer.system import foreign_files
from dlcontainer.validate.checks.base import Answer
from dlcontainer.validate.inspected import Inspected, Unanswered

# A probe from before there was this one says so.
_OLDER = "usage: probe NAME"
# A probe of an earlier image, where its Python has no framework that the probe knows.
_NO_FRAMEWORK = "no framework here"


def devices(image: Inspected) -> Iterator[Answer]:
    """Train on every device that the image sees, beside the CPU; nothing at a site of CPUs."""
    if image.site is None or image.site.accelerator is None:
        return
    printed = image.devices
    if isinstance(printed, Unanswered):
        yield _unanswered(printed)
        return
    try:
        said = foreign_files.loads(printed.strip().splitlines()[-1])
        state, detail = said["state"], str(said["detail"])
    except (ValueError, KeyError, IndexError, TypeError):
        yield Answer(
            ok=False,
            detail="the image's probe printed no JSON object with 'state'",
            next_step="its framework prints at its end, or ends the process: see the recipe's "
            "notes on its version",
        )
        return
    yield Answer(
        ok=None if state == "not tried" else state == "ok",
        detail=detail,
        next_step="try the device by itself (nvidia-smi, rocm-smi), then on another node: where "
        "all fail, the image's framework is not made for these devices or this driver",
    )


def _unanswered(printed: Unanswered) -> Answer:
    """Tell a probe that could not ask, which is no fault of the image's, from one that broke."""
    why = printed.why
    if why.startswith(_OLDER):
        return Answer(ok=None, detail="the image's probe is older than this check")
    if why.startswith(_NO_FRAMEWORK):
        return Answer(ok=None, detail=f"{why}: devices are tried with one of these alone")
    return Answer(ok=False, detail=why, next_step=printed.next_step)
