"""What a check is: a function of what was inspected."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dlcontainer.validate.inspected import ImageInspection


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """Whether a check holds, and what was seen; `of` names the thing where a check has several.

    `ok` is None where this host could not try it: never ok, and no fault of the image's.
    `next_step` fits the cause of what failed: each answer that may be False has one.
    """

    ok: bool | None
    detail: str
    of: str = ""
    next_step: str = ""


# No answer where there is nothing to hold the image against.
CheckFunction = Callable[[ImageInspection], Iterable[CheckOutcome]]
