"""The note beside a kept step: what it is, and its checksum."""

import json
import os
import re

from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.system import foreign_files, guarded_files

# Of an entry that somebody else wrote nothing else reaches a terminal or a record.
_PLAIN = re.compile(r"[\w.+:-]{0,100}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def read(text: bytes, key: str) -> tuple[CachedStep, str]:
    """Read a note; raises ValueError for one that is not the key's, or not as `write` writes it."""
    body = foreign_files.loads(text)
    if not isinstance(body, dict) or body.get("key") != key:
        raise ValueError("belongs to another step")
    name, moment, sha256 = (str(body.get(field)) for field in ("name", "made", "sha256"))
    if not (_PLAIN.fullmatch(name) and _PLAIN.fullmatch(moment) and _SHA256.fullmatch(sha256)):
        raise ValueError("name, time or checksum is missing")
    packages = body.get("packages")
    if not isinstance(packages, list) or not all(map(_is_package, packages)):
        raise ValueError("packages are missing")
    kept = CachedStep(
        key=key, name=name, maker="", made_at=moment, size=0, packages=tuple(packages)
    )
    return kept, sha256


def _is_package(package: object) -> bool:
    return isinstance(package, dict) and all(
        isinstance(value, str) and value.isprintable() for value in package.values()
    )


def write(handle: int, kept: CachedStep, sha256: str) -> None:
    """Write the note of an entry into an open file."""
    body = {
        "key": kept.key,
        "name": kept.name,
        "maker": kept.maker,
        "made": kept.made_at,
        "size": kept.size,
        "packages": list(kept.packages),
        "sha256": sha256,
    }
    guarded_files.append(handle, json.dumps(body).encode() + b"\n")
    os.fsync(handle)
