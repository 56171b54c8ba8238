"""The head of a job script: the site's lines, with the values that are asked for. Pure."""

import re
from collections.abc import Mapping, Sequence

from dlcontainer.schedulers.scheduler import TASKS, BatchSystem, Resource


def settled(
    batch: BatchSystem,
    lines: Sequence[str],
    resources: Mapping[str, str | int],
    ranks_per_node: int,
) -> tuple[str, ...]:
    """Return the lines with each value asked for in its place, or in a line of its own at the end.

    Where the lines count nodes and ranks both, the ranks follow from the nodes.
    """
    written = list(lines)
    for resource, value in resources.items():
        words = batch.resources[resource]
        text = str(value)
        if resource == "time":
            text = batch.time_limit(batch.read_time(text))
        if not _replaced(batch, written, words, text):
            written.append(f"{batch.directive} {words.line.format(value=text)}")
    nodes = written_value(batch, written, "nodes")
    if nodes is not None and nodes.isdigit() and "ranks" in batch.resources:
        _replaced(batch, written, batch.resources["ranks"], str(int(nodes) * ranks_per_node))
    return tuple(written)


def written_value(batch: BatchSystem, lines: Sequence[str], resource: str) -> str | None:
    """Find what the lines ask for; None where they do not say."""
    words = batch.resources.get(resource)
    for line in lines:
        match = _search(batch, line, words) if words else None
        if match is not None:
            return match["value"]
    return None


def with_tasks(batch: BatchSystem, lines: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the lines with another number of tasks on each node, where they say one."""
    words = batch.on_launcher.get(TASKS)
    written = list(lines)
    if words is not None:
        _replaced(batch, written, Resource(written=words, line=""), str(count))
    return tuple(written)


def _replaced(batch: BatchSystem, lines: list[str], words: Resource, text: str) -> bool:
    for index, line in enumerate(lines):
        match = _search(batch, line, words)
        if match is not None:
            lines[index] = line[: match.start("value")] + text + line[match.end("value") :]
            return True
    return False


def _search(batch: BatchSystem, line: str, words: Resource) -> re.Match[str] | None:
    if not line.startswith(batch.directive + " "):
        return None
    return re.search(rf"(?<!\S){words.written}", line)
