"""An image as it was given: a SIF, an OCI archive or layout, an unpacked tree; nothing runs."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer.errors import UsageError
from dlcontainer.image import file_kinds, record, sif
from dlcontainer.image.contents import FileTree, FolderTree, SquashfsTree, TreeEntry
from dlcontainer.image.contents.layered_tree import LayeredTree
from dlcontainer.image.record import Record
from dlcontainer.registry import archive
from dlcontainer.sites.site import Site
from dlcontainer.system import foreign_files
from dlcontainer.system.process import Runner
from dlcontainer.system.workspace import temporary

# Of an archive's blobs: what `adopt` takes by itself.
_MOST_ARCHIVE = 100 * 10**9
_MOST_CONFIG = 4 * 1024 * 1024
_GIVE = "give a SIF, an OCI archive or layout, or the folder of an unpacked tree"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSource:
    """An image's tree, with what stands beside it: `arch` is None where only its files tell.

    `environment` is an OCI image's own; None where files of the tree have it. `deleted` gives the
    files that upper layers of one took away, and `history` the lines that made its layers: whoever
    has the image has both. `at_once` bounds the bytes that lie unpacked in TMPDIR, beside one file
    that is larger; layers are read from their begin each time, so of those all lie there.
    """

    tree: FileTree
    arch: str | None = None
    environment: Mapping[str, str] | None = None
    record: Record | None = None
    deleted: Callable[[], Sequence[TreeEntry]] = tuple
    history: Sequence[str] = ()
    at_once: int = 10**9


@contextlib.contextmanager
def opened(
    path: Path, site: Site, environ: Mapping[str, str], runner: Runner
) -> Iterator[ImageSource]:
    """Open an image; what an archive holds lies in TMPDIR until the end.

    Raises UsageError, ChecksFailedError, BuildError for what is none or damaged; MisfitError for
    an archive without an image for the site's architecture; EngineError without unsquashfs.
    """
    if path.is_dir() and archive.is_layout(path):
        yield _of_layout(path, archive.manifest_in(path, site.arch), site)
    elif path.is_dir():
        if not any((path / name).exists() for name in ("bin", "usr", "opt", "lib")):
            raise UsageError(f"{path} is not the tree of an image", next_step=_GIVE)
        yield ImageSource(tree=FolderTree(folder=path))
    elif file_kinds.kind(path, _GIVE) == "sif":
        yield ImageSource(
            tree=SquashfsTree.of(path, environ, runner),
            arch=sif.arch(path),
            record=record.read(record.beside(path), site.owners),
        )
    else:
        with temporary(environ, runner) as folder:
            layout = folder / "layout"
            archive.unpack(path, site.arch, layout, _MOST_ARCHIVE)
            yield _of_layout(layout, archive.manifest_of(layout), site)


def _of_layout(layout: Path, manifest: Any, site: Site) -> ImageSource:
    blobs = {
        digest: layout / "blobs" / "sha256" / digest.removeprefix("sha256:")
        for digest in (part["digest"] for part in (manifest["config"], *manifest["layers"]))
    }
    config = foreign_files.loads(
        foreign_files.read(blobs[manifest["config"]["digest"]], _MOST_CONFIG)
    )
    tree = LayeredTree(layers=[blobs[part["digest"]] for part in manifest["layers"]])
    return ImageSource(
        tree=tree,
        arch=site.arch,
        environment=_environment(config),
        deleted=tree.deleted,
        history=_history(config),
        at_once=_MOST_ARCHIVE,
    )


def _environment(config: Any) -> dict[str, str]:
    """Read a configuration's Env; whatever is none is passed over."""
    settings = config.get("config") if isinstance(config, dict) else None
    lines = settings.get("Env") if isinstance(settings, dict) else None
    pairs = [str(line).partition("=") for line in lines] if isinstance(lines, list) else []
    return {name: text for name, _, text in pairs if name}


def _history(config: Any) -> list[str]:
    """Read the lines that made the layers; whatever is none is passed over."""
    steps = config.get("history") if isinstance(config, dict) else None
    return [
        str(step["created_by"])
        for step in (steps if isinstance(steps, list) else [])
        if isinstance(step, dict) and "created_by" in step
    ]
