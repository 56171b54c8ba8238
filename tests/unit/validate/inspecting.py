"""An image made of a header and a record, and an engine that answers as told."""

import json
from pathlib import Path
from typing import Any

from dlcontainer.system.process import CompletedCommand
from dlcontainer.validate import validate as validating
from dlcontainer.validate.inspected import CheckResult, ValidateContext
from tests.fakes import RecordingRunner, completed
from tests.values import CONTENT, execution_of, site_of

IMAGE = b"\0" * 32 + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(80)


DIGEST = "ab" * 32


INSIDE: dict[str, Any] = {
    "schema": "dlcontainer/inside/1",
    "machine": "x86_64",
    "python": "3.11.2",
    "interpreter": "/opt/demo/bin/python",
    "prefix": "/opt/demo",
    "sys_prefix": "/opt/demo",
    "packages": "/usr/lib/python3/dist-packages",
    "digest": DIGEST,
    "content": CONTENT,
    "verify": "/opt/dlcontainer/verify.py",
    "leaks": [],
    "leftovers": [],
    "imports": [
        {
            "module": "torch",
            "wanted": "2.0",
            "version": "2.0",
            "file": "/opt/demo/lib/torch.py",
            "error": "",
        }
    ],
}


LABELS = {
    "org.dlcontainer.digest": f"sha256:{DIGEST}",
    "org.opencontainers.image.title": "demo",
    "org.opencontainers.image.version": "1.0",
}


VERIFY = {"ok": True, "what": "30 training steps", "loss_last": 0.5}


def said(body: object) -> CompletedCommand:
    return completed("x", stdout=json.dumps(body) + "\n")


def inspected(labels: object) -> CompletedCommand:
    return said({"data": {"attributes": {"labels": labels}}})


def answers(**changes: CompletedCommand | Exception) -> list[CompletedCommand | Exception]:
    given = {
        "labels": inspected(LABELS),
        "inside": said(INSIDE),
        "verify": completed("x", stdout="warming up\n" + json.dumps(VERIFY) + "\n"),
    }
    return list({**given, **changes}.values())


def kept_apart(**changes: CompletedCommand | Exception) -> list[CompletedCommand | Exception]:
    """Give the answers where nobody vouches for the image: a trial of containment comes first."""
    labels, *rest = answers(**changes)
    return [labels, completed("x"), *rest]


def check(image: Path, runner: RecordingRunner, **site: Any) -> dict[str, CheckResult]:
    seen: list[CheckResult] = []
    context = ValidateContext(execution=execution_of(image.parent, runner), on_check=seen.append)
    wanted = site_of(**site).value if site else None
    assert validating.validate(image, wanted, context) == seen
    # Each failure says what to do, and nothing else does.
    assert [one.name for one in seen if bool(one.next_step) is not (one.state == "failed")] == []
    return {one.name: one for one in seen}


def failed(checks: dict[str, CheckResult]) -> dict[str, str]:
    return {name: one.detail for name, one in checks.items() if not one.ok}


FOREIGN = IMAGE.replace(b"02\0", b"06\0")
