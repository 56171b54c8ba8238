"""What tests of the catalogue share: evidence for a release, plain and hostile."""

import hashlib
import json
from pathlib import Path
from typing import Any

from dlcontainer.image.checks_file import CheckRecord, ReleaseChecks

HOSTILE = (
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title=1">',
    "</style></head></body><script>document.title='taken'</script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202eright to left\u2028\x1b[31m\x00",
    "&lt;script&gt;",
    "--><script>document.title='taken'</script><!--",
)


def fill(release: Path, *, verdict: str, sha256: str | None = None, text: str = "") -> None:
    """Give a release a record, checks, a bill and a report; `text` stands wherever one may."""
    image = (release / "image.sif").read_bytes()
    own = hashlib.sha256(image).hexdigest()
    record: dict[str, Any] = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": own, "size": len(image)},
        "digest": "0" * 64,
        "content": {
            "site": "lab",
            "recipe": {
                "name": "demo", "version": "1.0", "summary": text or "a demo",
                "prefix": "/opt/demo", "exposes": ["python"], "license": text or "MIT",
                "verify": {"imports": {"torch": "2.13.0"}},
            },
        },
    }  # fmt: skip
    checks = ReleaseChecks(
        finished="2026-11-22T10:00:00Z",
        checks=(
            CheckRecord(name=text or "imports", ok=True, state="ok", detail=""),
            CheckRecord(name="gpu", ok=False, state="not tried", detail=text or "no GPU"),
        ),
        reached=(text or "rendered: its file is valid", "built: 2026-11-22, in a job"),
    ).body
    versions = {"numpy": text or "2.3.5", "torch": "2.13.0", "zlib1g": "1"}
    bill = {
        "bomFormat": "CycloneDX",
        "components": [{"name": name, "version": one} for name, one in versions.items()],
    }
    declared = {"probe": "import", "image_sha256": sha256 or own}
    session = {"declared": declared, "verdict": verdict, "headline": text or "as quick"}
    files = {"record.json": record, "checks.json": checks, "sbom.cdx.json": bill}
    for name, body in {**files, "report.json": {"sessions": [session]}}.items():
        (release / name).write_text(json.dumps(body))
    (release / "report.html").write_text("<!doctype html>")


def hostile(release: Path, text: str) -> None:
    """Put a text wherever the files of a release hold one."""
    fill(release, verdict=text[:100], text=text)
