"""What a page of docs/ holds: its title, its anchors as GitHub makes them, its links. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

_NO_SLUG = re.compile(r"[^\w\- ]")
# What leads out of the checkout: a scheme, or a host.
_OUTSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A link, or an image, as it is written: `path` is empty for an anchor of the same page."""

    line: int
    path: str
    anchor: str

    @property
    def target(self) -> str:
        """Return what stands in the brackets."""
        return f"{self.path}#{self.anchor}" if self.anchor else self.path


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page: its first heading, the anchors of all of them, and its links in order."""

    title: str
    anchors: frozenset[str]
    links: Sequence[Link]


@cache
def read(text: str) -> Page:
    """Read a page; links to other hosts are left out, since nothing is fetched."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    titles = [
        _plain(tokens[number + 1])
        for number, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
    links = [link for token in tokens if token.type == "inline" for link in _links(token)]
    return Page(title=titles[0] if titles else "", anchors=_anchors(titles), links=links)


def _plain(inline: Token) -> str:
    shown = ("text", "code_inline")
    return "".join(child.content for child in inline.children or () if child.type in shown)


def _anchors(titles: Sequence[str]) -> frozenset[str]:
    seen: Counter[str] = Counter()
    anchors = set()
    for title in titles:
        slug = _NO_SLUG.sub("", title.strip().lower()).replace(" ", "-")
        # As GitHub counts: the second of a name is NAME-1.
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(anchors)


def _links(inline: Token) -> Iterator[Link]:
    line = (inline.map or [0])[0] + 1
    for child in inline.children or ():
        if child.type in ("softbreak", "hardbreak"):
            line += 1
        target = str(child.attrGet("href") or child.attrGet("src") or "")
        if target and not _OUTSIDE.match(target):
            path, _, anchor = unquote(target).partition("#")
            yield Link(line=line, path=path, anchor=anchor)
