"""Networks that name what an image shows, in PyTorch. Python >= 3.6.

Layer by layer as published; dropout and normalization where the publication has them. What is
made gives the logits, or a tuple of those of several heads, the network's own first.
"""

import torch
from torch import nn



def _pool(side=3, stride=2):
    # Caffe rounds up: the last window may reach over the edge.
    return nn.MaxPool2d(side, stride, ceil_mode=True)


def convnet(channels, classes):
    """Caffe's examples/cifar10/cifar10_quick: images of 32."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2), _pool(), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 64), nn.Linear(64, classes),
    )  # fmt: skip


def caffenet(channels, classes):
    """Caffe's models/bvlc_reference_caffenet: AlexNet of 2012 with its two groups; images of 227."""
    return nn.Sequential(
        nn.Conv2d(channels, 96, 11, 4), nn.ReLU(), _pool(), nn.LocalResponseNorm(5),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), _pool(), nn.LocalResponseNorm(5),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), _pool(),
        nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, classes),
    )  # fmt: skip


def alexnet(channels, classes):
    """One column of it (Krizhevsky, arXiv:1404.5997), as torchvision has it; images of 224."""
    return nn.Sequential(
        nn.Conv2d(channels, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Flatten(), nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, classes),
    )  # fmt: skip


def _unit(inner, outer, side, stride=1, padding=0):
    return nn.Sequential(nn.Conv2d(inner, outer, side, stride, padding), nn.ReLU())


class Inception(nn.Module):
    """Four ways beside each other; `outer` are the channels of 1x1, 3x3, 5x5 and the pool's."""

    def __init__(self, inner, outer, before):
        super(Inception, self).__init__()
        one, three, five, pooled = outer
        self.one = _unit(inner, one, 1)
        self.three = nn.Sequential(_unit(inner, before[0], 1), _unit(before[0], three, 3, 1, 1))
        self.five = nn.Sequential(_unit(inner, before[1], 1), _unit(before[1], five, 5, 1, 2))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), _unit(inner, pooled, 1))

    def forward(self, x):
        return torch.cat((self.one(x), self.three(x), self.five(x), self.pooled(x)), 1)


def _head(inner, classes):
    return nn.Sequential(
        nn.AvgPool2d(5, 3), _unit(inner, 128, 1), nn.Flatten(), nn.Linear(128 * 4 * 4, 1024),
        nn.ReLU(), nn.Dropout(0.7), nn.Linear(1024, classes),
    )  # fmt: skip


class GoogLeNet(nn.Module):
    """Szegedy et al., arXiv:1409.4842, table 1, with both auxiliary heads; images of 224.

    With biases and without batch normalization, as in Caffe's models/bvlc_googlenet.
    """

    def __init__(self, channels, classes):
        super(GoogLeNet, self).__init__()
        self.begin = nn.Sequential(
            _unit(channels, 64, 7, 2, 3), _pool(), nn.LocalResponseNorm(5),
            _unit(64, 64, 1), _unit(64, 192, 3, 1, 1), nn.LocalResponseNorm(5), _pool(),
            Inception(192, (64, 128, 32, 32), (96, 16)),
            Inception(256, (128, 192, 96, 64), (128, 32)), _pool(),
            Inception(480, (192, 208, 48, 64), (96, 16)),
        )  # fmt: skip
        self.middle = nn.Sequential(
            Inception(512, (160, 224, 64, 64), (112, 24)),
            Inception(512, (128, 256, 64, 64), (128, 24)),
            Inception(512, (112, 288, 64, 64), (144, 32)),
        )
        self.end = nn.Sequential(
            Inception(528, (256, 320, 128, 128), (160, 32)), _pool(),
            Inception(832, (256, 320, 128, 128), (160, 32)),
            Inception(832, (384, 384, 128, 128), (192, 48)),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, classes),
        )  # fmt: skip
        self.heads = nn.ModuleList([_head(512, classes), _head(528, classes)])

    def forward(self, x):
        first = self.begin(x)
        second = self.middle(first)
        return self.end(second), self.heads[0](first), self.heads[1](second)


def googlenet(channels, classes):
    """GoogLeNet with its two heads."""
    return GoogLeNet(channels, classes)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 and a way round; the stride is the 3x3's, and the way round may be a 1x1."""

    def __init__(self, inner, width, stride, dilation=1):
        super(Bottleneck, self).__init__()
        outer = 4 * width
        self.long = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.short = nn.Sequential()
        if stride != 1 or inner != outer:
            self.short = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x):
        return torch.relu(self.long(x) + self.short(x))


def resnet50_stages(channels, last=(2, 1)):
    """The stem and the four stages of ResNet-50; `last` is the last one's stride and dilation."""
    stem = nn.Sequential(
        nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    )  # fmt: skip
    found, inner = [stem], 64
    for width, blocks, stride, dilation in (
        (64, 3, 1, 1), (128, 4, 2, 1), (256, 6, 2, 1), (512, 3, last[0], last[1])
    ):  # fmt: skip
        layers = []
        for number in range(blocks):
            layers.append(Bottleneck(inner, width, 1 if number else stride, dilation))
            inner = 4 * width
        found.append(nn.Sequential(*layers))
    return found


def resnet50(channels, classes):
    """He et al., arXiv:1512.03385, table 1, strides as in torchvision (v1.5); images of 224."""
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, classes)]
    return nn.Sequential(*(resnet50_stages(channels) + head))
