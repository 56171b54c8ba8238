"""What a network takes, from the bytes of samples, in PyTorch. Python >= 3.6.

Labels come first: of "names" 2 bytes (little-endian), of "pixels" a byte for each pixel, modulo the
classes. Then values, a byte each, channels first, spread about 0 with a deviation of about 1. "text"
is 2 bytes for each token and one token more, modulo the classes: each place's label is the next.
"""

import sys

# Of a byte of which each value is as likely.
_MEAN, _DEVIATION = 127.5, 73.9


def size(kind, shape):
    """Count the bytes of a sample."""
    if kind == "text":
        return 2 * (shape[0] + 1)
    return _labels(kind, shape) + _product(shape)


def _labels(kind, shape):
    return _product(shape[1:]) if kind == "pixels" else 2


def _product(numbers):
    found = 1
    for number in numbers:
        found *= number
    return found


class Decoder(object):
    """Makes batches of one kind; `classes` of labels, or of tokens."""

    def __init__(self, torch, kind, shape, classes, device):
        if not hasattr(torch, "frombuffer"):
            sys.exit("--input: PyTorch {} has no torch.frombuffer; 1.10 or newer has".format(
                torch.__version__
            ))  # fmt: skip
        self._torch, self._kind, self._shape = torch, kind, tuple(shape)
        self._classes, self._device = classes, device

    def require(self, declared):
        """End the process where samples of so many bytes are not those of the network."""
        own = size(self._kind, self._shape)
        if own != declared:
            sys.exit("--sample-bytes {}: the network takes samples of {}".format(declared, own))

    def decoded(self, data):
        """Give values and labels of a batch, on the device, from a bytearray."""
        raw = self._torch.frombuffer(data, dtype=self._torch.uint8)
        if self._device != "cpu":
            # Bytes are less to copy than what is made of them there.
            raw = raw.pin_memory().to(self._device, non_blocking=True)
        if self._kind == "text":
            tokens = self._pairs(raw.reshape(-1, self._shape[0] + 1, 2))
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        count = _labels(self._kind, self._shape)
        each = raw.reshape(-1, size(self._kind, self._shape))
        values = each[:, count:].to(self._torch.float32).sub_(_MEAN).div_(_DEVIATION)
        return values.reshape((-1,) + self._shape), self._labelled(each[:, :count])

    def _labelled(self, raw):
        if self._kind == "pixels":
            return raw.reshape((-1,) + self._shape[1:]).to(self._torch.int64) % self._classes
        return self._pairs(raw)

    def _pairs(self, raw):
        whole = raw.to(self._torch.int64)
        return (whole[..., 0] + 256 * whole[..., 1]) % self._classes
