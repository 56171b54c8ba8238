"""Names of places in a page: a raw line, and the table that holds it. The same in any page."""

from dlcontainer.bench.samples.series import Series


def table(series: Series) -> str:
    """Name the place of a session's raw lines."""
    return f"raw-{series.seal[:12]}"


def line(series: Series, number: int) -> str:
    """Name the place of one raw line."""
    return f"{table(series)}-{number}"
