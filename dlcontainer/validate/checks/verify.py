"""The image's own proof: the recipe's verify script, run inside."""

from collections.abc import Iterator

from dlcontainer.system import foreign_files
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer

UNKNOWN = "recipe unknown: the image was adopted, and brings no proof of its own"


def verify(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Run the script, whose last line is a JSON object with 'ok' and 'what'."""
    if image.record is not None and image.record.content.adopted is not None:
        yield CheckOutcome(ok=None, detail=UNKNOWN)
        return
    printed = image.verified
    if isinstance(printed, MissingAnswer):
        yield CheckOutcome(ok=False, detail=printed.why, next_step=printed.next_step)
        return
    try:
        facts = foreign_files.loads(printed.strip().splitlines()[-1])
        ok = facts.pop("ok") is True
        proof = facts.pop("what")
        rest = ", ".join(f"{key} {value}" for key, value in sorted(facts.items()))
        rest = f": {rest}" if rest else ""
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        yield CheckOutcome(
            ok=False,
            detail="the script printed no JSON object with 'ok' and 'what'",
            next_step="let the recipe's verify.script print this object as its last line "
            "(docs/add-a-recipe.md), then build the image again",
        )
        return
    yield CheckOutcome(
        ok=ok,
        detail=f"{proof}{rest}{image.remark}",
        next_step="read the recipe's verify.script for what it measured, then correct the recipe",
    )
