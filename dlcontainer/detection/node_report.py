"""What was detected, of this node and of one in a job: as a value, and as a JSON document."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dlcontainer.detection import (
    fabrics,
    gpus,
    processors,
    runtimes_here,
    software,
    storage,
    systems,
)
from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import NodeFact
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files

NAME = "site-detect"
SCHEMA = f"dlcontainer/{NAME}/1"
_MOST_BYTES = 16_000_000
_READERS = (systems, processors, gpus, fabrics, software, runtimes_here, storage)
# Facts that differ from node to node, and say nothing of the kind of a node.
_OF_ONE_NODE = ("host", "cpu.allowed", "os.python", "filesystems.tmp_mb", "filesystems.shm_mb")


def facts(evidence: NodeEvidence) -> tuple[NodeFact, ...]:
    """Read all facts out of what was collected on a node."""
    return tuple(fact for reader in _READERS for fact in reader.facts(evidence))


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeDifference:
    """A fact that is not the same on both nodes."""

    name: str
    here: str
    job: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """A machine as detected: this node's facts, and those of a node in a job, where one was asked.

    `allocation` names the batch job that this node was asked in, None outside of one; `taken` is
    UTC.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    schema: Literal["dlcontainer/site-detect/1"] = "dlcontainer/site-detect/1"
    taken: str
    allocation: str | None = None
    here: tuple[NodeFact, ...]
    job: tuple[NodeFact, ...] | None = None
    differences: tuple[Mapping[str, str], ...] = ()

    @property
    def compute(self) -> tuple[NodeFact, ...]:
        """The facts of the node that ran in a job, else of this one."""
        return self.here if self.job is None else self.job

    @property
    def of_compute_node(self) -> bool:
        """Whether a node in a job was asked."""
        return self.job is not None or self.allocation is not None

    def named(self) -> dict[str, NodeFact]:
        """Return the facts by name: hardware of the compute node, services of this one."""
        facts = {fact.name: fact for fact in self.here}
        services = ("scheduler.", "modules.")
        ours = {fact.name: fact for fact in self.compute if not fact.name.startswith(services)}
        return {**{name: fact for name, fact in facts.items() if name.startswith(services)}, **ours}

    def body(self) -> dict[str, object]:
        """Return it as plain data, its schema left out."""
        plain = asdict(self)
        del plain["schema"]
        return plain | {"differences": [asdict(row) for row in differences(self)]}


def differences(detection: Detection) -> Iterator[NodeDifference]:
    """Yield the facts in which the two nodes differ."""
    if detection.job is None:
        return
    job = {fact.name: fact for fact in detection.job}
    mine = {fact.name: fact for fact in detection.here}
    for name in dict.fromkeys([*mine, *job]):
        if name in _OF_ONE_NODE:
            continue
        texts = [side[name].text if name in side else "-" for side in (mine, job)]
        if texts[0] != texts[1]:
            yield NodeDifference(name=name, here=texts[0], job=texts[1])


_READER: TypeAdapter[Detection] = TypeAdapter(Detection)


def read(path: Path) -> Detection:
    """Read what `site detect --json` printed; raises ChecksFailedError for what is none."""
    step = "write it again: dlcontainer site detect -o FILE"
    try:
        text = foreign_files.read(path, _MOST_BYTES)
        body = foreign_files.loads(text)
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        return _READER.validate_json(json.dumps(body), strict=True)
    except OSError as error:
        raise ChecksFailedError(f"can't read {path}: {error.strerror}", next_step=step) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:400]
    except ValueError as error:
        why = str(error)
    raise ChecksFailedError(f"{path} is no detected machine", why=why, next_step=step)
