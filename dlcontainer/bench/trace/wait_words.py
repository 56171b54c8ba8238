"""Times and waits as all tables of a trace say them. Pure."""

from collections.abc import Mapping


def ms(seconds: float, *, sign: bool = False) -> str:
    """Say seconds in milliseconds."""
    milliseconds = 1000 * seconds
    return f"{milliseconds:{'+' if sign else ''}.{3 if abs(milliseconds) < 10 else 1}f}"


def whom(waiting_for: Mapping[int, float], steps: int = 1) -> str:
    """Say which ranks were waited for longest, and how long a step."""
    by_time = sorted(waiting_for.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"rank {rank} {ms(seconds / steps)}" for rank, seconds in by_time) or "-"
