"""Where the loader of an unpacked tree looks for libraries."""

from collections.abc import Iterator
from pathlib import Path

_USUAL = ("lib64", "usr/lib64", "lib", "usr/lib")
_DEEPEST = 4


def library_folders(root: Path, loader: str) -> tuple[str, ...]:
    """Return the folders that the loader of a tree searches, in its order, where they are here."""
    listed = list(_configured(root, root / "etc/ld.so.conf", 0))
    # A loader's own default is the folder that it was built for: the one it lies in.
    loader_folder = (root / loader.lstrip("/")).resolve().parent
    usual = [root / name for name in _USUAL]
    folders = [folder for folder in (*listed, loader_folder, *usual) if folder.is_dir()]
    return tuple(dict.fromkeys(map(str, folders)))


def _configured(root: Path, file: Path, depth: int) -> Iterator[Path]:
    """Read what ldconfig reads: a folder a line, or files to include."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth < _DEEPEST:
            for pattern in words[1:]:
                inside = pattern if pattern.startswith("/") else f"/etc/{pattern}"
                for path in sorted(root.glob(inside.lstrip("/"))):
                    yield from _configured(root, path, depth + 1)
        elif words and words[0].startswith("/"):
            yield root / words[0].lstrip("/")
