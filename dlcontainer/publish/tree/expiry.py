"""Older releases whose time is over: a new generation no longer has them; their files stay."""

from dataclasses import replace
from datetime import UTC, datetime

from dlcontainer.publish.tree.generation import GenerationEntry
from dlcontainer.publish.tree.layout import PublishedTree
from dlcontainer.publish.tree.transaction import commit, live


def expire(tree: PublishedTree, *, dry: bool = False) -> tuple[str, ...]:
    """Take back the older releases that stay no longer, by the day that users were told.

    Return them as NAME/VERSION-NUMBER. `dry` changes nothing.
    """
    base = live(tree)
    today = datetime.fromtimestamp(tree.clock(), UTC).date().isoformat()
    gone, entries = list[str](), list[GenerationEntry]()
    for entry in base.entries:
        over = [kept for kept in entry.older if kept.until is not None and kept.until < today]
        gone += map(entry.named, over)
        stays = tuple(kept for kept in entry.older if kept not in over)
        entries.append(replace(entry, older=stays))
    if gone and not dry:
        commit(tree, base.having(*entries), f"no longer {', '.join(gone)}")
    return tuple(gone)
