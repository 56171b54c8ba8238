"""A tree of the earlier layout: ROOT/images/NAME/VERSION, and links into it.

A takeover meets such trees for years: what publishes today can't make one any more.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from dlcontainer.publish import checksums
from dlcontainer.publish.module_tree import Place
from dlcontainer.publish.tree import contents
from tests import publishing


def put_old(image: Path, root: Path, **changes: Any) -> Path:
    """Publish an image as it was done then; give the version's folder."""
    scratch = root.parent / "scratch"
    done = publishing.put(image, scratch, **changes)
    place = Place(root=root, name=done.name, version=done.version)
    shutil.copytree(done.folder, place.folder)
    (place.folder / contents.FILE).unlink()
    for name in ("module.lua", "module.tcl"):
        path = place.folder / name
        path.write_bytes(contents.moved(name, path.read_bytes(), done.folder, place.folder))
    names = checksums.read((place.folder / checksums.FILE).read_bytes())
    sums = {name: hashlib.sha256((place.folder / name).read_bytes()).hexdigest() for name in names}
    (place.folder / checksums.FILE).write_bytes(checksums.text(sums))
    for link, name in place.links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(place.folder / name, link.parent))
    shutil.rmtree(scratch)
    return place.folder
