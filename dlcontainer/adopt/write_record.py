"""The record of an adopted image, and the bill of its packages."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.adopt import layer, trust
from dlcontainer.adopt.layer import ImageOrigin
from dlcontainer.engines import apptainer
from dlcontainer.engines.execution import Execution
from dlcontainer.image import sbom
from dlcontainer.image.contents import TreeContents
from dlcontainer.image.record import SCHEMA, Record
from dlcontainer.system import digests


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionFacts:
    """All that a record is made of; `name` is the image's file in its place."""

    origin: ImageOrigin
    content: Mapping[str, object]
    image: Path
    name: str
    execution: Execution
    trusted: bool


def write(path: Path, facts: AdoptionFacts) -> Record:
    """Write the record of an adopted image."""
    host, sha256 = facts.execution.host, digests.of_file(facts.image)
    packed = PackedImage(file=facts.image, name=facts.name, sha256=sha256)
    return settle_record(
        path,
        {
            **of_packed(packed, facts.content, facts.execution),
            "adopted_on": {"arch": host.arch, "distribution": host.distribution},
            "trust": trust.of(host.user, sha256) if facts.trusted else None,
        },
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedImage:
    """An image that the engine has packed from another; `name` is its file's in its place."""

    file: Path
    name: str
    sha256: str


def of_packed(
    image: PackedImage, content: Mapping[str, object], execution: Execution
) -> dict[str, object]:
    """Return what the record of every packed image says: file, content, engine, time."""
    capabilities = execution.capabilities
    return {
        "schema": SCHEMA,
        "dlcontainer": __version__,
        "image": {"file": image.name, "sha256": image.sha256, "size": image.file.stat().st_size},
        "digest": layer.digest(content),
        "content": content,
        "engine": {
            "builder": "apptainer",
            "version": capabilities.version,
            "mode": capabilities.build_mode,
            "squash": list(apptainer.SQUASH),
        },
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def settle_record(path: Path, body: Mapping[str, object]) -> Record:
    """Write a record, and read it as any other is read."""
    text = json.dumps(body, indent=1) + "\n"
    path.write_text(text)
    return Record.model_validate_json(text)


def bill(origin: ImageOrigin, digest: str, arch: str, contents: TreeContents) -> str:
    """Return the bill of materials, by the databases of packages in the image."""
    subject = sbom.BillSubject(name=origin.name, version=origin.version, digest=digest, arch=arch)
    return sbom.render(subject, contents)
