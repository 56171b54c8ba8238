"""The catalogue's two files: in each generation, where they go back with a rollback, or elsewhere.

SHA256SUMS beside them lets the audit tell a catalogue that somebody edited.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from dlcontainer.errors import PublishError
from dlcontainer.publish import checksums
from dlcontainer.publish.catalogue import facts, page
from dlcontainer.publish.catalogue.facts import ReleaseFacts
from dlcontainer.publish.catalogue.page import HTML, JSON, Catalogue, CataloguePage
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import generation, layout
from dlcontainer.publish.tree.generation import Generation, GenerationEntry
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES, PublishedTree
from dlcontainer.system import foreign_files, report_files

_MOST_BYTES = 256_000_000


def stage(new: Generation, tree: PublishedTree, staged: Folder) -> None:
    """Write the catalogue into a generation's folder, before it is switched to."""
    written = _texts(page.of(tree.root, new, tree.releases), tree.templates)
    for name, data in written.items():
        staged.write(name, data)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in written.items()}
    staged.write(checksums.FILE, checksums.text(sums))


def live(root: Path) -> Catalogue:
    """Read the catalogue of what is live now; takes no lock. Raises PublishError."""
    try:
        with Folder.at(root) as top:
            number = layout.current(top)
            if number is None:
                raise PublishError(
                    f"nothing is published in {root}", next_step="publish an image first"
                )
            with top.sub(GENERATIONS) as generations, top.sub(RELEASES) as releases:
                return page.of(root, generation.read(generations, number), releases)
    except OSError as error:
        raise PublishError(
            f"can't read {root}: {error.strerror}", next_step="give the root of a published tree"
        ) from None


def briefly(root: Path, listed: Iterable[tuple[GenerationEntry, str]]) -> tuple[CataloguePage, ...]:
    """Read what a list shows of releases, by their version and digest; takes no lock."""
    with contextlib.ExitStack() as stack:
        try:
            releases = stack.enter_context(stack.enter_context(Folder.at(root)).sub(RELEASES))
        except OSError as error:
            none = ReleaseFacts(unknown=(f"{RELEASES} can't be read: {error.strerror}",))
            return tuple(CataloguePage(entry=entry, facts=none) for entry, _ in listed)
        return tuple(
            CataloguePage(entry=entry, facts=facts.of(releases, digest, brief=True))
            for entry, digest in listed
        )


def is_current(catalogue: Catalogue) -> bool:
    """Return whether the JSON in the live generation says the same."""
    path = catalogue.root / GENERATIONS / str(catalogue.generation.number) / JSON
    try:
        return foreign_files.read(path, _MOST_BYTES) == page.as_json(catalogue)
    except OSError:
        return False


def write(catalogue: Catalogue, folder: Path, templates: Iterable[Path]) -> tuple[Path, ...]:
    """Write both files into a folder; their links name the tree by its absolute path.

    Raises BenchDataError where it can't be written.
    """
    base = (catalogue.root / RELEASES).as_uri() + "/"
    written = _texts(replace(catalogue, base=base), templates)
    texts = {name: data.decode() for name, data in written.items()}
    return report_files.write_folder(texts, folder)


def _texts(catalogue: Catalogue, templates: Iterable[Path]) -> Mapping[str, bytes]:
    return {HTML: page.html(catalogue, templates), JSON: page.as_json(catalogue)}
