"""The image's own proof: the recipe's verify script, run inside."""

from collections.abc import Iterator

from dlcontainer.system import foreign_files
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer

UNKNOWN = "recipe unknown: the image was adopted, and brings no proof of its own"


def verify(image: ImageInspection) -> Iterator[CheckOutcome]:
    """Run each script, whose last line is a JSON object with 'ok' and 'what'.

    Those of the recipes that the image's own extends come first.
    """
    if image.record is not None and image.record.content.adopted is not None:
        yield CheckOutcome(ok=None, detail=UNKNOWN)
        return
    for recipe, printed in image.earlier_proofs:
        yield _outcome(image, printed, recipe)
    yield _outcome(image, image.verified)


def _outcome(image: ImageInspection, printed: str | MissingAnswer, of: str = "") -> CheckOutcome:
    if isinstance(printed, MissingAnswer):
        return CheckOutcome(ok=False, detail=printed.why, of=of, next_step=printed.next_step)
    try:
        facts = foreign_files.loads(printed.strip().splitlines()[-1])
        ok = facts.pop("ok") is True
        proof = facts.pop("what")
        rest = ", ".join(f"{key} {value}" for key, value in sorted(facts.items()))
        rest = f": {rest}" if rest else ""
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        return CheckOutcome(
            ok=False,
            detail="the script printed no JSON object with 'ok' and 'what'",
            of=of,
            next_step="let the recipe's verify.script print this object as its last line "
            "(docs/image/add-a-recipe.md), then build the image again",
        )
    return CheckOutcome(
        ok=ok,
        of=of,
        detail=f"{proof}{rest}{image.remark}",
        next_step="read the recipe's verify.script for what it measured, then correct the recipe",
    )
