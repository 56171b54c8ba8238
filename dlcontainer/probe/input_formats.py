"""Formats of samples that need nothing but the standard library. Python >= 3.6.

A format is a class:
- `name`; `module`: what has to be imported for it, empty here;
- `alone`: whether one sample can be read without those beside it;
- `write(folder, shard, samples)`: write a shard's samples, bytes each, below a folder;
- `FORMAT(folder, shard, count)` opens a shard for reading: `read(at)` gives the sample at a place,
  `stream()` gives all of them in their order, `close()`. With `verify` set a reader also checks
  the sums that the format itself has, as far as it takes plain Python to do so.
"""

import io
import os
import struct
import tarfile
import zipfile

import input_crc32c

# Streams are read in pieces of this size, bytes.
PIECE = 1 << 20


class FormatError(Exception):
    """A shard is not of its format: the text says where and why."""


def stem(folder, shard):
    """Give where a shard lies, without the end of its name."""
    return os.path.join(folder, "shard-{:05d}".format(shard))


class _Indexed(object):
    """A shard in one file, with an index of places and lengths beside it: read by pread."""

    module = ""
    alone = True
    verify = False
    end = ".bin"

    def __init__(self, folder, shard, count):
        self.path, self.count = stem(folder, shard) + self.end, count
        self._file, self._places = None, None

    def read(self, at):
        """Give the sample at a place of the shard."""
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY)
            self._places = _read_index(self.path + ".idx", self.count)
        place, length = self._places[at]
        data = os.pread(self._file, length, place)
        if len(data) != length:
            raise FormatError("{}: it ends within sample {}".format(self.path, at))
        return data

    def stream(self):
        """Give all samples, read from the beginning to the end."""
        with io.open(self.path, "rb", buffering=PIECE) as file:
            for _, length in _read_index(self.path + ".idx", self.count):
                yield file.read(length)

    def close(self):
        """Close what was opened."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _write_index(path, places):
    with io.open(path, "wb") as file:
        for place in places:
            file.write(struct.pack("<QQ", *place))


def _read_index(path, count):
    with io.open(path, "rb") as file:
        data = file.read()
    if len(data) != 16 * count:
        raise FormatError("{}: an index of {} samples, not {}".format(path, len(data) // 16, count))
    return list(struct.iter_unpack("<QQ", data))


class Raw(_Indexed):
    """The samples' bytes one behind the other."""

    name = "raw"

    @staticmethod
    def write(folder, shard, samples):
        """Write a shard."""
        path, places, begin = stem(folder, shard) + Raw.end, [], 0
        with io.open(path, "wb") as file:
            for sample in samples:
                places.append((begin, len(sample)))
                begin += file.write(sample)
        _write_index(path + ".idx", places)


class Files(object):
    """A file for each sample, a folder for each shard."""

    name = "files"
    module = ""
    alone = True
    verify = False

    def __init__(self, folder, shard, count):
        self.path, self.count = stem(folder, shard), count

    @staticmethod
    def write(folder, shard, samples):
        """Write a shard."""
        path = stem(folder, shard)
        os.mkdir(path)
        for at, sample in enumerate(samples):
            with io.open(_file(path, at), "wb") as file:
                file.write(sample)

    def read(self, at):
        """Give the sample at a place of the shard."""
        return whole(_file(self.path, at))

    def stream(self):
        """Give all samples in their order."""
        for at in range(self.count):
            yield self.read(at)

    def close(self):
        """Nothing stays open."""


def _file(folder, at):
    return os.path.join(folder, "{:06d}.bin".format(at))


def whole(path):
    """Read a file, without the buffer of Python's own files."""
    file = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        left = os.fstat(file).st_size
        while left > 0:
            piece = os.read(file, left)
            if not piece:
                raise FormatError("{}: it ends {} bytes too early".format(path, left))
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(file)


class Tar(_Indexed):
    """A tar archive, read by Python's tarfile; one sample alone by an index beside it."""

    name = "tar"
    end = ".tar"

    @staticmethod
    def write(folder, shard, samples):
        """Write a shard."""
        path = stem(folder, shard) + Tar.end
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for at, sample in enumerate(samples):
                member = tarfile.TarInfo("{:06d}.bin".format(at))
                member.size = len(sample)
                archive.addfile(member, io.BytesIO(sample))
        with tarfile.open(path, "r:") as archive:
            _write_index(path + ".idx", [(one.offset_data, one.size) for one in archive])

    def stream(self):
        """Give all samples, read from the beginning to the end."""
        with tarfile.open(self.path, "r|", bufsize=PIECE) as archive:
            for member in archive:
                yield archive.extractfile(member).read()


class Npz(object):
    """NumPy's .npz: a zip archive of arrays of bytes, not compressed; its CRC-32 is checked."""

    name = "npz"
    module = ""
    alone = True
    verify = False

    def __init__(self, folder, shard, count):
        self.path, self.count, self._archive = stem(folder, shard) + ".npz", count, None

    @staticmethod
    def write(folder, shard, samples):
        """Write a shard."""
        with zipfile.ZipFile(stem(folder, shard) + ".npz", "w", zipfile.ZIP_STORED) as archive:
            for at, sample in enumerate(samples):
                archive.writestr(_member(at), _npy_header(len(sample)) + sample)

    def read(self, at):
        """Give the sample at a place of the shard."""
        if self._archive is None:
            self._archive = zipfile.ZipFile(self.path)
        data = self._archive.read(_member(at))
        return data[10 + struct.unpack("<H", data[8:10])[0] :]

    def stream(self):
        """Give all samples in their order."""
        for at in range(self.count):
            yield self.read(at)

    def close(self):
        """Close the archive."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None


def _member(at):
    return "{:06d}.npy".format(at)


def _npy_header(length):
    """Write what stands before the bytes in a .npy file, version 1.0, padded to 64 bytes."""
    text = "{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}".format(length)
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


class TFRecord(_Indexed):
    """TensorFlow's records: length, its masked CRC-32C, the bytes, their masked CRC-32C.

    The length's CRC is checked at each record, that of the bytes with `verify` alone: plain Python
    takes a millisecond for 12 kB of it, and TensorFlow does it in C. One sample alone is read by an
    index beside it, as DALI does, without the length.
    """

    name = "tfrecord"
    end = ".tfrecord"

    @staticmethod
    def write(folder, shard, samples):
        """Write a shard."""
        path, places, begin = stem(folder, shard) + TFRecord.end, [], 0
        with io.open(path, "wb") as file:
            for sample in samples:
                places.append((begin + 12, len(sample)))
                begin += file.write(framed(sample))
        _write_index(path + ".idx", places)

    def stream(self):
        """Give all samples, read from the beginning to the end."""
        with io.open(self.path, "rb", buffering=PIECE) as file:
            for at in range(self.count):
                yield self._next(file, at)

    def _next(self, file, at):
        head = file.read(12)
        if len(head) != 12:
            raise FormatError("{}: it ends before record {}".format(self.path, at))
        if struct.unpack("<I", head[8:])[0] != _sum(head[:8]):
            raise FormatError("{}: the CRC-32C of record {}'s length".format(self.path, at))
        length = struct.unpack("<Q", head[:8])[0]
        data, foot = file.read(length), file.read(4)
        if len(data) != length or len(foot) != 4:
            raise FormatError("{}: it ends within record {}".format(self.path, at))
        if self.verify and struct.unpack("<I", foot)[0] != _sum(data):
            raise FormatError("{}: the CRC-32C of record {}".format(self.path, at))
        return data


def framed(data):
    """Give a record of some bytes."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _sum(length)) + data + struct.pack("<I", _sum(data))


def _sum(data):
    return input_crc32c.masked(input_crc32c.of(data))


FORMATS = {one.name: one for one in (Files, Tar, Raw, Npz, TFRecord)}
