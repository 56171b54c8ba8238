"""Whether a version is affected: in any of a record's ranges, or in its list.

Source: ossf.github.io/osv-schema, "Evaluation".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlcontainer.vulnerabilities.orders import VersionOrder
from dlcontainer.vulnerabilities.records import AffectedPackage, RangeEvent, VersionRange


class UndecidedError(ValueError):
    """A version that this record does not decide: it says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeDecision:
    """Whether a version is affected; `fixed` is the first version after it that is not."""

    affected: bool
    fixed: str | None = None


def decide(version: str, affected: AffectedPackage, order: VersionOrder) -> RangeDecision:
    """Decide one version; raises UndecidedError where what is said can't be compared."""
    decisions, reasons = [], []
    if version in (affected.versions or ()):
        return RangeDecision(affected=True, fixed=_first_fix(version, affected, order))
    try:
        installed = order.key(version)
    except ValueError:
        raise UndecidedError(f"its version can't be compared: {version[:80]}") from None
    listed = any(_is_same(installed, named, order) for named in affected.versions or ())
    spans = [span for span in affected.ranges or () if span.type != "GIT"]
    for span in spans:
        try:
            decisions.append(_in_range(installed, span, order))
        except ValueError as error:
            reasons.append(str(error))
    if listed or any(decisions):
        return RangeDecision(affected=True, fixed=_first_fix(version, affected, order))
    if reasons:
        raise UndecidedError(reasons[0])
    if not spans and not affected.versions:
        raise UndecidedError("the record has commits alone, or no versions at all")
    return RangeDecision(affected=False)


def _is_same(installed: Any, named: str, order: VersionOrder) -> bool:
    try:
        key = order.key(named)
    except ValueError:
        return False  # a version of before the order: no installed one has it
    return bool(order.against(installed, key) == key)


def _in_range(installed: Any, span: VersionRange, order: VersionOrder) -> bool:
    if span.type == "SEMVER":
        raise ValueError("the range is in SemVer, which is not this ecosystem's order")
    limits = [event.version for event in span.events if event.kind == "limit"]
    if limits and not any(limit == "*" or _is_before(installed, limit, order) for limit in limits):
        return False
    inside = False
    for event in _sorted(span.events, order):
        if event.kind == "introduced":
            inside = inside or _has_begun(installed, event, order)
        elif event.kind == "fixed":
            inside = inside and _is_before(installed, event.version, order)
        else:
            key = order.key(event.version)
            inside = inside and not order.against(installed, key) > key
    return inside


def _sorted(events: Sequence[RangeEvent], order: VersionOrder) -> list[RangeEvent]:
    """Sort the events but limits by version; of one version they stay as the record has them."""
    first = [event for event in events if event.introduced == "0"]
    rest = [event for event in events if event.introduced != "0" and event.kind != "limit"]
    return [*first, *sorted(rest, key=lambda event: order.key(event.version))]


def _has_begun(installed: Any, event: RangeEvent, order: VersionOrder) -> bool:
    # "0" is before every version, also before 0~rc1.
    return event.version == "0" or not _is_before(installed, event.version, order)


def _is_before(installed: Any, version: str, order: VersionOrder) -> bool:
    key = order.key(version)
    return bool(order.against(installed, key) < key)


def _first_fix(version: str, affected: AffectedPackage, order: VersionOrder) -> str | None:
    """Return the lowest fixed version after an affected one; None where none is known."""
    fixes = []
    for span in affected.ranges or ():
        for event in span.events:
            if span.type == "ECOSYSTEM" and event.kind == "fixed":
                try:
                    if _is_before(order.key(version), event.version, order):
                        fixes.append(event.version)
                except ValueError:
                    continue  # named as undecided where it decides
    return min(fixes, key=order.key, default=None)
