"""One epoch: samples from their files to the consumer, by processes that read. Python >= 3.6.

Readers are forked before the clock starts, with the library of the format imported and no file
open. They put batches into memory that they share with the consumer, two each ahead of it, as
data loaders do; the consumer takes them in turn and copies each out. Without readers it reads by
itself.
"""

import mmap
import multiprocessing
import os
import resource
import time

import input_formats
import input_order

# Batches that a reader may be ahead of the consumer.
AHEAD = 2
COUNTS = ("bytes", "calls", "device_bytes", "major_faults")


class ReaderError(Exception):
    """A reader failed or ended: the text says which one and how."""


class Source(object):
    """A format's shards, each in its folder; one for each epoch, with nothing open."""

    def __init__(self, opener, layout, folders, verify=False):
        self._opener, self._layout, self._folders = opener, layout, folders
        self._verify, self._open = verify, {}
        # The shard that is read now, and the record of it.
        self.path, self.record = "", 0

    def handed(self, order, part):
        """Give (number, bytes) of each sample in the order of one reader."""
        if order.shuffle == input_order.FULL:
            for number in order.alone(part):
                shard, self.record = self._layout.place(number)
                yield number, self.shard(shard).read(self.record)
        else:
            for one in order.windowed(self._streamed(order.shards(part)), part):
                yield one
        self.close()

    def _streamed(self, shards):
        for shard in shards:
            opened, self.record = self.shard(shard), 0
            for one in zip(self._layout.numbers(shard), opened.stream()):
                yield one
                self.record += 1
            if self.record != len(self._layout.numbers(shard)):
                raise input_formats.FormatError(
                    "{}: it ends before record {}".format(opened.path, self.record)
                )
            opened.close()

    def shard(self, shard):
        """Give a shard, opened once."""
        if shard not in self._open:
            count = len(self._layout.numbers(shard))
            self._open[shard] = self._opener(self._folders[shard], shard, count)
            self._open[shard].verify = self._verify
        self.path = self._open[shard].path
        return self._open[shard]

    def close(self):
        """Close all shards."""
        for opened in self._open.values():
            opened.close()
        self._open = {}


class Epoch(object):
    """What an epoch took: seconds, the samples' numbers as they came, bytes, counts of reading."""

    def __init__(self):
        self.seconds, self.numbers, self.size = 0.0, [], 0
        self.counts = dict.fromkeys(COUNTS, 0)

    def took(self, counts):
        """Add a reader's counts; what one can't tell is known of none."""
        for name, value in counts.items():
            before = self.counts[name]
            self.counts[name] = None if value is None or before is None else before + value


def epoch(source, order, largest, readers):
    """Run an epoch; `largest` is the most bytes of a batch."""
    run = Epoch()
    if not readers:
        before = _Spent()
        begin = time.perf_counter()
        for batch in input_order.batches(source.handed(order, 0), order.batch):
            # One copy, as that out of the shared memory of a reader.
            run.size += len(b"".join([data for _, data in batch]))
            run.numbers += [number for number, _ in batch]
        run.seconds = time.perf_counter() - begin
        run.took(before.since())
        return run
    shared = mmap.mmap(-1, max(1, largest) * AHEAD * readers)
    forked = []
    try:
        for part in range(readers):
            forked.append(_Reader(source, order, part, shared, largest))
        _consumed(run, forked, shared, largest)
    finally:
        for one in forked:
            one.end()
        shared.close()
    return run


def _consumed(run, forked, shared, largest):
    taken = bytearray(largest)
    for one in forked:
        one.next()  # it is ready
    begin = time.perf_counter()
    for one in forked:
        one.free(AHEAD)
    for one, numbers, size in input_order.in_turn([one.batches(run) for one in forked]):
        at = one.place()
        taken[:size] = memoryview(shared)[at : at + size]
        one.free(1)
        run.numbers += numbers
        run.size += size
    run.seconds = time.perf_counter() - begin


class _Reader(object):
    """A forked reader as the consumer sees it."""

    def __init__(self, source, order, part, shared, largest):
        context = multiprocessing.get_context("fork")
        self._part, self._taken, self._largest = part, 0, largest
        self._from, to = context.Pipe(duplex=False)
        room, self._room = os.pipe()
        self._process = context.Process(
            target=_read, args=(source, order, part, shared, largest, room, to), daemon=True
        )
        self._process.start()
        to.close()
        os.close(room)

    def next(self):
        """Give what the reader says next."""
        try:
            kind, *said = self._from.recv()
        except EOFError:
            self._process.join(10)
            raise ReaderError(
                "reader {} ended ({})".format(self._part, self._process.exitcode)
            ) from None
        if kind == "failed":
            raise ReaderError("reader {}: {}".format(self._part, said[0]))
        return kind, said

    def batches(self, run):
        """Give (reader, numbers, size) of each batch; at its end the counts go into the epoch."""
        while True:
            kind, said = self.next()
            if kind == "end":
                run.took(said[0])
                return
            yield self, said[0], said[1]

    def place(self):
        """Give where in the shared memory the batch lies that is taken now."""
        at = _place(self._part, self._taken, self._largest)
        self._taken += 1
        return at

    def free(self, count):
        """Let the reader go so many batches on."""
        try:
            os.write(self._room, b"." * count)
        except BrokenPipeError:
            pass  # it is through, or has failed: the next word says so

    def end(self):
        """End the process."""
        os.close(self._room)
        self._from.close()
        if self._process.is_alive():
            self._process.join(0.2)
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()


def _place(part, number, largest):
    return (part * AHEAD + number % AHEAD) * largest


def _read(source, order, part, shared, largest, room, to):
    try:
        to.send(("ready",))
        number, before = 0, _Spent()
        for batch in input_order.batches(source.handed(order, part), order.batch):
            if not os.read(room, 1):
                return  # the consumer is gone
            begin = at = _place(part, number, largest)
            for _, data in batch:
                shared[at : at + len(data)] = data
                at += len(data)
            to.send(("batch", [one for one, _ in batch], at - begin))
            number += 1
        to.send(("end", before.since(number)))
    except BaseException as problem:  # whatever it was, the consumer says it
        to.send(("failed", "{}: {}".format(type(problem).__name__, problem)))
    finally:
        to.close()


class _Spent(object):
    """What this process has read until now; None where the kernel does not tell."""

    def __init__(self):
        self._length, self._now = _io()

    def since(self, letters=0):
        """Give the counts since then, without `letters` calls of a byte that are not the data's."""
        _, now = _io()
        counts = {name: None if one is None else one - self._now[name] for name, one in now.items()}
        # The reading of the first counts is in the second ones.
        own = {"bytes": self._length + letters, "calls": 1 + letters}
        for name, value in own.items():
            if counts[name] is not None:
                counts[name] = max(0, counts[name] - value)
        return counts


def _io(path="/proc/self/io"):
    counts = dict.fromkeys(COUNTS)
    counts["major_faults"] = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return 0, counts
    try:
        text = os.read(file, 4096).decode("ascii")
    finally:
        os.close(file)
    said = dict(line.split(": ") for line in text.splitlines() if ": " in line)
    for name, key in (("bytes", "rchar"), ("calls", "syscr"), ("device_bytes", "read_bytes")):
        counts[name] = int(said[key]) if key in said else None
    return len(text), counts
