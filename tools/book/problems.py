"""What is wrong with a page, as compilers say it: where, what, and the next step. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A fault of the book; `page` is a path from the checkout's top."""

    page: str
    what: str
    next_step: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.what}\n  next: {self.next_step}"
