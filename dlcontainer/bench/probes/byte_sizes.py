"""Probes whose rows are sizes in bytes: their option, their ladder, the line through the times."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.probe import Option, Value
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName
    from dlcontainer.bench.stats.bandwidth import TransferTime

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MOST = 1 << 30
# What follows the names of a group in the table of `lines`.
HEAD = ("arm", "alpha, us", "1/beta, GB/s", "largest residual, %", "fit")


def read(option: Option, text: str, least: int) -> int:
    """Read a size, e.g. 1M; raises UsageError for what is none, or below `least` or above 1G."""
    unit = _UNITS.get(text[-1:].upper(), 1)
    number = text if unit == 1 else text[:-1]
    size = int(number) * unit if number.isdecimal() and len(number) < 12 else 0
    if not least <= size <= _MOST:
        raise UsageError(
            f"{option.flag} {text}: must be a size from {least} bytes to 1G",
            next_step=f"give a size, e.g. {option.flag} 1M",
        )
    return size


def ladder(least: int, largest: Value, factor: int) -> tuple[int, ...]:
    """List sizes from the least up to the largest, by a constant factor."""
    sizes, size = [], least
    while isinstance(largest, int) and size <= largest:
        sizes.append(size)
        size *= factor
    return tuple(sizes)


def of(row: Mapping[str, str | int]) -> int:
    """Return a row's size; 0 for one without: files come from anybody."""
    size = row.get("bytes")
    return size if isinstance(size, int) else 0


def points(
    series: "Series", names: tuple[str, ...]
) -> "dict[tuple[str, ...], dict[ArmName, list[TransferTime]]]":
    """Return the times over bytes of each group of rows, named by these parameters, in each arm."""
    from dlcontainer.bench.analysis import rows
    from dlcontainer.bench.stats.bandwidth import TransferTime

    by_group: dict[tuple[str, ...], dict[ArmName, list[TransferTime]]] = {}
    for arm in series.session.declared.arms:
        for mean in rows.means(series, arm):
            if size := of(mean.parameters):
                group = tuple(str(mean.parameters.get(name, "")) for name in names)
                points_of = by_group.setdefault(group, {}).setdefault(arm, [])
                points_of.append(TransferTime(size=size, seconds=mean.seconds))
    return by_group


def lines(series: "Series", names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield latency and bandwidth of each group and arm, where a line fits; see `HEAD`."""
    for group, by_arm in points(series, names).items():
        for arm, arm_points in by_arm.items():
            yield (*group, arm, *fit(arm_points))


def fit(points: "list[TransferTime]") -> tuple[str, ...]:
    """Write the line through these points, or why there is none."""
    from dlcontainer.bench.stats import bandwidth

    fitted = bandwidth.line(points)
    if fitted.problem:
        return "-", "-", "-", f"not fitted: {fitted.problem}"
    return (
        f"{1e6 * fitted.alpha:.4g}", f"{fitted.gigabytes_per_s:.3g}",
        f"{100 * fitted.residual:.0f}", "fitted",
    )  # fmt: skip


def note(what: str) -> str:
    """Return how the lines were fitted; `what` changes its way with the size where none fits."""
    from dlcontainer.bench.stats.bandwidth import MOST_RESIDUAL

    return (
        "T(S) = alpha + beta S through the means of the launches' medians, by least squares of "
        f"relative residuals. Where it misses a size by more than {100 * MOST_RESIDUAL:.0f} % it "
        f"is not fitted: the {what} changes its way with the size. alpha: less is better; 1/beta: "
        "more is better."
    )
