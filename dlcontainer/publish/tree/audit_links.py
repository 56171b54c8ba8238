"""Audit: links. Those of a tree are relative, lead to what is there, and stay in the tree."""

import os
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.publish.tree.contents import TREE, ReleaseFault
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES


def faults(root: Path) -> Iterator[ReleaseFault]:
    """Look at each link of the root, of all generations and all releases."""
    real = Path(os.path.realpath(root))
    places = sorted(real.iterdir())
    for top in (real / GENERATIONS, real / RELEASES):
        for folder, below, files in os.walk(top):
            places += [Path(folder, name) for name in sorted((*below, *files))]
            # An unpacked image: its links are for those inside, and part of its digest.
            if Path(folder).parent == real / RELEASES:
                below[:] = [name for name in below if name != TREE]
    for path in places:
        why = _why(real, path) if path.is_symlink() else None
        if why is not None:
            yield ReleaseFault(where=str(root / path.relative_to(real)), why=why)


def _why(real: Path, path: Path) -> str | None:
    target = path.readlink()
    # Read as it is written, then as it is: what it passes through may be a link as well.
    leads = Path(os.path.normpath(path.parent / target))
    if target.is_absolute() or not leads.is_relative_to(real):
        return f"it points out of the tree: {target}"
    if not path.exists():
        return f"it is a dangling link: {target}"
    if not path.resolve().is_relative_to(real):
        return f"it points out of the tree through {target}"
    return None
