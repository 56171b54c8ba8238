"""A site that differs from another in its threads alone: what `export threads` writes."""

import json
from dataclasses import dataclass

from dlcontainer.sites.site import Site

VARIABLE = "OMP_NUM_THREADS"
_SOURCE = "bench threads"


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSetting:
    """How many threads a process is to have, and by which file that was measured."""

    threads: int
    summary: str
    source: str


def text(name: str, parent: Site, measured: ThreadSetting) -> str:
    """Write the site `name`, which extends `parent` as resolved for one epoch and node type.

    The variable is the node type's where the parent has some, else the epoch's: both lie over what
    holds for the whole site. It stands in images and in jobs, whose host may set another.
    """
    environment = {VARIABLE: str(measured.threads)}
    # A list takes the place of the one below it.
    sources = [*(source for source in parent.jobs.sources if source != _SOURCE), _SOURCE]
    changes: dict[str, object] = {
        "environment": environment,
        "jobs": {"environment": environment, "sources": sources},
    }
    for key, plural, chosen in (
        ("node_type", "node_types", parent.node_type),
        ("epoch", "epochs", parent.epoch),
    ):
        if chosen is not None:
            changes = {key: chosen, plural: {chosen: {"changes": changes}}}
            break
    if parent.epoch is not None:
        changes["epoch"] = parent.epoch
    data = {
        "schema": 1,
        "name": name,
        "summary": measured.summary,
        "extends": parent.name,
        "sources": {_SOURCE: measured.source},
        **changes,
    }
    # JSON is YAML too, and quotes whatever a name may hold.
    return json.dumps(data, indent=2) + "\n"
