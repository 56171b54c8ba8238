"""Proofs as two nodes with four GPUs each leave them, with changes."""

import hashlib
import json
from pathlib import Path
from typing import Any

from dlcontainer.proof import proof
from dlcontainer.sites.site import Site
from tests.values import site_of

PLAN = "ab" * 32
GPUS = 4
LOSSES = {"index": 0, "name": "NVIDIA A100", "ok": True, "apart": 1e-6, "error": None}
SITE: dict[str, Any] = {
    "accelerator": {
        "vendor": "nvidia",
        "model": "NVIDIA A100",
        "per_node": GPUS,
        "remembered": ["vendor", "model", "per_node"],
    },
    "network": {
        "kind": "slingshot",
        "model": "HPE Slingshot 11",
        "busbw_min": 20.0,
        "remembered": ["kind", "model", "busbw_min"],
    },
    "collectives": {"plugin": "hook", "remembered": ["plugin"]},
}
PLUGIN = {
    "file": "/opt/ofi/lib/libnccl-net.so",
    "name": "AWS Libfabric",
    "versions": [8, 9],
    "asked": [6, 7, 8],
    "error": None,
}


def gpu_site(**changes: Any) -> Site:
    return site_of(**{**SITE, **changes}).value


def image(**changes: Any) -> dict[str, Any]:
    site = gpu_site()
    given = {
        "plan": PLAN,
        "sha256": None,
        "file": "demo.sif",
        "recipe": "demo",
        "version": "1.0",
        "site": site.name,
        "epoch": site.epoch,
        "node_type": site.node_type,
    }
    return {**given, **changes}


def rank(number: int, **changes: Any) -> dict[str, Any]:
    """Give a rank's report; local rank 0 tries all devices of its node, another one its own."""
    local = number % GPUS
    tried = range(GPUS) if local == 0 else [local]
    given: dict[str, Any] = {
        "rank": number,
        "size": 2 * GPUS,
        "local_rank": local,
        "node": f"n{number // GPUS + 1}",
        "error": None,
        "present": GPUS,
        "plugin": PLUGIN,
        "modes": [{"uuid": f"GPU-{one}", "mode": "default"} for one in range(GPUS)],
        "device": f"GPU-{local}",
        "devices": {
            "state": "ok",
            "detail": "trained as the CPU does",
            "count": GPUS,
            "names": ["NVIDIA A100"] * GPUS,
            "variables": {},
            "devices": [{**LOSSES, "index": one} for one in tried],
        },
        "collective": {
            "backend": "nccl",
            "why": None,
            "size": 2 * GPUS,
            "off": 0.0,
            "bandwidth": [{"bytes": 1 << 28, "seconds": 0.01, "algbw": 26.8, "busbw": 40.0}],
        },
        "nccl": {
            "library": "NCCL",
            "version": "2.27.5",
            "network": "libfabric",
            "networks": ["AWS Libfabric"],
            "direct_rdma": True,
        },
        "mount": {"device": "0:52", "kind": "fuse.squashfuse_ll"},
        "import_s": 2.0 + number,
    }
    return {**given, **changes}


def content(ranks: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    given = {
        "date": "2026-11-22T16:00:00Z",
        "image": image(),
        "job": {"SLURM_JOB_ID": "17", "SLURM_STEP_NUM_TASKS": str(2 * GPUS)},
        "framework": "torch",
        "asked": 2 * GPUS,
        "ranks": ranks if ranks is not None else [rank(number) for number in range(2 * GPUS)],
        "faults": [],
    }
    return {**given, **changes}


def write(path: Path, body: dict[str, Any]) -> Path:
    """Write a proof as rank 0 does."""
    digest = hashlib.sha256(proof.canonical(body).encode()).hexdigest()
    path.write_text(json.dumps({"schema": proof.SCHEMA, "digest": digest, "content": body}))
    return path
