"""Operations of the field's networks: their shapes, each with its source; what they compute. Pure.

The letters of a shape are explained in probe/kernels_shapes.py, which reads them inside images.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# The precisions that each kernel is measured in. Networks convolve in no fp64; PyTorch has products
# of matrices alone in int8. Copies are of bytes: one precision says it.
PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("fp64", "fp32", "bf16", "fp16", "int8"),
    "conv_forward": ("fp32", "bf16", "fp16"),
    "conv_data": ("fp32", "bf16", "fp16"),
    "conv_weights": ("fp32", "bf16", "fp16"),
    "attention": ("fp32", "bf16", "fp16"),
    "reduction": ("fp64", "fp32", "bf16", "fp16"),
    "copy": ("fp32",),
    "triad": ("fp32",),
}
KERNELS = tuple(PRECISIONS)
WIDTHS = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
CONVOLUTIONS = ("conv_forward", "conv_data", "conv_weights")
STREAMS = ("copy", "triad")


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelShape:
    """What one layer asks of some kernels; `quick`: it is in the small set too."""

    layer: str
    shape: str
    kernels: tuple[str, ...]
    quick: bool = False


def _gemm(layer: str, shape: str, *, quick: bool = False) -> KernelShape:
    return KernelShape(layer=layer, shape=shape, kernels=("gemm",), quick=quick)


def _conv(layer: str, shape: str, *, quick: bool = False) -> KernelShape:
    return KernelShape(layer=layer, shape=shape, kernels=CONVOLUTIONS, quick=quick)


# A square beside the networks' own, the largest product: the peak of the roofline.
_SQUARES = (
    _gemm("square", "m1024n1024k1024", quick=True),
    _gemm("square, the peak", "m2048n2048k2048"),
)
# Devlin et al., BERT, arXiv:1810.04805, section 3: BASE has 12 heads, hidden size 768, feed-forward
# size 3072; sequences of 512. m is the tokens of one sequence.
_BERT = (
    _gemm("BERT-base query", "m512n768k768"),
    _gemm("BERT-base feed-forward in", "m512n3072k768"),
    _gemm("BERT-base feed-forward out", "m512n768k3072"),
    KernelShape(layer="BERT-base attention", shape="mb1h12l512d64", kernels=("attention",)),
    # The length of most of its steps of training (appendix A.2).
    KernelShape(layer="BERT-base, 128", shape="mb1h12l128d64", kernels=("attention",), quick=True),
    # The sums of layer normalisation, one a token; those of softmax, one a row of scores.
    KernelShape(layer="BERT-base norm", shape="m512n768", kernels=("reduction",), quick=True),
    KernelShape(layer="BERT-base softmax", shape="m6144n512", kernels=("reduction",)),
)
# Vaswani et al., arXiv:1706.03762, table 3, base: d_model 512, d_ff 2048, 8 heads of 64.
_TRANSFORMER = (_gemm("Transformer base feed-forward", "m512n2048k512"),)
# He et al., arXiv:1512.03385, table 1, 50 layers, images of 224.
_RESNET50 = (
    _conv("ResNet-50 conv1", "g1mb1ic3ih224oc64oh112kh7sh2dh0ph3"),
    _conv("ResNet-50 conv2_x 3x3", "g1mb1ic64ih56oc64oh56kh3sh1dh0ph1"),
    _conv("ResNet-50 conv2_x 1x1", "g1mb1ic64ih56oc256oh56kh1sh1dh0ph0"),
    _conv("ResNet-50 conv3_x 3x3", "g1mb1ic128ih28oc128oh28kh3sh1dh0ph1"),
    _conv("ResNet-50 conv4_x 3x3", "g1mb1ic256ih14oc256oh14kh3sh1dh0ph1", quick=True),
    _conv("ResNet-50 conv5_x 3x3", "g1mb1ic512ih7oc512oh7kh3sh1dh0ph1"),
    _conv("ResNet-50 conv5_x 1x1", "g1mb1ic2048ih7oc512oh7kh1sh1dh0ph0"),
)
# Caffe's models/bvlc_reference_caffenet/deploy.prototxt: AlexNet (Krizhevsky et al., 2012) with its
# two groups; crops of 227, ten a batch, here one image; fully connected layers for ten.
_CAFFENET = (
    _conv("CaffeNet conv1", "g1mb1ic3ih227oc96oh55kh11sh4dh0ph0"),
    _conv("CaffeNet conv2", "g2mb1ic96ih27oc256oh27kh5sh1dh0ph2"),
    _conv("CaffeNet conv3", "g1mb1ic256ih13oc384oh13kh3sh1dh0ph1"),
    _gemm("CaffeNet fc6", "m10n4096k9216"),
    _gemm("CaffeNet fc7", "m10n4096k4096"),
)
# Szegedy et al., arXiv:1409.4842, table 1.
_GOOGLENET = (
    _conv("GoogLeNet conv2", "g1mb1ic64ih56oc192oh56kh3sh1dh0ph1"),
    _conv("GoogLeNet inception 3a 3x3", "g1mb1ic96ih28oc128oh28kh3sh1dh0ph1"),
    _conv("GoogLeNet inception 3a 5x5", "g1mb1ic16ih28oc32oh28kh5sh1dh0ph2"),
)
# Chen et al., arXiv:1802.02611: atrous spatial pyramid pooling, 256 channels on 2048 (ResNet-101),
# rates 6, 12 and 18 at output stride 16, crops of 513: 33 by 33. Here on a quarter of the channels:
# the check in fp64 would take seconds.
_DEEPLAB = (
    _conv("DeepLabv3+ ASPP rate 6, 1/4", "g1mb1ic512ih33oc256oh33kh3sh1dh5ph6"),
    _conv("DeepLabv3+ ASPP rate 18, 1/4", "g1mb1ic512ih33oc256oh33kh3sh1dh17ph18"),
)
SHAPES = (*_SQUARES, *_BERT, *_TRANSFORMER, *_RESNET50, *_CAFFENET, *_GOOGLENET, *_DEEPLAB)


def numbers(row: Mapping[str, str | int]) -> dict[str, int]:
    """Return a shape's numbers by their letters; files come from anybody: some may be missing."""
    pairs = re.findall(r"([a-z]+)([0-9]{1,12})", str(row.get("shape", "")))
    return {name: int(number) for name, number in pairs}


def _by(
    formulas: Mapping[str, Callable[[Mapping[str, int]], float]], row: Mapping[str, str | int]
) -> float | None:
    formula = formulas.get(str(row.get("kernel")))
    try:
        operations = formula(numbers(row)) if formula else 0.0
    except (KeyError, ZeroDivisionError):
        return None
    return operations or None


def _of_convolution(s: Mapping[str, int]) -> float:
    # Those with the zeros of the padding too, as the networks' papers count.
    return 2.0 * s["mb"] * s["oc"] * s["oh"] ** 2 * s["ic"] / s["g"] * s["kh"] ** 2


_OPERATIONS: Mapping[str, Callable[[Mapping[str, int]], float]] = {
    "gemm": lambda s: 2.0 * s["m"] * s["n"] * s["k"],
    **dict.fromkeys(CONVOLUTIONS, _of_convolution),
    # Scores and the sum of values; the softmax between is not counted.
    "attention": lambda s: 4.0 * s["mb"] * s["h"] * s["l"] ** 2 * s["d"],
    "reduction": lambda s: 1.0 * s["m"] * (s["n"] - 1),
    "triad": lambda s: 2.0 * s["n"],
}


def operations(row: Mapping[str, str | int]) -> float | None:
    """Count a row's floating-point operations (of int8 whole ones); None where there are none."""
    return _by(_OPERATIONS, row)


def _elements_of_convolution(s: Mapping[str, int]) -> float:
    weights = s["oc"] * s["ic"] / s["g"] * s["kh"] ** 2
    return s["mb"] * (s["ic"] * s["ih"] ** 2 + s["oc"] * s["oh"] ** 2) + weights


_ELEMENTS: Mapping[str, Callable[[Mapping[str, int]], float]] = {
    "gemm": lambda s: s["m"] * s["k"] + s["k"] * s["n"] + s["m"] * s["n"],
    **dict.fromkeys(CONVOLUTIONS, _elements_of_convolution),
    "attention": lambda s: 4.0 * s["mb"] * s["h"] * s["l"] * s["d"],
    "reduction": lambda s: s["m"] * s["n"] + s["m"],
    "copy": lambda s: 2.0 * s["n"],
    "triad": lambda s: 3.0 * s["n"],
}


def least_bytes(row: Mapping[str, str | int]) -> float | None:
    """Count the bytes that must move: each operand read once, the result written once."""
    width, elements = WIDTHS.get(str(row.get("precision"))), _by(_ELEMENTS, row)
    if width is None or elements is None:
        return None
    if row.get("kernel") == "gemm" and row.get("precision") == "int8":
        s = numbers(row)
        return elements + 3.0 * s["m"] * s["n"]  # its result has 4 bytes
    return elements * width
