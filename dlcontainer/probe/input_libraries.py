"""Formats of samples that take a library of the image; see input_formats. Python >= 3.6.

Libraries are imported where they are used: an image that has none of them runs all the others.
"""

import importlib
import os

import input_formats

# Rows of a group in a Parquet file: it is decoded as a whole.
_GROUP = 32


class _Opened(object):
    """A shard that a library has open from the first read on."""

    module = ""
    alone = True
    verify = False
    end = ""

    def __init__(self, folder, shard, count):
        self.path, self.count = input_formats.stem(folder, shard) + self.end, count
        self._opened = None

    def read(self, at):
        """Give the sample at a place of the shard."""
        if self._opened is None:
            self._opened = self._open()
        return self._one(self._opened, at)

    def stream(self):
        """Give all samples in their order."""
        for at in range(self.count):
            yield self.read(at)

    def close(self):
        """Close what was opened."""
        if self._opened is not None:
            self._close(self._opened)
            self._opened = None

    def _close(self, opened):
        opened.close()


class Hdf5(_Opened):
    """HDF5 by h5py, a chunk for each sample; all samples have one length."""

    name = "hdf5"
    module = "h5py"
    end = ".h5"
    chunked = True

    @classmethod
    def write(cls, folder, shard, samples):
        """Write a shard."""
        h5py, numpy = importlib.import_module("h5py"), importlib.import_module("numpy")
        array = _array(numpy, samples)
        with h5py.File(input_formats.stem(folder, shard) + cls.end, "w") as file:
            chunks = (1, array.shape[1]) if cls.chunked else None
            file.create_dataset("samples", data=array, chunks=chunks)

    def _open(self):
        return importlib.import_module("h5py").File(self.path, "r")

    def _one(self, opened, at):
        return opened["samples"][at].tobytes()


class Hdf5Contiguous(Hdf5):
    """HDF5 without chunks: the samples one behind the other."""

    name = "hdf5-contiguous"
    chunked = False


class Lmdb(_Opened):
    """LMDB, a database for each shard; the kernel's reading ahead is off, as for random reads."""

    name = "lmdb"
    module = "lmdb"
    end = ".lmdb"

    @classmethod
    def write(cls, folder, shard, samples):
        """Write a shard."""
        lmdb, samples = importlib.import_module("lmdb"), list(samples)
        # Pages of 4 KiB: a value above half of one has pages of its own.
        room = (1 << 20) + sum(2 * len(sample) + 16384 for sample in samples)
        path = input_formats.stem(folder, shard) + cls.end
        with lmdb.open(path, map_size=room, subdir=False, lock=False) as database:
            with database.begin(write=True) as transaction:
                for at, sample in enumerate(samples):
                    transaction.put(_key(at), sample, append=True)

    def _open(self):
        lmdb = importlib.import_module("lmdb")
        database = lmdb.open(self.path, readonly=True, subdir=False, lock=False, readahead=False)
        return database, database.begin()

    def _one(self, opened, at):
        data = opened[1].get(_key(at))
        if data is None:
            raise input_formats.FormatError("{}: no sample {}".format(self.path, at))
        return data

    def _close(self, opened):
        opened[1].abort()
        opened[0].close()


def _key(at):
    return "{:08d}".format(at).encode("ascii")


class Zarr(_Opened):
    """Zarr, a chunk (a file) for each sample, not compressed; all samples have one length."""

    name = "zarr"
    module = "zarr"
    end = ".zarr"

    @classmethod
    def write(cls, folder, shard, samples):
        """Write a shard."""
        zarr, numpy = importlib.import_module("zarr"), importlib.import_module("numpy")
        array = _array(numpy, samples)
        path = input_formats.stem(folder, shard) + cls.end
        what = {"shape": array.shape, "chunks": (1, array.shape[1]), "dtype": "u1"}
        if zarr.__version__.startswith("2."):
            made = zarr.open_array(path, mode="w", compressor=None, **what)
        else:
            made = zarr.create_array(path, compressors=None, **what)
        made[:] = array

    def _open(self):
        return importlib.import_module("zarr").open_array(self.path, mode="r")

    def _one(self, opened, at):
        return opened[at].tobytes()

    def _close(self, opened):
        """Nothing stays open."""


class Parquet(_Opened):
    """Parquet by pyarrow, not compressed: groups of 32 samples, which are read as a whole."""

    name = "parquet"
    module = "pyarrow"
    alone = False
    end = ".parquet"

    @classmethod
    def write(cls, folder, shard, samples):
        """Write a shard."""
        arrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        table = arrow.table({"sample": arrow.array(list(samples), type=arrow.binary())})
        parquet.write_table(
            table, input_formats.stem(folder, shard) + cls.end, row_group_size=_GROUP,
            compression="none", use_dictionary=False, write_statistics=False,
        )  # fmt: skip

    def stream(self):
        """Give all samples, read from the beginning to the end."""
        parquet = importlib.import_module("pyarrow.parquet")
        # One thread: processes are the readers' own.
        opened = parquet.ParquetFile(self.path)
        try:
            for batch in opened.iter_batches(batch_size=_GROUP, use_threads=False):
                for value in batch.column(0):
                    yield value.as_py()
        finally:
            opened.close()


def _array(numpy, samples):
    samples = list(samples)
    return numpy.frombuffer(b"".join(samples), "u1").reshape(len(samples), -1)


FORMATS = {one.name: one for one in (Hdf5, Hdf5Contiguous, Lmdb, Zarr, Parquet)}


def missing(name):
    """Give why a format can't be read here; empty where it can."""
    if name in input_formats.FORMATS:
        return ""
    module = FORMATS[name].module
    try:
        importlib.import_module(module)
    except ImportError as problem:
        return "{}: no module {} here ({})".format(name, module, problem)
    return ""


def known():
    """List the formats of either kind by their names."""
    return list(input_formats.FORMATS) + list(FORMATS)


def chosen(name):
    """Give a format by its name, of either kind."""
    return input_formats.FORMATS.get(name) or FORMATS[name]


def size(path):
    """Give the bytes of a file, or of all files below a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )
