"""Links: each leads to a page, an anchor or a file of the checkout that is there.

Those to other hosts are not followed: the book is built without a network.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tools.book import markdown
from tools.book.markdown import Link
from tools.book.problems import Problem

# Beside docs/: what GitHub shows first.
OUTER = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def texts(root: Path, pages: Mapping[str, str]) -> dict[str, str]:
    """Return the pages whose links are followed, by their path from the checkout's top."""
    outer = {name: root / name for name in OUTER if (root / name).is_file()}
    return {
        **{name: path.read_text(encoding="utf-8") for name, path in outer.items()},
        **{f"docs/{name}": text for name, text in pages.items()},
    }


def problems(root: Path, pages: Mapping[str, str]) -> Iterator[Problem]:
    """Find links that lead nowhere; `pages` are the texts by their path from the top."""
    for name, text in pages.items():
        for link in markdown.read(text).links:
            problem = _problem(root, pages, name, link)
            if problem is not None:
                yield problem


def _problem(root: Path, pages: Mapping[str, str], name: str, link: Link) -> Problem | None:
    target = name if not link.path else os.path.normpath(PurePosixPath(name).parent / link.path)
    if target.startswith(("..", "/")):
        what, step = f"{link.target} leads out of the checkout", "name a file of the checkout"
    elif target not in pages and not (root / target).exists():
        what, step = f"{link.target} is not there", _moved(pages, name, target)
    elif link.anchor and target in pages:
        anchors = markdown.read(pages[target]).anchors
        if link.anchor in anchors:
            return None
        what = f"{target} has no heading #{link.anchor}"
        near = difflib.get_close_matches(link.anchor, anchors, n=1)
        step = f"write #{near[0]}" if near else f"take one of: {' '.join(sorted(anchors))}"
    else:
        return None
    return Problem(page=name, line=link.line, what=what, next_step=step)


def _moved(pages: Mapping[str, str], name: str, target: str) -> str:
    """Say where a page of the same name, or of a similar one, stands."""
    last = PurePosixPath(target).name
    same = [page for page in pages if PurePosixPath(page).name == last]
    if not same:
        same = difflib.get_close_matches(target, pages, n=1, cutoff=0.85)
    if not same:
        return "remove the link, or name the page that has its content now"
    return f"did it move? write {os.path.relpath(same[0], PurePosixPath(name).parent)}"
