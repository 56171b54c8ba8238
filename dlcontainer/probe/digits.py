"""The digits that bench convergence trains on, and the order they come in. Python >= 3.6.

1,797 images of 8x8 pixels from 0 to 16, in a NumPy archive without compression: the standard
library reads it, and so does a Python that has no zlib. Every fifth image is for testing.
"""

import array
import ast
import hashlib
import os
import random
import zipfile

FILE = "digits.npz"
SIDE, CLASSES, LEVELS = 8, 10, 16
_MAGIC = b"\x93NUMPY\x01\x00"
_EACH = 5  # one of so many images is for testing


class DataError(Exception):
    """The file is not the one that was declared: the text says where and how."""


class Part(object):
    """Images, each a list of 64 pixels, and their labels."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)


def read(folder, sha256):
    """Read both parts, training and testing; raises DataError where it is another file."""
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
    except EnvironmentError as error:
        raise DataError("{}: {}".format(path, error.strerror))
    if found != sha256:
        raise DataError("{}: its SHA-256 is {}, and {} was declared".format(path, found, sha256))
    with zipfile.ZipFile(path) as archive:
        sizes, pixels = _array(archive.read("images.npy"))
        _, labels = _array(archive.read("labels.npy"))
    count, each = sizes[0], sizes[1] * sizes[2]
    images = [list(pixels[number * each : (number + 1) * each]) for number in range(count)]
    testing = [number for number in range(count) if number % _EACH == 0]
    training = [number for number in range(count) if number % _EACH]
    return tuple(
        Part([images[number] for number in part], [labels[number] for number in part])
        for part in (training, testing)
    )


def _array(data):
    """Read an array of uint8 in NumPy's format 1.0: its sizes and its bytes."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise DataError("no array of NumPy's format 1.0")
    begin = len(_MAGIC) + 2
    length = int.from_bytes(data[begin - 2 : begin], "little")
    header = ast.literal_eval(data[begin : begin + length].decode("ascii").strip())
    if header["descr"] != "|u1" or header["fortran_order"]:
        raise DataError("an array of {descr}, not of bytes in C's order".format(**header))
    return header["shape"], data[begin + length :]


class Draws(object):
    """What chance settles in one training: first weights, then the order of samples.

    It is drawn by Python, so that one seed gives the same in every framework, batch by batch: each
    epoch is a new order of all samples, and a batch may end one and begin the next.
    """

    def __init__(self, seed, samples):
        self._weights = random.Random("{} weights".format(seed))
        self._order = random.Random("{} order".format(seed))
        self._samples, self._left = samples, []
        self._digest = hashlib.sha256()

    def weights(self, count, bound):
        """Draw so many weights, uniform between -bound and bound."""
        found = [self._weights.uniform(-bound, bound) for _ in range(count)]
        self._digest.update(array.array("d", found).tobytes())
        return found

    def batch(self, size):
        """Give the numbers of the next samples."""
        while len(self._left) < size:
            epoch = list(range(self._samples))
            self._order.shuffle(epoch)
            self._left += epoch
        taken, self._left = self._left[:size], self._left[size:]
        self._digest.update(array.array("H", taken).tobytes())
        return taken

    def digest(self):
        """Give the SHA-256 of all that was drawn until now."""
        return self._digest.hexdigest()
