"""A matrix for programs: each cell's figures as plain data."""

import math
from dataclasses import asdict

from dlcontainer.bench.scale import analysis
from dlcontainer.bench.scale.analysis import Row
from dlcontainer.bench.scale.records import Scale


def cells(scale: Scale) -> list[dict[str, object]]:
    """Give the cells with what is said of each; null where nothing is."""
    rows = analysis.rows(scale)
    return [
        {
            "cell": asdict(row.cell),
            "name": row.cell.name,
            "t_last_s": asdict(row.last) if row.last else None,
            "launches_s": list(row.times),
            "node_max_s": [analysis.node_max(one) for one in row.launches],
            "phases_s": analysis.phases(row),
            "cold_proved": [one.before.is_proved for one in row.launches],
            "mounted": [dict(one.mounted) for one in row.launches],
            "error": row.failed or None,
            "contrast": _contrast(row, rows),
        }
        for row in rows
    ]


def _contrast(row: Row, rows: tuple[Row, ...]) -> dict[str, object] | None:
    own = row.contrast
    if own is None:
        return None
    # JSON has no infinity: an interval without an upper end.
    high = own.interval.high if math.isfinite(own.interval.high) else None
    return {
        "reference": rows[own.reference].cell.name,
        "ratio": own.interval.ratio,
        "low": own.interval.low,
        "high": high,
        "rounds": own.rounds,
        "p_holm": own.p_holm,
        "word": own.word,
    }
