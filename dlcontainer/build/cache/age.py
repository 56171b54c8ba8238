"""Of what date an image's base and packages are, and what takes newer ones. Pure."""

from dataclasses import dataclass

from dlcontainer.build.context import BuildContext
from dlcontainer.image.record import Record
from dlcontainer.planning import built_for
from dlcontainer.planning.plan import Plan

_AGAIN = "for newer packages, repeat the build with --refresh os"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseAge:
    """When the base was made, or by which digest it is known; when the first of its steps ran.

    `newer` says what takes newer ones, a line each.
    """

    base: str | None
    image: str | None
    packages: str | None
    lock: str | None
    newer: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the age in one line."""
        if not (self.base or self.image or self.packages or self.lock):
            return "a base and packages of unknown dates"
        base = (
            f"the base {self.image}" if self.image else f"a base of {self.base or 'unknown date'}"
        )
        if self.lock:
            return f"{base} and the packages of its lock"
        return f"{base} and packages of {self.packages or 'unknown date'} at the latest"


def of(plan: Plan, record: Record, context: BuildContext) -> BaseAge:
    """Read it from an image's record."""
    base = record.base
    return BaseAge(
        base=base.made if base else None,
        image=f"{base.image}@{base.digest}" if base and base.image else None,
        packages=packages(record),
        lock=record.lock,
        newer=tuple(_newer(plan, record, context)),
    )


def packages(record: Record) -> str | None:
    """Return when the first of an image's steps ran: its packages are of that day."""
    ran = [step.kept.made if step.kept else record.finished for step in record.work]
    return min(filter(None, ran), default=record.finished)


def _newer(plan: Plan, record: Record, context: BuildContext) -> list[str]:
    named = f"{plan.recipe.name} --site {built_for.named(plan.site)}"
    if record.lock:
        return [
            (
                f"for newer packages, write a new lock (dlcontainer lock {named}) and build with "
                "--locked"
            )
        ]
    if plan.recipe.base.image:
        return [_AGAIN, f"for a newer base, run dlcontainer base pin {named}, then build"]
    if context.base is not None:
        return [
            _AGAIN,
            (
                f"for a newer base, run dlcontainer base make {named} -o FILE, then build with "
                "--base FILE"
            ),
        ]
    return [_AGAIN]
