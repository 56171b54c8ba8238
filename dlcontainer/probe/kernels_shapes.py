"""Shapes of kernels, as words: letters and numbers in turn. Standard library, Python >= 3.6.

gemm: m512n768k768. Convolutions have the letters of oneDNN's benchdnn, for squares: g groups, mb
batch, ic and oc channels, ih and oh height, kh kernel, sh stride, dh dilation (0: none), ph padding.
attention: mb batch, h heads, l length, d width of a head. reduction: m sums of n. copy, triad: n.
"""

import re

LETTERS = {
    "gemm": ("m", "n", "k"),
    "conv_forward": ("g", "mb", "ic", "ih", "oc", "oh", "kh", "sh", "dh", "ph"),
    "attention": ("mb", "h", "l", "d"),
    "reduction": ("m", "n"),
    "copy": ("n",),
}
LETTERS["conv_data"] = LETTERS["conv_weights"] = LETTERS["conv_forward"]
LETTERS["triad"] = LETTERS["copy"]


def read(kernel, shape):
    """Give a shape's numbers by their letters; raises ValueError for what is no shape."""
    pairs = re.findall(r"([a-z]+)([0-9]+)", shape)
    letters = tuple(name for name, _ in pairs)
    if letters != LETTERS.get(kernel) or "".join(a + b for a, b in pairs) != shape:
        wanted = LETTERS.get(kernel)
        raise ValueError("{} is no shape of {}: {}".format(shape, kernel, wanted))
    return {name: int(number) for name, number in pairs}
