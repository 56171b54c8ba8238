"""A published tree -> Apptainer's execution control list, and the limits of apptainer.conf.

How Apptainer reads them: github.com/apptainer/apptainer, internal/pkg/syecl/syecl.go,
pkg/util/apptainerconf/config.go and internal/pkg/util/fs/squashfs/squashfs.go (August 2026). A
group is for images of exactly its folder, not of those below, so each release has one; a folder
that is missing is an error for every image, of any folder.
"""

import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, layout
from dlcontainer.publish.tree.layout import RELEASES
from dlcontainer.system import guarded_files
from dlcontainer.system.guarded_files import name_of

ECL, LIMITS = "ecl.toml", "apptainer.conf.limits"
Mode = Literal["whitelist", "whitestrict"]
_FINGERPRINT = re.compile(r"[0-9A-Fa-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEAD = """\
# Written by `dlcontainer export ecl` for {root}.
# Place: etc/apptainer/ecl.toml of the engine, owned by root. Write it again after each publish and
# before each `modules gc`: a folder that is missing ends every start of every image.
# It holds for a setuid engine on hosts where users can't make user namespaces, and for SIF alone.
activated = true
"""
_LIMITS = """\
# Written by `dlcontainer export ecl` for {root}.
# Place: these lines in etc/apptainer/apptainer.conf, in place of those of the same names. They hold
# for a setuid engine on hosts where users can't make user namespaces, and never for root.
limit container paths = {path}
limit container owners = {owners}
allow container sif = {sif}
allow container encrypted = no
allow container squashfs = no
allow container extfs = no
allow container dir = {dir}
# With a limit, `iflimited` (the default) lets the kernel mount SquashFS: no FUSE process of a user.
allow setuid-mount squashfs = iflimited
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitedImage:
    """A release's image: a SIF, or an unpacked tree, which no signature covers."""

    digest: str
    owner: str
    is_tree: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EclLimits:
    """All that both files say; `keys` are fingerprints of PGP keys, none: any of the keyring."""

    root: Path
    images: tuple[LimitedImage, ...]
    keys: tuple[str, ...] = ()
    mode: Mode = "whitelist"

    @property
    def folder(self) -> Path:
        """The folder of the releases, with no links in it, as Apptainer wants it."""
        return Path(os.path.realpath(self.root)) / RELEASES


def read(root: Path, keys: Iterable[str], mode: Mode) -> EclLimits:
    """Read which images lie in a tree: the live ones, and those that jobs may have loaded.

    Raises PublishError for a key that is no fingerprint, and for a root that can't be named.
    """
    fingerprints = tuple(dict.fromkeys(key.replace(" ", "").upper() for key in keys))
    for key in fingerprints:
        if not _FINGERPRINT.fullmatch(key):
            raise PublishError(
                f"{key[:80]!r} is not a PGP key fingerprint",
                why="Apptainer compares the 40 hexadecimal digits of a PGP key",
                next_step="list the fingerprints of your keys: apptainer key list",
            )
    try:
        with Folder.at(root) as top:
            if layout.current(top) is None:
                raise PublishError(
                    f"nothing is published in {root}", next_step="publish an image first"
                )
            with top.sub(RELEASES) as releases:
                images = tuple(_images(releases))
    except OSError as error:
        raise PublishError(
            f"can't read {root}: {error.strerror}", next_step="give the root of a published tree"
        ) from None
    limits = EclLimits(root=root, images=images, keys=fingerprints, mode=mode)
    _require_name(limits.folder)
    return limits


def _images(releases: Folder) -> Iterable[LimitedImage]:
    for name in sorted(guarded_files.names(releases.number)):
        info = releases.info(name) if _DIGEST.fullmatch(name) else None
        if info is None or not stat.S_ISDIR(info.st_mode):
            continue
        with releases.sub(name) as release:
            for file, is_tree in ((contents.IMAGE, False), (contents.TREE, True)):
                image = release.info(file)
                if image is not None:
                    yield LimitedImage(digest=name, owner=name_of(image.st_uid), is_tree=is_tree)


def _require_name(folder: Path) -> None:
    """Refuse what ends a value of apptainer.conf, whose lists are parted by commas."""
    text = str(folder)
    if "," in text or text != text.strip() or not text.isprintable():
        raise PublishError(
            f"apptainer.conf can't contain the path {text!r}",
            why="it separates paths by commas, and a value ends with its line",
            next_step="publish under another path",
        )


def ecl(limits: EclLimits) -> str:
    """Write ecl.toml: one group a release, with the keys that its image must be signed by."""
    blocks = [_HEAD.format(root=limits.root)]
    for image in limits.images:
        if not image.is_tree:
            lines = {
                "tagname": image.digest[:12],
                # An empty list refuses all under `whitelist`; here the keyring decides.
                "mode": limits.mode if limits.keys else "whitestrict",
                "dirpath": str(limits.folder / image.digest),
            }
            texts = [f"{key} = {_toml(value)}" for key, value in lines.items()]
            keys = ", ".join(map(_toml, limits.keys))
            blocks.append("\n".join(["[[execgroup]]", *texts, f"keyfp = [{keys}]", ""]))
    return "\n".join(blocks)


def apptainer_conf(limits: EclLimits) -> str:
    """Write the limits of apptainer.conf: paths, owners and kinds of images."""
    kinds = {image.is_tree for image in limits.images}
    return _LIMITS.format(
        root=limits.root,
        path=limits.folder,
        owners=", ".join(sorted({image.owner for image in limits.images})) or "root",
        sif="yes" if False in kinds or not kinds else "no",
        dir="yes" if True in kinds else "no",
    )


def _toml(text: str) -> str:
    """Quote a basic string: JSON's escapes are TOML's, and the texts here are printable."""
    return json.dumps(text, ensure_ascii=False)
