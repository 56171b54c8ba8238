"""The input probe: how samples reach a training step, by format, shuffle, readers and tier.

The same samples in every format, in the same orders; every sample's sum is checked before any time
counts. A row's time is that of an epoch. Standard library and what a format takes, Python >= 3.6.
"""

import argparse
import os
import shutil
import time

import hand_over
import input_check
import input_data
import input_libraries
import input_order
import input_readers
import rows

NAME = "input"
# cache: read once before. disk, folder: dropped from memory before each epoch; the words differ by
# whose folder it is. staged: from a copy on the local disk, dropped too. mixed: some shards from
# the copy, the others from the folder.
TIERS = ("cache", "disk", "folder", "staged", "mixed")
COPIED = ("staged", "mixed")


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe input")
    parser.add_argument("--at", required=True, help="the folder of the data set")
    parser.add_argument("--work", required=True, help="a folder on the local disk")
    for name in ("formats", "shuffles", "readers", "tiers"):
        parser.add_argument("--" + name, required=True, help="with commas between")
    for name in ("samples", "size", "shards", "window", "batch", "rounds", "seed"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--hits", type=int, default=50, help="%% of the shards that are copied")
    parser.add_argument("--total", type=int, help="bytes of a folder of the user's own")
    wanted = parser.parse_args(arguments)
    for name in ("formats", "shuffles", "readers", "tiers"):
        setattr(wanted, name, getattr(wanted, name).split(","))
    wanted.readers = [int(count) for count in wanted.readers]
    return wanted


def declared(wanted):
    """List the rows; the session lists them by the same rule."""
    return [
        {"tier": tier, "format": name, "shuffle": shuffle, "readers": readers}
        for tier in wanted.tiers
        for name in wanted.formats
        for shuffle in wanted.shuffles
        for readers in wanted.readers
        if shuffle != input_order.FULL or can_alone(name)
    ]


def can_alone(name):
    """Tell whether one sample of a format can be read alone."""
    return name == input_data.OWN or input_libraries.chosen(name).alone


def run(arguments, stamps):
    """Measure and report; `stamps` are those of this process until now, ns."""
    wanted = options(arguments)
    missing = [input_libraries.missing(name) for name in wanted.formats if wanted.total is None]
    if any(missing):
        raise ImportError("; ".join(one for one in missing if one))
    copies = os.path.join(wanted.work, "staged-{}".format(os.getpid()))
    try:
        _run(Measured(wanted, copies), wanted, stamps)
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def _run(measured, wanted, stamps):
    stamps["data"] = _now()
    measured.stage()
    stamps["staged"] = _now()
    listed = declared(wanted)
    checked = [measured.check(row) for row in listed]
    stamps["checked"] = _now()
    begin, numbers = time.perf_counter(), iter(checked)
    found = rows.measured(
        listed, wanted.rounds, wanted.seed, lambda _: next(numbers), measured.visit
    )
    values = {"wall_s": time.perf_counter() - begin}
    stamps["rows"] = _now()
    hand_over.report(
        NAME,
        stamps,
        values,
        workload={
            "samples": measured.layout.samples, "size": wanted.size, "total": wanted.total,
            "shards": measured.layout.shards, "window": wanted.window, "batch": wanted.batch,
            "hits": wanted.hits, "seed": wanted.seed, "rounds": wanted.rounds,
            "formats": wanted.formats, "tiers": wanted.tiers,
        },
        counts={
            "formats": measured.known, "stage_s": measured.staged,
            "orders": measured.orders(listed), "rows": [measured.counted(row) for row in listed],
        },
        rows=found,
    )  # fmt: skip


class Measured(object):
    """The data set of a launch, and its epochs."""

    def __init__(self, wanted, copies):
        self._wanted, self._copies, self._own = wanted, copies, None
        self.staged, self._checked, self._counts = {}, {}, {}
        if wanted.total is None:
            self.layout = input_order.Layout(
                wanted.samples, wanted.size, wanted.shards, wanted.seed
            )
            self.known = input_data.make(wanted.at, self.layout, wanted.formats)
            self._sums = input_data.sums(self.layout)
            return
        self._own = input_data.OwnFiles(wanted.at, wanted.shards, wanted.seed)
        self._own.require(wanted.samples, wanted.total)
        self.layout = self._own.layout
        self._sums = self._own.sums(os.path.join(wanted.work, "own.json"))
        self.known = {
            input_data.OWN: {
                "write_s": None, "bytes": wanted.total, "files": len(self._own.paths)
            }
        }  # fmt: skip

    def stage(self):
        """Copy the formats to the local disk, where rows take it; its time is no row's."""
        if not set(COPIED) & set(self._wanted.tiers):
            return
        for name in self._wanted.formats:
            files = self._own.paths if self._own else None
            self.staged[name] = input_data.stage(self._at(name), self._copy(name), files)

    def _at(self, name):
        return self._wanted.at if self._own else os.path.join(self._wanted.at, name)

    def _copy(self, name):
        return os.path.join(self._copies, name)

    def folders(self, row):
        """Give the folder of each shard in a tier; of two tiers a share of the shards is copied."""
        here, copy = self._at(row["format"]), self._copy(row["format"])
        if row["tier"] not in COPIED:
            return [here] * self.layout.shards
        if row["tier"] == "staged":
            return [copy] * self.layout.shards
        near = set(self.hits())
        return [copy if shard in near else here for shard in range(self.layout.shards)]

    def hits(self):
        """Give the shards that two tiers have on the local disk: spread over all of them."""
        count = round(self.layout.shards * self._wanted.hits / 100.0)
        return [number * self.layout.shards // count for number in range(count)] if count else []

    def check(self, row):
        """Hold every sample against its sum; give how many were right."""
        key = (row["tier"], row["format"], row["shuffle"])
        if key not in self._checked:
            # Once for each format: it takes a millisecond for each 12 kB.
            verify = not any(name == row["format"] for _, name, _ in self._checked)
            self._checked[key] = self._held(row, verify)
        return self._checked[key]

    def _held(self, row, verify):
        source = self._source(row, verify)
        try:
            return input_check.held(source, self._order(row, 1), self._sums.__getitem__)
        except rows.WrongError as problem:
            raise rows.WrongError(
                "{}, {} shuffle, {}, {}".format(
                    row["format"], row["shuffle"], row["tier"], problem
                )
            )
        finally:
            source.close()

    def visit(self, row):
        """Time one epoch."""
        self._set_out(row)
        order, source = self._order(row, row["readers"]), self._source(row)
        try:
            done = input_readers.epoch(source, order, self._largest(order), row["readers"])
        finally:
            source.close()
        if done.numbers != order.delivered():
            raise rows.WrongError("{}: other samples came than were asked for".format(row))
        self._counts.setdefault(_key(row), []).append(done.counts)
        return [done.seconds]

    def _set_out(self, row):
        """Bring the tier's files into the state that its name says."""
        paths = {self._at(row["format"]), self._copy(row["format"])}
        if self._own:
            paths = set(self._own.paths) | {self._copy(input_data.OWN)}
        paths = [path for path in paths if os.path.exists(path)]
        if row["tier"] == "cache":
            copy = self._copy(row["format"])
            input_data.warm([path for path in paths if path != copy])
        else:
            input_data.drop(paths)

    def _order(self, row, readers):
        return input_order.Order(
            self.layout, row["shuffle"], self._wanted.window, self._wanted.batch, readers
        )

    def _source(self, row, verify=False):
        opener = self._own.opener() if self._own else input_libraries.chosen(row["format"])
        return input_readers.Source(opener, self.layout, self.folders(row), verify)

    def _largest(self, order):
        if not self._own:
            return self.layout.size * order.batch
        sizes = self._own.sizes
        return max(
            sum(sizes[number] for number in batch)
            for part in range(order.parts)
            for batch in input_order.batches(order.part(part), order.batch)
        )

    def counted(self, row):
        """Give what the epochs of a row read, on the average."""
        each = self._counts[_key(row)]
        return {name: _mean([one[name] for one in each]) for name in input_readers.COUNTS}

    def orders(self, listed):
        """Give how well each order of the rows mixes the samples."""
        found = {}
        for row in listed:
            name = "{} {}".format(row["shuffle"], row["readers"])
            if name not in found:
                delivered = self._order(row, row["readers"]).delivered()
                found[name] = {
                    "correlation": input_order.correlation(delivered),
                    "mixing": input_order.mixing(delivered, self.layout),
                    "neighbours": input_order.neighbours(delivered),
                }
        return found


def _mean(values):
    return None if None in values else sum(values) / float(len(values))


def _key(row):
    return tuple(sorted(row.items()))


def _now():
    return int(time.time() * 1e9)
