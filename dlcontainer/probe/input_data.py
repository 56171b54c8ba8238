"""The samples of the input probe, and where they lie. Standard library, Python >= 3.6.

A data set is a folder with a folder for each format, and `made.json`, which says what is in it. It
is made once; every later launch, of either side, reads the same bytes. Samples follow from the
seed, so their sums are known without it.
"""

import io
import json
import os
import random
import shutil
import time
import zlib

import input_libraries
import input_order

SCHEMA = "dlcontainer/input/1"
MADE = "made.json"
# The one format of a user's own folder.
OWN = "own"


class DataError(Exception):
    """The data set is not the one that was asked for: the text says where and how."""


def sample(layout, number):
    """Give the bytes of a sample."""
    drawn = random.Random("{} sample {}".format(layout.seed, number))
    return drawn.getrandbits(8 * layout.size).to_bytes(layout.size, "little")


def sums(layout):
    """Give the sum of every sample."""
    return [zlib.crc32(sample(layout, number)) for number in range(layout.samples)]


def make(folder, layout, formats):
    """Write the formats that are not there yet; give what is known of each that was asked for."""
    known = _known(folder, layout)
    absent = [name for name in formats if name not in known]
    if absent and not os.access(folder, os.W_OK):
        raise DataError(
            "{}: there is no {} in this data set, and it can't be written".format(
                folder, ", ".join(absent)
            )
        )
    for name in absent:
        known[name] = _written(folder, layout, name)
        _note(folder, layout, known)
    return {name: known[name] for name in formats}


def _written(folder, layout, name):
    target, chosen = os.path.join(folder, name), input_libraries.chosen(name)
    # Of a launch that was killed while it wrote.
    shutil.rmtree(target, ignore_errors=True)
    os.mkdir(target)
    spent = 0.0
    for shard in range(layout.shards):
        samples = [sample(layout, number) for number in layout.numbers(shard)]
        begin = time.perf_counter()
        chosen.write(target, shard, samples)
        spent += time.perf_counter() - begin
    settle(target)
    return {
        "write_s": spent,
        "bytes": input_libraries.size(target),
        "files": sum(1 for _ in below(target)),
    }


def _known(folder, layout):
    try:
        with io.open(os.path.join(folder, MADE), encoding="utf-8") as file:
            noted = json.load(file)
    except (OSError, ValueError):
        return {}
    wanted = _described(layout)
    if {key: noted.get(key) for key in wanted} != wanted:
        raise DataError("{}: a data set of other samples: {}".format(folder, noted))
    return dict(noted["formats"])


def _described(layout):
    return {
        "schema": SCHEMA, "samples": layout.samples, "size": layout.size,
        "shards": layout.shards, "seed": layout.seed,
    }  # fmt: skip


def _note(folder, layout, known):
    text = json.dumps(dict(_described(layout), formats=known), sort_keys=True)
    path = os.path.join(folder, MADE)
    # Formats are added one by one: a note cut in half only means that they are written again.
    with io.open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def below(path):
    """Give all files at or below a path, in an order of their own."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)


def settle(path):
    """Have files on the disk: what is not written back can't be dropped from memory."""
    for file in below(path):
        _on(file, os.fsync)


def drop(paths):
    """Drop files from the page cache, as a user may; a file system may keep them elsewhere."""
    for path in paths:
        for file in below(path):
            _on(file, lambda opened: os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED))


def warm(paths):
    """Read files once, so that the page cache has them."""
    for path in paths:
        for file in below(path):
            with io.open(file, "rb", buffering=0) as opened:
                while opened.read(1 << 20):
                    pass


def _on(path, act):
    opened = os.open(path, os.O_RDONLY)
    try:
        act(opened)
    finally:
        os.close(opened)


def stage(source, target, files=None):
    """Copy a format's files, or these ones of them; give the seconds until the last is written.

    That they are on the disk is waited for after that: what is not can't be dropped from memory.
    """
    begin = time.perf_counter()
    for file in files if files is not None else list(below(source)):
        copy = os.path.join(target, os.path.relpath(file, source))
        folder = os.path.dirname(copy)
        if not os.path.isdir(folder):
            os.makedirs(folder)
        shutil.copyfile(file, copy)
    spent = time.perf_counter() - begin
    settle(target)
    return spent


class OwnFiles(object):
    """A user's own folder as a data set: its files in the order of their names, as they are."""

    def __init__(self, folder, shards, seed):
        # Links are left alone: they may lead out of the folder, or in circles.
        paths = [path for path in below(folder) if not os.path.islink(path)]
        self.folder, self.paths = folder, [path for path in paths if os.path.isfile(path)]
        self.sizes = [os.path.getsize(path) for path in self.paths]
        self.layout = input_order.Layout(len(self.paths), 0, shards, seed)

    def require(self, count, total):
        """Refuse a folder that has changed since the session was declared."""
        now = (len(self.paths), sum(self.sizes))
        if now != (count, total):
            raise DataError(
                "{}: {} files of {} bytes, and {} of {} were declared: it has changed".format(
                    self.folder, now[0], now[1], count, total
                )
            )

    def sums(self, notes):
        """Give the files' sums: noted by the session's first launch, held against them by later."""
        try:
            with io.open(notes, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            found = [zlib.crc32(_read(path)) for path in self.paths]
        with io.open(notes, "w", encoding="utf-8") as file:
            json.dump(found, file)
        return found

    def opener(self):
        """Give a format whose shards are stretches of the list of files."""
        whole = self

        class Own(object):
            alone, verify, module = True, False, ""

            def __init__(self, folder, shard, count):
                self.path, self._folder, self._count = folder, folder, count
                self._first = shard * whole.layout.per_shard

            def read(self, at):
                path = whole.paths[self._first + at]
                if self._folder != whole.folder:
                    path = os.path.join(self._folder, os.path.relpath(path, whole.folder))
                return _read(path)

            def stream(self):
                for at in range(self._count):
                    yield self.read(at)

            def close(self):
                pass

        return Own


def _read(path):
    with io.open(path, "rb", buffering=0) as file:
        return file.read()
