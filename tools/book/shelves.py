"""Shelves: the folders of docs/, in a reader's order, each with an index that lists its pages.

A page's place is the line of its folder's `index.md` that links to it. So the order of the site is
that of the list which people read on GitHub, and a page without a line is an error.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.book import markdown
from tools.book.problems import Problem

# In the order of the navigation: from a reader's first hour to what was measured.
SHELVES = (
    *("start", "use", "image", "centre", "measure", "extend", "reference", "why", "measurements"),
)
# Folders of docs/ that hold no pages.
PICTURES = ("images",)
INDEX = "index.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Book:
    """The pages of docs/ by their path below it, with their text."""

    root: Path
    texts: Mapping[str, str]

    def page(self, name: str) -> markdown.Page:
        """Return a page by its path below docs/."""
        return markdown.read(self.texts[name])

    def listed(self, index: str) -> list[str]:
        """List the pages that an index has a line for, in its order.

        Of those in its folder each is one, and the index of each folder below; the front page has
        the shelves, in their own order.
        """
        if index == INDEX:
            return [f"{shelf}/{INDEX}" for shelf in SHELVES if f"{shelf}/{INDEX}" in self.texts]
        targets = (beside(index, link.path) for link in self.page(index).links if link.path)
        below = (name for name in targets if name in self.texts and self.index_of(name) == index)
        return list(dict.fromkeys(below))

    def index_of(self, name: str) -> str:
        """Name the index that a page must be listed in: the nearest one above it."""
        folder = PurePosixPath(name).parent
        own = folder.parent if PurePosixPath(name).name == INDEX else folder
        near = (above / INDEX for above in (own, *own.parents))
        return next((str(path) for path in near if str(path) in self.texts), INDEX)


def beside(page: str, path: str) -> str:
    """Resolve a link's path, as written on a page; above docs/ it begins with `..`."""
    return os.path.normpath(PurePosixPath(page).parent / path)


def read(root: Path) -> Book:
    """Read the pages of the checkout at `root`; hidden files are none."""
    docs = root / "docs"
    names = sorted(path.relative_to(docs) for path in docs.rglob("*.md"))
    shown = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    texts = {name.as_posix(): (docs / name).read_text(encoding="utf-8") for name in shown}
    return Book(root=root, texts=texts)


def problems(book: Book) -> Iterator[Problem]:
    """Find shelves without an index, and pages without a shelf, a place on it or a title."""
    for index in (INDEX, *(f"{shelf}/{INDEX}" for shelf in SHELVES)):
        if index not in book.texts:
            what = "the front page is missing" if index == INDEX else "a shelf without its index"
            step = "write it: what it is for in a line, then a line for each page"
            yield Problem(page=f"docs/{index}", what=what, next_step=step)
    listed = {name for index in _indexes(book) for name in book.listed(index)}
    for name in book.texts:
        if name == INDEX:
            continue
        yield from _page_problems(book, name, listed)


def _page_problems(book: Book, name: str, listed: set[str]) -> Iterator[Problem]:
    page = f"docs/{name}"
    shelf = name.partition("/")[0]
    if "/" not in name or shelf not in SHELVES:
        step = f"git mv it to one of docs/{{{','.join(SHELVES)}}}/"
        yield Problem(page=page, what="a page without a shelf", next_step=step)
    elif name not in listed:
        index = book.index_of(name)
        if index == INDEX:
            # Its shelf has no index, which is said already.
            return
        link = os.path.relpath(name, PurePosixPath(index).parent)
        step = f"add a line to docs/{index}: - [{book.page(name).title or 'TITLE'}]({link}): TASK"
        yield Problem(page=page, what="a page that no index lists", next_step=step)
    if not book.page(name).title:
        yield Problem(page=page, what="a page without a title", next_step="begin it with `# TITLE`")


def _indexes(book: Book) -> Sequence[str]:
    return [name for name in book.texts if PurePosixPath(name).name == INDEX]
