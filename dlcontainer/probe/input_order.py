"""In which order samples are read, and how well that mixes them. Standard library, Python >= 3.6.

Samples are numbered, and lie in shards: neighbours in a shard have numbers that follow each other.
Every format is read in the same orders, which the seed gives:

- `full`: a permutation of all samples; each is read alone, where it lies.
- `window`: the shards in an order of their own, each read from its beginning to its end; of the
  last `window` samples that were read one is handed out at a time, drawn at random.

With several readers, reader r of R has every R-th batch of `full`, and every R-th shard of
`window` with a window of its own; the consumer takes their batches in turn.
"""

import math
import random

FULL, WINDOW = "full", "window"
SHUFFLES = (FULL, WINDOW)


class Layout(object):
    """So many samples of so many bytes, in so many shards; `seed` makes samples and orders."""

    def __init__(self, samples, size, shards, seed):
        self.samples, self.size, self.seed = samples, size, seed
        self.per_shard = -(-samples // shards)
        self.shards = -(-samples // self.per_shard)

    def numbers(self, shard):
        """Give the numbers of a shard's samples."""
        first = shard * self.per_shard
        return range(first, min(first + self.per_shard, self.samples))

    def place(self, number):
        """Give a sample's shard, and its place in it."""
        return divmod(number, self.per_shard)


class Order(object):
    """The order of one epoch: a shuffle of a layout, in batches, by so many readers."""

    def __init__(self, layout, shuffle, window, batch, parts=1):
        self.layout, self.shuffle, self.window = layout, shuffle, window
        self.batch, self.parts = batch, max(1, parts)

    def alone(self, part):
        """Give the numbers that a reader reads one by one, in their order."""
        every = list(range(self.layout.samples))
        self._random("samples").shuffle(every)
        step = self.batch * self.parts
        for begin in range(part * self.batch, len(every), step):
            for number in every[begin : begin + self.batch]:
                yield number

    def shards(self, part):
        """Give the shards that a reader reads from their beginning to their end."""
        every = list(range(self.layout.shards))
        self._random("shards").shuffle(every)
        return every[part :: self.parts]

    def windowed(self, stream, part):
        """Hand out a stream's things through the window of a reader."""
        drawn, held = self._random("window {}".format(part)), []
        for one in stream:
            if len(held) < self.window:
                held.append(one)
                continue
            at = drawn.randrange(len(held))
            held[at], one = one, held[at]
            yield one
        drawn.shuffle(held)
        for one in held:
            yield one

    def part(self, part):
        """Give the numbers that a reader hands out, in their order."""
        if self.shuffle == FULL:
            return self.alone(part)
        stream = (n for shard in self.shards(part) for n in self.layout.numbers(shard))
        return self.windowed(stream, part)

    def delivered(self):
        """List the numbers as the consumer takes them: a batch of each reader in turn."""
        queues = [batches(self.part(part), self.batch) for part in range(self.parts)]
        return [number for batch in in_turn(queues) for number in batch]

    def _random(self, what):
        return random.Random("{} {}".format(self.layout.seed, what))


def batches(stream, size):
    """Cut a stream into lists of so many; the last one may be shorter."""
    batch = []
    for one in stream:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def in_turn(streams):
    """Take one of each stream in turn, until all have ended."""
    left = [iter(stream) for stream in streams]
    while left:
        for stream in list(left):
            try:
                yield next(stream)
            except StopIteration:
                left.remove(stream)


def correlation(delivered):
    """Give Spearman's rank correlation of place and number: 1 unshuffled, about 0 shuffled."""
    n = len(delivered)
    if n < 2:
        return 1.0
    apart = sum((place - number) ** 2 for place, number in enumerate(delivered))
    return 1.0 - 6.0 * apart / (n * (n * n - 1.0))


def mixing(delivered, layout):
    """Give how well shards are mixed: 0 one shard after the other, about 1 a full permutation.

    The epoch is cut into as many stretches as there are shards. Of each it is the entropy of the
    shards that its samples come from, over the largest that the counts allow; the mean is weighed
    by the stretches' lengths.
    """
    total, stretch = 0.0, layout.per_shard
    most = math.log(min(layout.shards, stretch)) if min(layout.shards, stretch) > 1 else 0.0
    if not most or not delivered:
        return 1.0
    for begin in range(0, len(delivered), stretch):
        part = delivered[begin : begin + stretch]
        counts = {}
        for number in part:
            shard = layout.place(number)[0]
            counts[shard] = counts.get(shard, 0) + 1
        shares = [count / float(len(part)) for count in counts.values()]
        total += len(part) * -sum(share * math.log(share) for share in shares)
    return min(1.0, total / len(delivered) / most)


def neighbours(delivered):
    """Give the share of samples that follow the one that lies before them: 1 unshuffled."""
    pairs = list(zip(delivered, delivered[1:]))
    return sum(b == a + 1 for a, b in pairs) / float(len(pairs)) if pairs else 1.0
