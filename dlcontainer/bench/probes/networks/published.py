"""The published networks: parameters and multiply-adds, each with its source. Pure.

Multiply-adds are those of one sample's forward pass: convolutions, linear layers and the products
of attention. The file inside images counts its own network against the same figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Backward goes through each product twice: for the gradients of inputs, and of weights.
PASSES = 3
# What a table of figures by device has: the CPU's own, and those of every accelerator.
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedNetwork:
    """A network that is trained; its sample's shape and multiply-adds, by device.

    `shapes` are channels first; of text its length. `kind`: a class for each sample ("names") or
    each pixel, or the next token at each place.
    """

    name: str
    title: str
    parameters: int
    multiply_adds: Mapping[str, int]
    shapes: Mapping[str, str]
    source: str
    kind: Literal["names", "pixels", "text"] = "names"

    def devices(self, device: str) -> tuple[str, ...]:
        """Name the columns of figures that a device may have; several where it is found inside."""
        if device == "auto":
            return DEVICES
        return (DEVICES[device != "cpu"],)

    def operations(self, multiply_adds: int) -> int:
        """Count the floating-point operations of training on one sample, forward and backward."""
        return 2 * PASSES * multiply_adds


NETWORKS: Mapping[str, PublishedNetwork] = {
    network.name: network
    for network in (
        PublishedNetwork(
            name="convnet",
            title="ConvNet (Cifar10)",
            parameters=145_578,
            multiply_adds=dict.fromkeys(DEVICES, 12_354_176),
            shapes=dict.fromkeys(DEVICES, "3x32x32"),
            source="Caffe, examples/cifar10/cifar10_quick_train_test.prototxt; by its layers",
        ),
        PublishedNetwork(
            name="caffenet",
            title="CaffeNet",
            parameters=60_965_224,
            multiply_adds=dict.fromkeys(DEVICES, 724_406_816),
            shapes=dict.fromkeys(DEVICES, "3x227x227"),
            source="Caffe, models/bvlc_reference_caffenet; by its layers",
        ),
        PublishedNetwork(
            name="alexnet",
            title="AlexNet",
            parameters=61_100_840,
            multiply_adds=dict.fromkeys(DEVICES, 714_188_480),
            shapes=dict.fromkeys(DEVICES, "3x224x224"),
            source="arXiv:1404.5997; torchvision's AlexNet_Weights: num_params 61100840, 0.714e9",
        ),
        PublishedNetwork(
            name="googlenet",
            title="GoogLeNet",
            parameters=13_378_280,
            multiply_adds=dict.fromkeys(DEVICES, 1_591_044_096),
            shapes=dict.fromkeys(DEVICES, "3x224x224"),
            source="arXiv:1409.4842, table 1 (1.5e9 multiply-adds); Caffe, models/bvlc_googlenet",
        ),
        PublishedNetwork(
            name="resnet50",
            title="ResNet-50",
            parameters=25_557_032,
            multiply_adds=dict.fromkeys(DEVICES, 4_089_184_256),
            shapes=dict.fromkeys(DEVICES, "3x224x224"),
            source="arXiv:1512.03385; torchvision's ResNet50_Weights: num_params 25557032, 4.089e9",
        ),
        PublishedNetwork(
            name="tiramisu",
            kind="pixels",
            title="Tiramisu (FC-DenseNet103)",
            parameters=9_325_651,
            multiply_adds={"cpu": 3_719_681_280, "cuda": 357_089_402_880},
            shapes={"cpu": "16x96x96", "cuda": "16x768x1152"},
            source="arXiv:1611.09326, tables 1 and 2, by its layers "
            "(docs/measurements/probes.md: its 9.4 M)",
        ),
        PublishedNetwork(
            name="deeplabv3plus",
            kind="pixels",
            title="DeepLabv3+ (ResNet-50)",
            parameters=40_388_067,
            multiply_adds={"cpu": 3_787_857_920, "cuda": 242_389_876_736},
            shapes={"cpu": "16x96x144", "cuda": "16x768x1152"},
            source="arXiv:1802.02611, by its layers, on the encoder of arXiv:1512.03385",
        ),
        PublishedNetwork(
            name="transformer",
            kind="text",
            title="Transformer, base",
            parameters=27_180_864,
            multiply_adds=dict.fromkeys(DEVICES, 3_040_870_400),
            shapes=dict.fromkeys(DEVICES, "128"),
            source="arXiv:1706.03762, table 3, base: one stack of six layers; by its layers",
        ),
    )
}
