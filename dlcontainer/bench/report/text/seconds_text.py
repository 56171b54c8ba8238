"""What a container adds to a launch, in seconds, before any ratio."""

from dlcontainer.bench.analysis.seconds import Seconds
from dlcontainer.bench.analysis.session_analysis import Analysis

_HOUR_S = 3600
# A bound that is not 0 is not written as 0.
_MOST_DIGITS = 4
# Kinds of mounts by where their bytes are.
_LOCAL = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "xfs", "zfs"})
_MEMORY = frozenset({"ramfs", "tmpfs"})


def added(analysis: Analysis) -> str:
    """Return the seconds of the first rank of a node and of each further one, and their setting."""
    first, joiner = analysis.seconds, analysis.joiner_seconds
    if first is None:
        return ""
    ranks = "once a node" if joiner else "a launch"
    text = f"{cost(first)} {ranks}"
    if joiner:
        text += f", {cost(joiner)} each further rank"
    # Warm-up launches read every file before the first that counts.
    share = 100 * abs(first.added) / _HOUR_S
    return f"{text}; warm, {place(analysis)}; {share:.1g} % of a one-hour job"


def place(analysis: Analysis) -> str:
    """Return where the image lies."""
    kind = analysis.series.session.machine.get("image_on")
    if not isinstance(kind, str):
        return "file system not stated"
    if kind in _LOCAL:
        return f"local disk ({kind})"
    return f"in memory ({kind})" if kind in _MEMORY else f"on {kind}"


def interval(seconds: Seconds) -> str:
    """Write an interval of seconds."""
    return f"{seconds.low:+.2f} to {seconds.high:+.2f} s"


def cost(seconds: Seconds) -> str:
    """Write a cost; with its interval where that holds 0, or where the cost is negative."""
    least = 1 if abs(seconds.added) >= 0.1 else 3
    if seconds.added > 0 and seconds.low > 0:
        return f"{seconds.added:+.{least}f} s"
    values = seconds.added, seconds.low, seconds.high
    digits = next(
        (n for n in range(least, _MOST_DIGITS) if all(round(v, n) or not v for v in values)),
        _MOST_DIGITS,
    )
    text, low, high = (f"{value:+.{digits}f}" for value in values)
    return f"{text} s ({low} to {high} s)"
