"""The file that a job's ranks leave: read whole, its digest checked, one model of it.

The digest tells that a file was changed since rank 0 wrote it, by hand or on its way. It is no
signature: it can be computed again. Whose word it is, the file's owner says.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dlcontainer.config.field_types import Line, Name, Sha256, Version
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files

SCHEMA = "dlcontainer/proof/1"
FILE = "proof.json"
MOST_BYTES = 64_000_000
# What a file of ours is read by; a path may name the folder that a job left.
State = Literal["ok", "failed", "not tried"]


class _ProofPart(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class ProvenImage(_ProofPart):
    """The image that the ranks ran in, by its own manifest."""

    plan: Sha256
    sha256: Sha256 | None = None
    file: Line | None = None
    recipe: Name
    version: Version
    site: Name
    epoch: Name | None = None
    node_type: Name | None = None


class Device(_ProofPart):
    """One device that was trained on."""

    index: int = Field(ge=0)
    name: Line
    ok: bool
    apart: float | None = None
    error: str | None = None


class DeviceProof(_ProofPart):
    """What one rank saw and tried."""

    state: State
    detail: str
    count: int = Field(ge=0)
    names: tuple[Line, ...] = ()
    variables: dict[str, str] = Field(default_factory=dict)
    devices: tuple[Device, ...] = ()


class Gpu(_ProofPart):
    """A GPU as its driver shows it."""

    uuid: str | None = None
    mode: str | None = None


class ReduceBandwidth(_ProofPart):
    """The time of an all-reduce of one size; bandwidths in GB/s, as nccl-tests define them."""

    size: int = Field(alias="bytes", gt=0)
    seconds: float = Field(gt=0)
    busbw: float = Field(ge=0)


class Collective(_ProofPart):
    """How a rank met the others, and whether sums were right (`off` is 0)."""

    backend: Line | None = None
    why: str | None = None
    size: int | None = None
    off: float | str | None = None
    bandwidth: tuple[ReduceBandwidth, ...] = ()


class Nccl(_ProofPart):
    """What NCCL's own log showed."""

    library: Line | None = None
    version: Line | None = None
    network: Line | None = None
    networks: tuple[Line, ...] = ()
    within_node: tuple[Line, ...] = ()
    direct_rdma: bool = False


class PlugIn(_ProofPart):
    """The network plug-in that NCCL would load: its name, and versions of ncclNetPlugin."""

    file: Line
    name: Line | None = None
    versions: tuple[int, ...] = ()
    # That the NCCL of the process asks for; none where there is no NCCL.
    asked: tuple[int, ...] = ()
    error: str | None = None


class ProofMount(_ProofPart):
    """The mount that the framework's files are on."""

    device: Line
    kind: Line | None = None


class RankReport(_ProofPart):
    """One rank's report."""

    rank: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    node: Line
    error: str | None = None
    # What it could use, and what the job asked for it, where its launcher told that.
    cpus: int | None = Field(default=None, gt=0)
    cpus_asked: int | None = None
    present: int | None = None
    modes: tuple[Gpu, ...] | None = None
    device: Line | None = None
    devices: DeviceProof | None = None
    collective: Collective | None = None
    nccl: Nccl | None = None
    library: Line | None = None
    plugin: PlugIn | None = None
    mount: ProofMount | None = None
    import_s: float | None = None


class ProofContent(_ProofPart):
    """All that a proof says."""

    date: Line
    image: ProvenImage | None = None
    job: dict[str, str] = Field(default_factory=dict)
    framework: Line | None = None
    asked: int = Field(gt=0)
    ranks: tuple[RankReport, ...]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """A proof as it was read: where from, whose file, its digest and its content."""

    path: Path
    owner: int
    digest: str
    content: ProofContent

    @property
    def nodes(self) -> dict[str, list[RankReport]]:
        """The ranks of each node, by name."""
        by_node: dict[str, list[RankReport]] = {}
        for rank in self.content.ranks:
            by_node.setdefault(rank.node, []).append(rank)
        return by_node


def read(path: Path) -> Proof:
    """Read a proof, or the one in a job's folder; raises ChecksFailedError for what is none."""
    path = path / FILE if path.is_dir() else path
    try:
        with foreign_files.opened(path) as file:
            owner = os.fstat(file.fileno()).st_uid
            body = foreign_files.loads(foreign_files.content(file, MOST_BYTES))
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {path}: {error.strerror}",
            next_step="give the proof.json that a job's ranks wrote, or its folder",
        ) from None
    except ValueError as error:
        raise _unfit(path, f"incomplete JSON: {error}") from None
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise _unfit(path, f"not a proof of version {SCHEMA}")
    digest = body.get("digest")
    try:
        computed = hashlib.sha256(canonical(body.get("content")).encode()).hexdigest()
        if digest != computed:
            raise _unfit(
                path,
                "the file was changed after the job wrote it",
                why=f"the SHA-256 of its content is {computed[:12]}…, its digest is "
                f"{str(digest)[:12]}…",
            )
        content = ProofContent.model_validate_json(json.dumps(body["content"]))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise _unfit(path, f"invalid proof: {key}: {first['msg'][:200]}") from None
    except ValueError as error:
        raise _unfit(path, f"invalid proof: {error}") from None
    return Proof(path=path, owner=owner, digest=computed, content=content)


def canonical(content: object) -> str:
    """Write JSON in the form that the digest is taken of; `probe_prove.py` has the same."""
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def _unfit(path: Path, what: str, why: str | None = None) -> ChecksFailedError:
    return ChecksFailedError(
        f"{path}: {what}", why=why, next_step="run the job again: an edited proof does not count"
    )
