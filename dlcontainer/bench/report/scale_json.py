"""A matrix for programs: each cell's figures as plain data."""

import math
from dataclasses import asdict

from dlcontainer.bench.scale import matrix_analysis
from dlcontainer.bench.scale.matrix_analysis import CellRow
from dlcontainer.bench.scale.matrix_records import MatrixSession


def cells(scale: MatrixSession) -> list[dict[str, object]]:
    """Return the cells with what is said of each; null where nothing is."""
    rows = matrix_analysis.rows(scale)
    return [
        {
            "cell": asdict(row.cell),
            "name": row.cell.name,
            "t_last_s": asdict(row.last) if row.last else None,
            "launches_s": list(row.times),
            "node_max_s": [matrix_analysis.node_max(launch) for launch in row.launches],
            "phases_s": matrix_analysis.phases(row),
            "cold_proved": [launch.before.is_proved for launch in row.launches],
            "mounted": [dict(launch.mounted) for launch in row.launches],
            "error": row.failed or None,
            "contrast": _contrast(row, rows),
        }
        for row in rows
    ]


def _contrast(row: CellRow, rows: tuple[CellRow, ...]) -> dict[str, object] | None:
    contrast = row.contrast
    if contrast is None:
        return None
    # JSON has no infinity: an interval without an upper end.
    high = contrast.interval.high if math.isfinite(contrast.interval.high) else None
    return {
        "reference": rows[contrast.reference].cell.name,
        "ratio": contrast.interval.ratio,
        "low": contrast.interval.low,
        "high": high,
        "rounds": contrast.rounds,
        "p_holm": contrast.p_holm,
        "word": contrast.word,
    }
