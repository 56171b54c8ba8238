"""Links of an image where the engine writes, led as they lead in the image: within its own root.

An engine that unpacks an image follows an absolute link to this host: Apptainer 1.4.5 makes no
folder at /home -> /realhome and ends, and empties the file of this host that /etc/hosts leads to
(tried). So before it unpacks layers, one more is laid over them: each such link becomes the
relative one that leads to the same place of the image, or what the engine would make there.
"""

import gzip
import hashlib
import io
import json
import posixpath
import tarfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dlcontainer.image.contents.following import follow
from dlcontainer.registry import pull

_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


def absolute(path: str, links: Mapping[str, str]) -> str | None:
    """Return the first absolute link on a path, where an engine leaves the tree; None without
    one.
    """
    return next((link for link in follow(path, links).met if links[link].startswith("/")), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkReplacement:
    """What takes the place of a link; `target` is a link's own."""

    path: str
    kind: Literal["link", "folder", "file"]
    target: str = ""

    @property
    def said(self) -> str:
        """Return the fix in a line."""
        kinds = {"link": f"a link to {self.target}", "folder": "a folder", "file": "an empty file"}
        return f"{self.path} becomes {kinds[self.kind]}: the engine writes there"


@dataclass(frozen=True, kw_only=True, slots=True)
class EnginePaths:
    """The paths that an engine writes: folders that it makes, files that it makes."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


def fixes(
    written: EnginePaths, links: Mapping[str, str], folders: Collection[str]
) -> list[LinkReplacement]:
    """Lead the links on these paths within the tree, to what is there; raises LeavesError."""
    replacements: dict[str, LinkReplacement] = {}
    for path in (*written.folders, *written.files):
        for link in follow(path, links).met:
            is_file = link == path and path in written.files
            end = follow(link, links).end
            folder = posixpath.dirname(end) if is_file else end
            if folder != "/" and folder not in folders:
                # It leads to nothing: what the engine would have made takes its place.
                replacements[link] = LinkReplacement(
                    path=link, kind="file" if is_file else "folder"
                )
            elif links[link].startswith("/"):
                up = "../" * (link.count("/") - 1)
                target = (up + links[link].lstrip("/")) or "."
                replacements[link] = LinkReplacement(path=link, kind="link", target=target)
    return list(replacements.values())


def lay(folder: Path, manifest: Mapping[str, Any], replacements: Iterable[LinkReplacement]) -> None:
    """Lay one more layer over the image of a layout."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for fix in replacements:
            entry = tarfile.TarInfo(fix.path.lstrip("/"))
            entry.mode = 0o644 if fix.kind == "file" else 0o755
            if fix.kind != "file":
                entry.type = tarfile.SYMTYPE if fix.kind == "link" else tarfile.DIRTYPE
            entry.linkname = fix.target
            tar.addfile(entry)
    raw = packed.getvalue()
    config = json.loads(_blob(folder, manifest["config"]["digest"]).read_bytes())
    config["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(raw).hexdigest()}")
    layer = {"mediaType": _LAYER_TYPE, **_put(folder, gzip.compress(raw, mtime=0))}
    body = {
        **manifest,
        "config": {**manifest["config"], **_put(folder, json.dumps(config).encode())},
        "layers": [*manifest["layers"], layer],
    }
    data = json.dumps(body).encode()
    pull.write(folder, data, _put(folder, data)["digest"], body)


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _put(folder: Path, data: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _blob(folder, digest).write_bytes(data)
    return {"digest": digest, "size": len(data)}
