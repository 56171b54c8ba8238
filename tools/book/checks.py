"""What is checked before a page is built: shelves, links, commands. Quick: a unit test does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.book import commands, links, schemas, shelves
from tools.book.commands import Command
from tools.book.problems import Problem
from tools.book.shelves import Book


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """The book and the program's commands, and what is wrong with them."""

    book: Book
    commands: Sequence[Command]
    problems: Sequence[Problem]


def check(root: Path) -> Checked:
    """Check the book of a checkout."""
    book, every = shelves.read(root), commands.every()
    found = [
        *shelves.problems(book),
        *links.problems(root, links.texts(root, book.texts)),
        *commands.problems(every, book.texts),
    ]
    if schemas.PAGE not in book.texts:
        step = "write it: the list of published schemas is appended to it"
        what = "the page of schemas is missing"
        found.append(Problem(page=f"docs/{schemas.PAGE}", what=what, next_step=step))
    return Checked(book=book, commands=every, problems=found)
