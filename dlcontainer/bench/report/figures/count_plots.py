"""Figures of counting runs: operations on a logarithmic axis, and the tree of imports."""

from collections.abc import Sequence

from markupsafe import Markup

from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
)
from dlcontainer.lab.filesystem.count_file import CountingRun, ImportNode

_LOOKS = (
    MarkStyle(shape="circle", style="reference"),
    MarkStyle(shape="diamond", style="pair"),
    MarkStyle(shape="triangle", style="joiner"),
    MarkStyle(shape="ring", style="control"),
)
_FAMILIES = 8
_DEEPEST = 14
# Narrower than this a module is not drawn.
_NARROWEST = 1.5


def operations(counted: Sequence[tuple[InputFinding, CountingRun]]) -> Markup:
    """Draw what each run's node asked for, one row an operation, on a logarithmic axis."""
    names = _names([run for _, run in counted])
    values = [run.per_node.operations.get(name, 0) for _, run in counted for name in names]
    top, pitch, left, right = 34.0, 26.0, 120.0, WIDTH - 70
    bottom = top + pitch * len(names)
    drawing = Drawing(title="Operations of a node by kind, logarithmic", height=bottom + 44)
    scale = spanning([1, 10, *filter(None, values)], left, right, log=True)
    horizontal_axis(drawing, scale, top=top, bottom=bottom, name="operations of a node")
    for row, name in enumerate(names):
        y = top + pitch * (row + 0.5)
        drawing.text(0, y + 4, name, "row")
        drawing.line(left, y, right, y, "grid")
        for i, (finding, run) in enumerate(counted):
            value = run.per_node.operations.get(name, 0)
            hint = f"{finding.path}: {value:,} {name}"
            if value:
                tip = Tip(hint=hint, link=f"{finding.anchor}-{name}")
                drawing.mark(scale.at(value), y, _look(i), tip)
            else:
                drawing.text(left - 6 - 12 * i, y + 4, "0", f"zero {_look(i).style}", "end")
    named = [LegendEntry.of(label(finding), _look(i)) for i, (finding, _) in enumerate(counted)]
    legend(drawing, left + 6, 12, named)
    return drawing.svg()


def label(finding: InputFinding) -> str:
    """Name a run briefly."""
    return finding.path.name


def _names(runs: Sequence[CountingRun]) -> list[str]:
    most = {
        name: max(run.per_node.operations.get(name, 0) for run in runs)
        for run in runs
        for name in run.per_node.operations
    }
    return sorted((name for name in most if most[name]), key=lambda name: -most[name])


def _look(number: int) -> MarkStyle:
    return _LOOKS[number % len(_LOOKS)]


def tree(finding: InputFinding, imports: Sequence[ImportNode]) -> Markup:
    """Draw the import tree: as wide as it took, what a module imported below it."""
    boxes = placed(imports)
    whole = sum(item.total_us for item in imports if item.depth == 0)
    deepest = min(_DEEPEST, max(item.depth for _, item, _ in boxes))
    top, pitch = 8.0, 19.0
    drawing = Drawing(title="The import tree by time", height=top + pitch * (deepest + 1) + 42)
    scale = AxisScale(low=0.0, high=max(whole, 1) / 1000, start=0.0, end=WIDTH)
    bottom = top + pitch * (deepest + 1)
    horizontal_axis(drawing, scale, top=top, bottom=bottom, name="milliseconds, traced")
    families: dict[str, int] = {}
    for number, item, begun in boxes:
        x, width = scale.at(begun / 1000), WIDTH * item.total_us / max(whole, 1)
        if width < _NARROWEST or item.depth > deepest:
            continue
        family = families.setdefault(_family(item), len(families))
        hint = f"{item.name}: {item.total_us / 1000:.1f} ms, {item.self_us / 1000:.1f} its own"
        y = top + pitch * item.depth
        tip = Tip(hint=hint, link=f"{finding.anchor}-import-{number}")
        box = Box(x=x, y=y, width=width, height=pitch - 1)
        drawing.box(box, f"phase p{family % _FAMILIES}", tip)
        fitting = item.name[: int((width - 8) / 7.2)]
        if len(fitting) > 3:
            drawing.text(x + 4, y + 13, fitting, "inbar")
    return drawing.svg()


def _family(item: ImportNode) -> str:
    return ".".join(item.name.split(".")[:2])


def placed(imports: Sequence[ImportNode]) -> list[tuple[int, ImportNode, int]]:
    """Return each module with its number and where it begins, µs; the longest of siblings first."""
    below: dict[int | None, list[int]] = {}
    path: list[int] = []
    for number, item in enumerate(imports):
        del path[item.depth :]
        below.setdefault(path[-1] if path else None, []).append(number)
        path.append(number)
    boxes: list[tuple[int, ImportNode, int]] = []
    waiting: list[tuple[int | None, int]] = [(None, 0)]
    while waiting:
        parent, begun = waiting.pop()
        for number in sorted(below.get(parent, ()), key=lambda module: -imports[module].total_us):
            boxes.append((number, imports[number], begun))
            waiting.append((number, begun))
            begun += imports[number].total_us
    return boxes
