"""A site's epochs against each other, and against a day. Pure."""

import datetime
import itertools
from collections.abc import Iterator

from dlcontainer.planning.conflicts.model import FactConflict
from dlcontainer.sites.site import Epoch, Site

SOURCE = "docs/centre/add-a-site.md, Epochs: each is a stretch of the site's life"


def order(site: Site) -> Iterator[FactConflict]:
    """Refuse an epoch that ends before it begins."""
    for name, epoch in site.epochs.items():
        if epoch.since and epoch.until and epoch.until < epoch.since:
            yield FactConflict(
                what=f"epoch {name} ends on {epoch.until}, before it begins on {epoch.since}",
                why="the epoch contains no day",
                first=("epochs", name, "until"),
                second=("epochs", name, "since"),
            )


def overlap(site: Site) -> Iterator[FactConflict]:
    """Note an epoch that is written to end after the next has begun.

    The day of a change may be in both. One without an end may run beside another.
    """
    begun = sorted((epoch.since, name) for name, epoch in site.epochs.items() if epoch.since)
    for (_, name), (since, later) in itertools.pairwise(begun):
        until = site.epochs[name].until
        if until and until > since:
            yield FactConflict(
                what=f"software epochs overlap: {name} ends on {until}, {later} begins on {since}",
                why="on some days two software stacks would be in force",
                first=("epochs", name, "until"),
                second=("epochs", later, "since"),
            )


def today(site: Site, day: datetime.date) -> Iterator[FactConflict]:
    """Note a site in use whose usual epoch is not that of a day.

    Where no epoch has a date, or the usual one has none, nobody can tell.
    """
    usual = site.epochs.get(site.epoch or "")
    if site.status != "active" or site.epoch is None or usual is None or _holds(usual, day):
        return
    in_force = [name for name, epoch in site.epochs.items() if _holds(epoch, day)]
    ended = usual.until is not None and usual.until < day.isoformat()
    key = "until" if ended else "since"
    yield FactConflict(
        what=f"epoch {site.epoch} {'has ended' if ended else 'has not begun'} on {day}"
        + ("" if in_force else ", and no other is in force"),
        why="an image for this epoch may not run on the site's present software",
        first=("epoch",),
        second=("epochs", site.epoch, key),
        way_out=f"--epoch {in_force[0]}" if in_force else "name the epoch of today",
    )


def _holds(epoch: Epoch, day: datetime.date) -> bool:
    text = day.isoformat()
    return (epoch.since or text) <= text <= (epoch.until or text)
