"""Samples from files for the steps of the train probe. Standard library, Python >= 3.6.

A sample's bytes are labels, then values (input_torch.py decodes them); they follow from the seed,
and are written and read as the input probe does. The session's first process writes the data set;
each process holds its own share against the sums before its first step. Ranks share each epoch:
of `full` rank r of R has every R-th batch, of `window` every R-th shard.
"""

import fcntl
import io
import itertools
import os
import zlib

import input_check
import input_data
import input_libraries
import input_order
import input_readers
import probe_train
import rows

_LOCK = "lock"
# By which ranks share the samples that they check.
_CHECKED = 1


class Samples(object):
    """The data set of a session as one process has it."""

    def __init__(self, wanted):
        missing = input_libraries.missing(wanted.input)
        if missing:
            raise ImportError(missing)
        self._wanted, self._place = wanted, wanted.place
        self._layout = self._of(wanted.input_seed)

    def _of(self, seed):
        wanted = self._wanted
        return input_order.Layout(wanted.samples, wanted.sample_bytes, wanted.shards, seed)

    def make(self):
        """Write the data set, if nobody has; of the processes of a group one does."""
        folder, names = self._wanted.at, [self._wanted.input]
        if self._place.size > 1:
            input_data.make(folder, self._layout, names)
            return
        with io.open(os.path.join(folder, _LOCK), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            input_data.make(folder, self._layout, names)

    def check(self):
        """Hold this process's share of all samples against their sums."""

        def sum_of(number):
            return zlib.crc32(input_data.sample(self._layout, number))

        source = self._source()
        try:
            return input_check.held(source, self._order(0, _CHECKED), sum_of, self._place.rank)
        finally:
            source.close()

    def batches(self, batch):
        """Give batches without end, each the bytes of its samples one behind the other.

        What is left of an epoch is dropped. Raises rows.WrongError.
        """
        for epoch in itertools.count():
            order, source, whole = self._order(epoch, batch), self._source(), 0
            try:
                with input_check.named(source):
                    handed = source.handed(order, self._place.rank)
                    for one in input_order.batches(handed, batch):
                        if len(one) == batch:
                            whole += 1
                            yield self._joined(one, source)
            finally:
                source.close()
            if not whole:
                raise rows.WrongError(
                    "--samples {}: no batch of {} in the share of rank {}".format(
                        self._wanted.samples, batch, self._place.rank
                    )
                )

    def _joined(self, one, source):
        for number, data in one:
            if len(data) != self._wanted.sample_bytes:
                shard, record = self._layout.place(number)
                raise rows.WrongError(
                    "{}: sample {}, record {}, has {} bytes, not {}".format(
                        source.shard(shard).path, number, record, len(data),
                        self._wanted.sample_bytes,
                    )
                )  # fmt: skip
        # Memory of its own, which may be written to: what is made of it lives as long.
        return bytearray().join([data for _, data in one])

    def _order(self, epoch, batch):
        # Each epoch has an order of its own; what the samples are does not change.
        seed = "{} epoch {}".format(self._wanted.input_seed, epoch)
        wanted = self._wanted
        return input_order.Order(
            self._of(seed), wanted.shuffle, wanted.window, batch, self._place.size
        )

    def _source(self):
        folder = os.path.join(self._wanted.at, self._wanted.input)
        opener = input_libraries.chosen(self._wanted.input)
        return input_readers.Source(opener, self._layout, [folder] * self._layout.shards)


def prepared(wanted):
    """Give the data set, made by the first rank, checked by each."""
    samples = Samples(wanted)
    if wanted.place.rank == 0:
        samples.make()
    if wanted.place.size > 1:
        wanted.meeting().wait()
    samples.check()
    probe_train.stamp("input")
    return samples
