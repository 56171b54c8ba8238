"""The accelerators of this host, as the image's framework sees and uses them."""

from collections.abc import Iterator

from dlcontainer.system import foreign_files
from dlcontainer.validate.checks.base import Answer
from dlcontainer.validate.inspected import Inspected, Unanswered

# What a probe from before there was this one says.
_OLDER = "usage: probe NAME"


def devices(image: Inspected) -> Iterator[Answer]:
    """Train on every device that the image sees, beside the CPU; nothing at a site of CPUs."""
    if image.site is None or image.site.accelerator is None:
        return
    printed = image.devices
    if isinstance(printed, Unanswered):
        older = printed.why.startswith(_OLDER)
        why = "the image's probe is older than this check: build it again" if older else printed.why
        yield Answer(ok=None if older else False, detail=why)
        return
    try:
        said = foreign_files.loads(printed.strip().splitlines()[-1])
        state, detail = said["state"], str(said["detail"])
    except (ValueError, KeyError, IndexError, TypeError):
        yield Answer(ok=False, detail="the image's probe printed no JSON object with 'state'")
        return
    yield Answer(ok=None if state == "not tried" else state == "ok", detail=detail)
