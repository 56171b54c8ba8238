"""Promotion: a release of another tree, such as the one for tests, published here as it is."""

import contextlib
from collections.abc import Collection
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import (
    changes,
    contents,
    generation,
    layout,
    reading,
    store,
    strangers,
)
from dlcontainer.publish.tree.generation import Generation
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES, PublishedTree
from dlcontainer.publish.tree.numbers import Succession
from dlcontainer.publish.tree.store import ReleaseDraft
from dlcontainer.system import foreign_files

_MOST_BYTES = 256_000_000


def promote(
    tree: PublishedTree,
    source: Path,
    module: str,
    owners: Collection[str] = (),
    succession: Succession | None = None,
) -> Generation:
    """Publish the very release that is live in another tree, every byte of it checked.

    The same digest is the proof that what was tested is what is published; so it keeps its number.
    `owners` are users who do not publish here, and whose tree is taken all the same.
    """
    strangers.require_none(tree.root, tree.ownership, tree.note)
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(reading.opened(source))
        number = layout.current(top)
        if number is None:
            raise PublishError(f"nothing is published in {source}")
        generations = stack.enter_context(top.sub(GENERATIONS))
        chosen = generation.read(generations, number).release(module)
        entry, digest = chosen.entry, chosen.release.digest
        now = stack.enter_context(generations.sub(str(number)))
        releases = stack.enter_context(top.sub(RELEASES))
        release = stack.enter_context(releases.sub(digest))
        whose = strangers.ForeignTree(top=top, generation=now, release=release, module=entry.module)
        strangers.require_known(whose, tree, owners)
        contents.require_sound(releases, digest, entry.module)
        description = contents.described(release)
        if release.info(contents.TREE) is not None:
            raise PublishError(
                f"{entry.module} is an unpacked image, which can't be promoted",
                next_step="publish its image file in the other tree: dlcontainer publish --layout "
                "tree",
            )
        files = _files(release, description.folder)
        draft = ReleaseDraft(
            name=entry.name,
            version=entry.version,
            image=stack.enter_context(release.open(contents.IMAGE)),
            sha256=description.image,
            files=files,
            source=release,
            number=description.number,
        )
        _require_digest(digest, draft)
        return changes.publish(tree, draft, succession)


def _require_digest(digest: str, draft: ReleaseDraft) -> None:
    if store.digest_of_draft(draft) != digest:
        raise PublishError(
            f"{draft.key.module} changed while it was read",
            next_step="find out who writes to the other tree",
        )


def _files(release: Folder, folder: Path) -> dict[str, bytes]:
    """Read all but the image; modulefiles name PLACEHOLDER again."""
    kept_apart = (contents.IMAGE, contents.FILE, checksums.FILE, tree_lock.MARK)
    files = {}
    for name, _ in contents.files(release):
        if name not in kept_apart:
            with contents.opened(release, name) as file:
                data = foreign_files.content(file, _MOST_BYTES)
            files[name] = contents.moved(name, data, folder, contents.PLACEHOLDER)
    return files
