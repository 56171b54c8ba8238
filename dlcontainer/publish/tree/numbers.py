"""The number of a release: a version's images in the order in which they were published.

A number names one image for good, so that a pin of it holds: it is given once, whatever was rolled
back, taken back or collected since. The same image keeps its number.
"""

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, generation, journal, layout
from dlcontainer.publish.tree.generation import (
    Generation,
    GenerationEntry,
    NumberedRelease,
    numbered,
)
from dlcontainer.publish.tree.layout import GENERATIONS, RELEASES
from dlcontainer.publish.tree.store import ImageKey, ReleaseDraft


@dataclass(frozen=True, kw_only=True, slots=True)
class Succession:
    """How a release takes the place of another: that one stays loadable for `days`.

    None: until it is taken back.
    """

    days: int | None = None

    def until(self, clock: float) -> str | None:
        """Return the last day of a release that is replaced now."""
        if self.days is None:
            return None
        return (datetime.fromtimestamp(clock, UTC) + timedelta(days=self.days)).date().isoformat()


def live(top: Folder) -> Generation:
    """Read what is live; the empty generation before the first."""
    number = layout.current(top)
    if number is None:
        return Generation()
    with top.sub(GENERATIONS) as generations:
        return generation.read(generations, number)


def of_image(top: Folder, key: ImageKey, succession: Succession | None) -> int:
    """Return the number that an image is published under.

    Without a succession, raises PublishError for another image than the version's newest.
    """
    now = live(top)
    entry = now.find(key.name, key.version)
    if entry is None:
        return _free(top, now, key, 0)
    with top.sub(RELEASES) as releases:
        same = _holding(releases, entry, key)
    if same is not None:
        # Beside one of before they had numbers, a version of that very name may stand.
        is_free = numbered(key.version, same.number) not in _taken(now, key)
        is_kept = entry.number is not None or same != entry.newest or is_free
        return same.number if is_kept else _free(top, now, key, same.number)
    if succession is None:
        raise _another_image(top, entry)
    return _free(top, now, key, entry.newest.number)


def may_be(top: Folder, key: ImageKey, number: int) -> bool:
    """Return whether an image may have a number: its own, or one above that nobody ever had."""
    now = live(top)
    entry = now.find(key.name, key.version)
    if entry is not None:
        with top.sub(RELEASES) as releases:
            same = _holding(releases, entry, key)
        if same is not None and same.number == number:
            return True
    images = {image for used, image in _given(top, key) if used == number}
    is_above = entry is None or number > entry.newest.number
    return (
        is_above
        and images <= {key.sha256}
        and numbered(key.version, number) not in _taken(now, key)
    )


def _holding(releases: Folder, entry: GenerationEntry, key: ImageKey) -> NumberedRelease | None:
    """Return the release of a version that has an image; raises PublishError for damage."""
    for release in entry.releases:
        try:
            image = _image(releases, release.digest)
        except (OSError, PublishError) as error:
            if release != entry.newest:
                continue
            fault = next(contents.faults(releases, release.digest), None)
            if fault is None:
                raise
            raise contents.damaged(releases, release.digest, entry.named(release), fault) from error
        if image == key.sha256:
            return release
    return None


def _image(releases: Folder, digest: str) -> str:
    with releases.sub(digest) as release:
        return contents.described(release).image


def _taken(now: Generation, key: ImageKey) -> Collection[str]:
    """Name what users type after NAME/ and is no release of this version."""
    return {
        name
        for entry in now.entries
        if entry.name == key.name
        for name in (entry.aliases if entry.version == key.version else entry.names)
    }


def _free(top: Folder, now: Generation, key: ImageKey, after: int) -> int:
    """Return a number that is free, or the one that this image had before."""
    images = dict[int, set[str]]()
    for number, image in _given(top, key):
        images.setdefault(number, set()).add(image)
    earlier = [number for number, had in images.items() if number > after and had == {key.sha256}]
    number = max(earlier, default=max([after, *images]) + 1)
    while numbered(key.version, number) in _taken(now, key) or not images.get(number, set()) <= {
        key.sha256
    }:
        number += 1
    return number


def _given(top: Folder, key: ImageKey) -> Iterator[tuple[int, str]]:
    """List the numbers that were given to releases of a version, with the images where known."""
    # By the journal, of what is collected by now: its image is not known.
    pattern = re.compile(rf"publish {re.escape(key.module)}(?:-([1-9][0-9]{{0,3}}))?")
    with_image = set[int]()
    for release in _staged(top, key):
        image = release.image
        if image is None:
            with contextlib.suppress(OSError, PublishError), top.sub(RELEASES) as releases:
                image = _image(releases, release.digest)
        if image is not None:
            with_image.add(release.number)
        yield release.number, image or ""
    for line in journal.read(top).lines:
        match = pattern.fullmatch(line.what) if line.state in ("done", "noticed") else None
        if match and int(match[1] or 1) not in with_image:
            yield int(match[1] or 1), ""


def _staged(top: Folder, key: ImageKey) -> Iterator[NumberedRelease]:
    if top.info(GENERATIONS) is None:
        return
    never = journal.never_live(journal.read(top))
    with top.sub(GENERATIONS) as generations:
        for number in set(layout.numbers(generations)) - never:
            with contextlib.suppress(PublishError):
                entry = generation.read(generations, number).find(key.name, key.version)
                yield from entry.releases if entry else ()


def placed(
    entry: GenerationEntry | None, draft: ReleaseDraft, digest: str, until: str | None
) -> GenerationEntry:
    """Put a release among those of its version; one of the same number gives its place to it."""
    if entry is None:
        return GenerationEntry(
            name=draft.name,
            version=draft.version,
            digest=digest,
            number=draft.number,
            image=draft.sha256,
        )
    newest = entry.newest
    number = draft.number or newest.number
    if number < newest.number:
        renewed = (
            replace(kept, digest=digest) if kept.number == number else kept for kept in entry.older
        )
        return replace(entry, older=tuple(renewed))
    if number == newest.number:
        number_kept = draft.number or entry.number
        return replace(entry, digest=digest, number=number_kept, image=draft.sha256)
    older = (replace(newest, until=until), *entry.older)
    return replace(entry, digest=digest, number=number, image=draft.sha256, older=older)


def without(entry: GenerationEntry, number: int) -> GenerationEntry:
    """Leave out one of several releases; where it was the newest, the next older one is."""
    first, *rest = (release for release in entry.releases if release.number != number)
    return replace(
        entry, digest=first.digest, number=first.number, image=first.image, older=tuple(rest)
    )


def _another_image(top: Folder, entry: GenerationEntry) -> PublishError:
    return PublishError(
        f"{entry.module} is already published with another image",
        why="users rely on a published version not to change unless it is said; its image is in "
        f"{top.path / RELEASES / entry.digest}",
        next_step="the same software, built again (a fix): publish it as the version's next "
        "release, with --release; other software: build it with a version of its own (of a file "
        "of packages: build FILE --name NAME/VERSION; else version: in the recipe)",
    )
