"""What refers to an image in a registry: by its own list, or by an index under a tag.

Registries from before OCI 1.1 (docker-registry 2.8) keep a manifest's `subject` and don't list it.
For them the specification has an index under the tag `sha256-HEX`, which whoever pushes reads,
extends and writes: two at once can lose one's entry. So each artefact has a tag of its own too,
`sha256-HEX.ABCDEF012345`: nobody else writes it, readers look there too, and the next writer puts
what is missing back into the index. It also keeps a registry that removes untagged manifests from
removing evidence.
"""

import contextlib
import json
import random
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dlcontainer.config.image_names import is_digest
from dlcontainer.registry.artifacts import INDEX, MANIFEST, ArtifactClient
from dlcontainer.registry.base_image import sha256
from dlcontainer.system import foreign_files

_TRIES = 8
_MOST = 1000
_PAGES = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Referrer:
    """An artefact that refers to an image: its manifest's digest, size and type."""

    digest: str
    size: int
    artifact_type: str

    def described(self) -> dict[str, object]:
        """Give it as an index lists it."""
        return {
            "mediaType": MANIFEST,
            "digest": self.digest,
            "size": self.size,
            "artifactType": self.artifact_type,
        }


def tag_of(subject: str) -> str:
    """Give the tag of the index that stands in for a list."""
    return subject.replace(":", "-")


def attach(client: ArtifactClient, subject: str, body: bytes, artifact_type: str) -> str:
    """Push a manifest that has this subject, so that it is found; give its digest."""
    digest = sha256(body)
    tag = f"{tag_of(subject)}.{digest.removeprefix('sha256:')[:12]}"
    if not client.put_manifest(tag, body, MANIFEST):
        added = Referrer(digest=digest, size=len(body), artifact_type=artifact_type)
        _list(client, subject, added)
    return digest


def _list(client: ArtifactClient, subject: str, added: Referrer) -> None:
    """Add an artefact to the index, until a look after the write shows it."""
    tag = tag_of(subject)
    for attempt in range(_TRIES):
        listed = _indexed(client, tag)
        known = {one.digest: one for one in (*_tagged(client, subject, listed), *listed, added)}
        if attempt and set(known) == {one.digest for one in listed}:
            return
        index = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [known[digest].described() for digest in sorted(known)],
        }
        client.put_manifest(tag, json.dumps(index, indent=1).encode(), INDEX)
        # Another who read before us may write after us: a look some time later finds out.
        time.sleep(random.uniform(0.02, 0.1) * (attempt + 1))  # noqa: S311 - no secret


def found(client: ArtifactClient, subject: str) -> tuple[Referrer, ...]:
    """List all that refers to an image, each once."""
    listed = client.document(f"referrers/{subject}")
    own = _read((listed or {}).get("manifests"))
    indexed = _indexed(client, tag_of(subject)) if listed is None else ()
    tagged = _tagged(client, subject, (*own, *indexed))
    return tuple({one.digest: one for one in (*own, *indexed, *tagged)}.values())


def _indexed(client: ArtifactClient, tag: str) -> tuple[Referrer, ...]:
    return _read((client.document(f"manifests/{tag}") or {}).get("manifests"))


def _read(entries: Any) -> tuple[Referrer, ...]:
    """Read an index's entries; what is none is passed over, since anybody may have put it there."""
    return tuple(
        Referrer(
            digest=entry["digest"],
            size=entry["size"],
            artifact_type=str(entry.get("artifactType", "")),
        )
        for entry in (entries if isinstance(entries, list) else [])[:_MOST]
        if isinstance(entry, dict)
        and isinstance(entry.get("digest"), str)
        and is_digest(entry["digest"])
        and type(entry.get("size")) is int
    )


def _tagged(
    client: ArtifactClient, subject: str, known: Iterable[Referrer]
) -> tuple[Referrer, ...]:
    """Find artefacts by their own tags that no list has."""
    prefix = f"{tag_of(subject)}."
    there = {f"{prefix}{one.digest.removeprefix('sha256:')[:12]}" for one in known}
    missing = [tag for tag in _tags(client) if tag.startswith(prefix) and tag not in there]
    return tuple(one for tag in missing[:_MOST] if (one := _by_tag(client, tag)) is not None)


def _by_tag(client: ArtifactClient, tag: str) -> Referrer | None:
    answer = client.manifest(tag)
    if answer is None:
        return None
    entry = {"digest": sha256(answer.body), "size": len(answer.body)}
    with contextlib.suppress(ValueError):
        body = foreign_files.loads(answer.body)
        entry["artifactType"] = body.get("artifactType") if isinstance(body, dict) else ""
    return next(iter(_read([entry])), None)


def _tags(client: ArtifactClient) -> list[str]:
    """List the repository's tags, page by page."""
    tags: list[str] = []
    last: str | None = None
    for _ in range(_PAGES):
        query = urlencode({"n": _MOST, **({"last": last} if last else {})})
        page = (client.document(f"tags/list?{query}") or {}).get("tags")
        names = [one for one in page if isinstance(one, str)] if isinstance(page, list) else []
        tags += [one for one in names if re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", one)]
        if len(names) < _MOST or names[-1] == last:
            break
        last = names[-1]
    return tags
