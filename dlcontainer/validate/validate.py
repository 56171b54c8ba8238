"""Validate: checks of an image against its record, its site and what it promises; one line each."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image.record import Record
from dlcontainer.sites.site import Site
from dlcontainer.validate.checks import CHECKS, ENDING
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.inspected import CheckResult, CheckState, ImageInspection, ValidateContext


def validate(
    image: Path, site: Site | None, context: ValidateContext, written: Record | None = None
) -> list[CheckResult]:
    """Check an image; every check is reported as it is made.

    `written` is what its record says, of who has read that already.

    Raises ChecksFailedError for a file that is no image, EngineError for an engine that can't run.
    """
    checks = []
    for check in _checked(
        ImageInspection(image=image, site=site, context=context, written=written)
    ):
        checks.append(check)
        context.on_check(check)
    return checks


def _checked(image: ImageInspection) -> Iterator[CheckResult]:
    for name, function in CHECKS.items():
        image.context.on_begin(name)
        for answer in function(image):
            full_name = f"{name} {answer.of}" if answer.of else name
            yield _check(full_name, answer)
            if name in ENDING and not answer.ok:
                return


def _check(name: str, answer: CheckOutcome) -> CheckResult:
    state: CheckState = "failed"
    if answer.ok is None:
        state = "not tried"
    elif answer.ok:
        state = "ok"
    then = answer.next_step if state == "failed" else ""
    return CheckResult(
        name=name, ok=state == "ok", detail=answer.detail, state=state, next_step=then
    )


def require_ok(checks: list[CheckResult]) -> None:
    """Raise ChecksFailedError that names the failed checks, if there are any."""
    failed = [check for check in checks if check.state == "failed"]
    if failed:
        names = ", ".join(check.name for check in failed)
        raise ChecksFailedError(
            f"{len(failed)} of {len(checks)} checks failed: {names}",
            next_step=next_step(failed),
        )


def next_step(failed: Sequence[CheckResult]) -> str:
    """Return what the first failure asks for: those behind it may follow from it."""
    first = next((check for check in failed if check.next_step), None)
    if first is None:
        return "read the lines marked FAILED above"
    more = "" if len(failed) == 1 else f" ({first.name}; then validate again)"
    return f"{first.next_step}{more}"
