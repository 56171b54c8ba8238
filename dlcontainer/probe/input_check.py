"""Every sample against its sum, before any time counts. Standard library, Python >= 3.6."""

import contextlib
import zlib

import rows


def held(source, order, sum_of, part=0):
    """Hold the samples of a reader's part against their sums; give how many were right.

    `sum_of` gives the sum of a sample by its number. Raises rows.WrongError, which names the shard's
    file and the record.
    """
    right, wanted = 0, sum(1 for _ in order.part(part))
    with named(source):
        for number, data in source.handed(order, part):
            if zlib.crc32(data) != sum_of(number):
                # A window hands out what was read before: of another shard, maybe.
                shard, record = order.layout.place(number)
                raise rows.WrongError(
                    "{}: sample {}, record {}, is not the one that was written".format(
                        source.shard(shard).path, number, record
                    )
                )
            right += 1
    if right != wanted:
        raise rows.WrongError("{}: {} samples of {}".format(source.path, right, wanted))
    return right


@contextlib.contextmanager
def named(source):
    """Name the file and the record in whatever goes wrong while a source is read."""
    try:
        yield
    except rows.WrongError:
        raise
    except Exception as problem:
        raise rows.WrongError(
            "{}: record {}: {}: {}".format(
                source.path, source.record, type(problem).__name__, problem
            )
        ) from problem
