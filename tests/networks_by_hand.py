"""The published networks' parameters and multiply-adds, from tables of layers: no torch, no tool.

Each row is a layer with the sizes that the publication prints. Multiply-adds are those of one
sample's forward pass, with the zeros of the padding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Count:
    """What a layer, or a network, has."""

    parameters: int = 0
    multiply_adds: int = 0
    # Running means and variances: not trained, and no parameters here.
    statistics: int = 0


def total(counts: Iterable[Count]) -> Count:
    each = list(counts)
    return Count(
        parameters=sum(one.parameters for one in each),
        multiply_adds=sum(one.multiply_adds for one in each),
        statistics=sum(one.statistics for one in each),
    )


def conv(inner: int, outer: int, side: int, pixels: int, *, groups: int = 1) -> Count:
    """Count a convolution with a bias that makes so many pixels."""
    weights = outer * side * side * inner // groups
    return Count(parameters=weights + outer, multiply_adds=weights * pixels)


def normed(inner: int, outer: int, side: int, pixels: int) -> Count:
    """Count a convolution without a bias and the batch normalization after it."""
    weights = outer * side * side * inner
    return Count(
        parameters=weights + 2 * outer, multiply_adds=weights * pixels, statistics=2 * outer
    )


def dense(inner: int, outer: int, places: int = 1) -> Count:
    return Count(parameters=inner * outer + outer, multiply_adds=inner * outer * places)


def norm(channels: int) -> Count:
    return Count(parameters=2 * channels, statistics=2 * channels)


def convnet() -> Count:
    return total(
        [
            conv(3, 32, 5, 32 * 32),
            conv(32, 32, 5, 16 * 16),
            conv(32, 64, 5, 8 * 8),
            dense(4 * 4 * 64, 64),
            dense(64, 10),
        ]
    )


def caffenet() -> Count:
    return total(
        [
            conv(3, 96, 11, 55 * 55),
            conv(96, 256, 5, 27 * 27, groups=2),
            conv(256, 384, 3, 13 * 13),
            conv(384, 384, 3, 13 * 13, groups=2),
            conv(384, 256, 3, 13 * 13, groups=2),
            dense(6 * 6 * 256, 4096),
            dense(4096, 4096),
            dense(4096, 1000),
        ]
    )


def alexnet() -> Count:
    return total(
        [
            conv(3, 64, 11, 55 * 55),
            conv(64, 192, 5, 27 * 27),
            conv(192, 384, 3, 13 * 13),
            conv(384, 256, 3, 13 * 13),
            conv(256, 256, 3, 13 * 13),
            dense(6 * 6 * 256, 4096),
            dense(4096, 4096),
            dense(4096, 1000),
        ]
    )


# Szegedy et al., table 1: side of the maps, channels in, #1x1, #3x3 reduce, #3x3, #5x5 reduce,
# #5x5, pool proj.
INCEPTIONS = {
    "3a": (28, 192, 64, 96, 128, 16, 32, 32),
    "3b": (28, 256, 128, 128, 192, 32, 96, 64),
    "4a": (14, 480, 192, 96, 208, 16, 48, 64),
    "4b": (14, 512, 160, 112, 224, 24, 64, 64),
    "4c": (14, 512, 128, 128, 256, 24, 64, 64),
    "4d": (14, 512, 112, 144, 288, 32, 64, 64),
    "4e": (14, 528, 256, 160, 320, 32, 128, 128),
    "5a": (7, 832, 256, 160, 320, 32, 128, 128),
    "5b": (7, 832, 384, 192, 384, 48, 128, 128),
}


def _inception(row: Sequence[int]) -> Count:
    side, inner, one, before3, three, before5, five, pooled = row
    pixels = side * side
    return total(
        [
            conv(inner, one, 1, pixels),
            conv(inner, before3, 1, pixels),
            conv(before3, three, 3, pixels),
            conv(inner, before5, 1, pixels),
            conv(before5, five, 5, pixels),
            conv(inner, pooled, 1, pixels),
        ]
    )


def googlenet_alone() -> Count:
    """Count the network without its auxiliary heads: 6,998,552 and 1.58e9 in Caffe."""
    begin = [
        conv(3, 64, 7, 112 * 112),
        conv(64, 64, 1, 56 * 56),
        conv(64, 192, 3, 56 * 56),
    ]
    return total([*begin, *map(_inception, INCEPTIONS.values()), dense(1024, 1000)])


def googlenet() -> Count:
    heads = [
        layer
        for inner in (512, 528)
        for layer in (conv(inner, 128, 1, 4 * 4), dense(2048, 1024), dense(1024, 1000))
    ]
    return total([googlenet_alone(), *heads])


# He et al., table 1: blocks, width, and the side of the maps for images of 224.
STAGES = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))


def _bottlenecks(blocks: int, inner: int, width: int, before: int, pixels: int) -> list[Count]:
    """List a stage's layers: the first 1x1 sees the pixels before the stride."""
    found = [
        normed(inner, width, 1, before),
        normed(width, width, 3, pixels),
        normed(width, 4 * width, 1, pixels),
        normed(inner, 4 * width, 1, pixels),
    ]
    for _ in range(blocks - 1):
        found += [
            normed(4 * width, width, 1, pixels),
            normed(width, width, 3, pixels),
            normed(width, 4 * width, 1, pixels),
        ]
    return found


def _encoder(channels: int, stem: int, pixels: Sequence[int]) -> list[Count]:
    found, inner, before = [normed(channels, 64, 7, stem)], 64, pixels[0]
    for (blocks, width, _), own in zip(STAGES, pixels, strict=True):
        found += _bottlenecks(blocks, inner, width, before, own)
        inner, before = 4 * width, own
    return found


def resnet50() -> Count:
    pixels = [side * side for _, _, side in STAGES]
    return total([*_encoder(3, 112 * 112, pixels), dense(2048, 1000)])


def tiramisu(channels: int, classes: int, pixels: int) -> Count:
    """Count FC-DenseNet103: 48 maps, blocks of 4 5 7 10 12, 15, 12 10 7 5 4 layers of 16."""
    down = (4, 5, 7, 10, 12)
    found, maps, kept = [conv(channels, 48, 3, pixels)], 48, []
    for layers in down:
        found += _growing(maps, layers, pixels)
        maps += 16 * layers
        kept.append(maps)
        found += [norm(maps), conv(maps, maps, 1, pixels)]
        pixels //= 4
    # The maps after each block, as the paper's table 2 has them.
    assert [*kept, maps + 15 * 16] == [112, 192, 304, 464, 656, 896]
    found += _growing(maps, 15, pixels)
    new, after = 15 * 16, []
    for layers, skipped in zip(down[::-1], kept[::-1], strict=True):
        # A transposed 3x3 of stride 2 spreads each pixel over nine places.
        found.append(conv(new, new, 3, pixels))
        pixels *= 4
        maps = new + skipped
        found += _growing(maps, layers, pixels)
        maps, new = maps + 16 * layers, 16 * layers
        after.append(maps)
    assert after == [1088, 816, 576, 384, 256]
    return total([*found, conv(256, classes, 1, pixels)])


def _growing(maps: int, layers: int, pixels: int) -> list[Count]:
    return [
        layer
        for number in range(layers)
        for layer in (norm(maps + 16 * number), conv(maps + 16 * number, 16, 3, pixels))
    ]


def deeplabv3plus(height: int, width: int) -> Count:
    """Count DeepLabv3+ on ResNet-50 at output stride 16: 16 channels, 3 classes."""
    stem, low = (height // 2) * (width // 2), (height // 4) * (width // 4)
    eighth, high = (height // 8) * (width // 8), (height // 16) * (width // 16)
    # The last stage does not stride; its 3x3 are dilated.
    encoder = _encoder(16, stem, (low, eighth, high, high))
    pooling = [
        normed(2048, 256, 1, high),
        *(normed(2048, 256, 3, high) for _rate in (6, 12, 18)),
        conv(2048, 256, 1, 1),
        normed(5 * 256, 256, 1, high),
    ]
    decoder = [
        normed(256, 48, 1, low),
        normed(256 + 48, 256, 3, low),
        normed(256, 256, 3, low),
        conv(256, 3, 1, low),
    ]
    return total([*encoder, *pooling, *decoder])


def transformer() -> Count:
    """Count six layers of d_model 512 and d_ff 2048 over 128 places and 8,000 words."""
    places, width, inner, words = 128, 512, 2048, 8000
    layer_norm = Count(parameters=2 * width)
    layer = [
        layer_norm,
        *(dense(width, width, places) for _ in ("query", "key", "value", "output")),
        Count(multiply_adds=2 * places * places * width),
        layer_norm,
        dense(width, inner, places),
        dense(inner, width, places),
    ]
    tables = Count(parameters=(words + places) * width)
    return total([tables, *(6 * layer), layer_norm, dense(width, words, places)])


# name -> device -> counts, as sessions declare them
BY_HAND = {
    "convnet": {"cpu": convnet(), "cuda": convnet()},
    "caffenet": {"cpu": caffenet(), "cuda": caffenet()},
    "alexnet": {"cpu": alexnet(), "cuda": alexnet()},
    "googlenet": {"cpu": googlenet(), "cuda": googlenet()},
    "resnet50": {"cpu": resnet50(), "cuda": resnet50()},
    "tiramisu": {"cpu": tiramisu(16, 3, 96 * 96), "cuda": tiramisu(16, 3, 768 * 1152)},
    "deeplabv3plus": {"cpu": deeplabv3plus(96, 144), "cuda": deeplabv3plus(768, 1152)},
    "transformer": {"cpu": transformer(), "cuda": transformer()},
}
