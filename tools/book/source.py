"""The tree that Sphinx reads: a copy of docs/, with what only the site has added to it.

Pages stay plain Markdown on GitHub; the site's lists of pages, the command reference and the
schemas are appended or written here, below the last line, so that a line's number stays its own.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tools.book import commands, reference, schemas
from tools.book.commands import Command
from tools.book.shelves import INDEX, Book


def write(book: Book, every: Sequence[Command], folder: Path) -> None:
    """Write the tree into an empty folder."""
    docs = book.root / "docs"
    shutil.copytree(docs, folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
    made = {**reference.pages(every, book.texts), **schemas.texts()}
    for name, text in made.items():
        target = folder / name if name.startswith(reference.FOLDER) else folder / _beside(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for name, text in _appended(book, every).items():
        with (folder / name).open("a", encoding="utf-8") as page:
            page.write(f"\n\n{text}")


def _beside(schema: str) -> str:
    return str(PurePosixPath(schemas.PAGE).parent / schema)


def _appended(book: Book, every: Sequence[Command]) -> dict[str, str]:
    texts = {name: _tree(book, name) for name in book.texts if PurePosixPath(name).name == INDEX}
    names = list(dict.fromkeys(f"commands/{command.words[0]}" for command in every))
    texts[commands.LIST] = f"{reference.listing(every)}\n{_toctree(names)}"
    texts[schemas.PAGE] = schemas.listing()
    return texts


def _tree(book: Book, index: str) -> str:
    folder = PurePosixPath(index).parent
    return _toctree(
        [os.path.relpath(page, folder).removesuffix(".md") for page in book.listed(index)]
    )


def _toctree(names: Sequence[str]) -> str:
    lines = ["```{toctree}", ":hidden:", "", *names, "```", ""]
    return "\n".join(lines)
