"""What refers to an image in a registry: by its own list, or by an index under a tag.

Registries from before OCI 1.1 (docker-registry 2.8) keep a manifest's `subject` and don't list it.
For them the specification has an index under the tag `sha256-HEX`, which whoever pushes reads,
extends and writes: two at once can lose one's entry. So each artefact has a tag of its own too,
`sha256-HEX.ABCDEF012345`: nobody else writes it, readers look there too, and the next writer puts
what is missing back into the index. It also keeps a registry that removes untagged manifests from
removing evidence.
"""

import contextlib
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dlcontainer.config.image_names import is_digest
from dlcontainer.errors import PublishError
from dlcontainer.registry.artifacts import INDEX, MANIFEST, ArtifactClient
from dlcontainer.registry.base_image import sha256
from dlcontainer.system import foreign_files

_TRIES = 8
# Of an index that we write: a registry takes up to 4 MiB.
_INDEX_BYTES = 3_000_000
_ENTRY_BYTES = 250
# For the index together; strangers' tags cost a question each.
_MOST_S = 300.0
# Of those that an index lost, in one try.
_MOST_PUT_BACK = 100
_PAGE = 1000
# Ten million tags; time ends it before.
_PAGES = 10_000


def _silent(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Referrer:
    """An artefact that refers to an image: its manifest's digest, size and type."""

    digest: str
    size: int
    artifact_type: str

    def described(self) -> dict[str, object]:
        """Return it as an index lists it."""
        return {
            "mediaType": MANIFEST,
            "digest": self.digest,
            "size": self.size,
            "artifactType": self.artifact_type,
        }


def tag_of(subject: str) -> str:
    """Return the tag of the index that stands in for a list."""
    return subject.replace(":", "-")


def attach(client: ArtifactClient, subject: str, body: bytes, artifact_type: str) -> str:
    """Push a manifest that has this subject, so that it is found; return its digest."""
    digest = sha256(body)
    tag = f"{tag_of(subject)}.{digest.removeprefix('sha256:')[:12]}"
    if not client.put_manifest(tag, body, MANIFEST):
        added = Referrer(digest=digest, size=len(body), artifact_type=artifact_type)
        _list(client, subject, added)
    return digest


def _list(client: ArtifactClient, subject: str, added: Referrer) -> None:
    """Add an artefact to the index, until a look after the write shows it."""
    tag = tag_of(subject)
    with client.within(_MOST_S):
        for attempt in range(_TRIES):
            listed = _read((client.document(f"manifests/{tag}") or {}).get("manifests"))
            lost = itertools.islice(_tagged(client, subject, listed, _silent), _MOST_PUT_BACK)
            by_digest = _fitting((added, *listed, *lost))
            if attempt and set(by_digest) == {referrer.digest for referrer in listed}:
                return
            index = {
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": [by_digest[digest].described() for digest in sorted(by_digest)],
            }
            client.put_manifest(tag, json.dumps(index, indent=1).encode(), INDEX)
            # Another who read before us may write after us: a look some time later finds out.
            time.sleep(random.uniform(0.02, 0.1) * (attempt + 1))  # noqa: S311 - no secret


def _fitting(entries: Iterable[Referrer]) -> dict[str, Referrer]:
    """Return entries by digest, the first first, as many as an index holds.

    One that is left out is found by its own tag.
    """
    by_digest: dict[str, Referrer] = {}
    size = 0
    for referrer in entries:
        size += len(referrer.artifact_type) + _ENTRY_BYTES
        if size > _INDEX_BYTES:
            break
        by_digest[referrer.digest] = referrer
    return by_digest


def found(client: ArtifactClient, subject: str, note: Callable[[str], None]) -> Iterator[Referrer]:
    """List all that refers to an image, each once, as it is asked for.

    Anybody may have put it there: what can't be read is noted and passed over, and no number ends
    the list, since strangers could use it up. `client.within` bounds the time.
    """
    listed = _document(client, f"referrers/{subject}", note)
    direct = _read((listed or {}).get("manifests"))
    indexed = _indexed(client, tag_of(subject), note) if listed is None else ()
    by_digest = {referrer.digest: referrer for referrer in (*direct, *indexed)}
    yield from by_digest.values()
    for referrer in _tagged(client, subject, by_digest.values(), note):
        if referrer.digest not in by_digest:
            by_digest[referrer.digest] = referrer
            yield referrer


def _document(
    client: ArtifactClient, path: str, note: Callable[[str], None]
) -> Mapping[str, Any] | None:
    try:
        return client.document(path)
    except PublishError as error:
        note(f"can't read {path}: {error.what}")
        return None


def _indexed(client: ArtifactClient, tag: str, note: Callable[[str], None]) -> tuple[Referrer, ...]:
    return _read((_document(client, f"manifests/{tag}", note) or {}).get("manifests"))


def _read(entries: Any) -> tuple[Referrer, ...]:
    """Read an index's entries; what is none is passed over, since anybody may have put it there."""
    return tuple(
        Referrer(
            digest=entry["digest"],
            size=entry["size"],
            artifact_type=str(entry.get("artifactType", "")),
        )
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
        and isinstance(entry.get("digest"), str)
        and is_digest(entry["digest"])
        and type(entry.get("size")) is int
    )


def _tagged(
    client: ArtifactClient,
    subject: str,
    listed: Iterable[Referrer],
    note: Callable[[str], None],
) -> Iterator[Referrer]:
    """Find artefacts by their own tags that no list has: a question each, when it is asked for."""
    prefix = f"{tag_of(subject)}."
    tags = {f"{prefix}{referrer.digest.removeprefix('sha256:')[:12]}" for referrer in listed}
    for tag in _tags(client, note):
        if tag.startswith(prefix) and tag not in tags:
            referrer = _by_tag(client, tag, note)
            if referrer is not None:
                yield referrer


def _by_tag(client: ArtifactClient, tag: str, note: Callable[[str], None]) -> Referrer | None:
    try:
        answer = client.manifest(tag)
    except PublishError as error:
        note(f"can't read {tag}: {error.what}")
        return None
    if answer is None:
        return None
    entry = {"digest": sha256(answer.body), "size": len(answer.body)}
    with contextlib.suppress(ValueError):
        body = foreign_files.loads(answer.body)
        entry["artifactType"] = body.get("artifactType") if isinstance(body, dict) else ""
    return next(iter(_read([entry])), None)


def _tags(client: ArtifactClient, note: Callable[[str], None]) -> Iterator[str]:
    """List the repository's tags, page by page."""
    last: str | None = None
    for _ in range(_PAGES):
        query = urlencode({"n": _PAGE, **({"last": last} if last else {})})
        page = (_document(client, f"tags/list?{query}", note) or {}).get("tags")
        names = [tag for tag in page if isinstance(tag, str)] if isinstance(page, list) else []
        yield from (tag for tag in names if re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tag))
        if len(names) < _PAGE or names[-1] == last:
            return
        last = names[-1]
