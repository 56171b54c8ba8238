"""Networks that name what each pixel shows, in PyTorch. Python >= 3.6."""

import torch
from torch import nn

from networks_images import resnet50_stages


class Dense(nn.Module):
    """A dense block: each layer sees all before it; gives what is new, and all together."""

    def __init__(self, inner, layers, growth):
        super(Dense, self).__init__()
        self.layers = nn.ModuleList(
            [
                nn.Sequential(
                    nn.BatchNorm2d(inner + number * growth), nn.ReLU(),
                    nn.Conv2d(inner + number * growth, growth, 3, padding=1), nn.Dropout(0.2),
                )
                for number in range(layers)
            ]
        )  # fmt: skip

    def forward(self, x):
        new = []
        for layer in self.layers:
            new.append(layer(torch.cat([x] + new, 1)))
        grown = torch.cat(new, 1)
        return grown, torch.cat((x, grown), 1)


class Tiramisu(nn.Module):
    """FC-DenseNet103 of Jegou et al., arXiv:1611.09326, tables 1 and 2: sides divide by 32."""

    growth, down, bottom = 16, (4, 5, 7, 10, 12), 15

    def __init__(self, channels, classes):
        super(Tiramisu, self).__init__()
        width, growth, kept = 48, self.growth, []
        self.begin = nn.Conv2d(channels, width, 3, padding=1)
        self.falls, self.steps = nn.ModuleList(), nn.ModuleList()
        for layers in self.down:
            self.falls.append(Dense(width, layers, growth))
            width += layers * growth
            kept.append(width)
            self.steps.append(
                nn.Sequential(
                    nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 1), nn.Dropout(0.2),
                    nn.MaxPool2d(2),
                )
            )  # fmt: skip
        self.bed = Dense(width, self.bottom, growth)
        new = self.bottom * growth
        self.lifts, self.climbs = nn.ModuleList(), nn.ModuleList()
        for layers, other in zip(self.down[::-1], kept[::-1]):
            # Of a block only what is new is taken up: else channels would grow beyond memory.
            self.lifts.append(nn.ConvTranspose2d(new, new, 3, 2, padding=1, output_padding=1))
            self.climbs.append(Dense(new + other, layers, growth))
            width, new = new + other + layers * growth, layers * growth
        self.end = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x, kept = self.begin(x), []
        for fall, step in zip(self.falls, self.steps):
            x = fall(x)[1]
            kept.append(x)
            x = step(x)
        new, whole = self.bed(x)
        for lift, climb in zip(self.lifts, self.climbs):
            new, whole = climb(torch.cat((lift(new), kept.pop()), 1))
        return self.end(whole)


def tiramisu(channels, classes):
    """FC-DenseNet103."""
    return Tiramisu(channels, classes)


def _norm(inner, outer, side, dilation=1):
    padding = dilation * (side // 2)
    return nn.Sequential(
        nn.Conv2d(inner, outer, side, 1, padding, dilation, bias=False), nn.BatchNorm2d(outer),
        nn.ReLU(),
    )  # fmt: skip


def _resized(x, like):
    return nn.functional.interpolate(x, like.shape[-2:], mode="bilinear", align_corners=False)


class DeepLab(nn.Module):
    """DeepLabv3+ of Chen et al., arXiv:1802.02611, on ResNet-50 at output stride 16.

    Atrous pooling of 256 channels at rates 6, 12, 18; 48 channels of the first stage; two 3x3
    convolutions of 256. Convolutions are whole ones, not separable. The pooled way has a bias in
    place of a normalization, which has no variance over one sample of one pixel.
    """

    def __init__(self, channels, classes):
        super(DeepLab, self).__init__()
        stem, first, second, third, fourth = resnet50_stages(channels, last=(1, 2))
        self.low, self.high = nn.Sequential(stem, first), nn.Sequential(second, third, fourth)
        self.ways = nn.ModuleList(
            [_norm(2048, 256, 1)] + [_norm(2048, 256, 3, rate) for rate in (6, 12, 18)]
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2048, 256, 1), nn.ReLU())
        self.joined, self.kept = _norm(5 * 256, 256, 1), _norm(256, 48, 1)
        self.decode = nn.Sequential(_norm(256 + 48, 256, 3), _norm(256, 256, 3))
        self.end = nn.Conv2d(256, classes, 1)

    def forward(self, x):
        low = self.low(x)
        high = self.high(low)
        ways = [way(high) for way in self.ways] + [_resized(self.pooled(high), high)]
        joined = _resized(self.joined(torch.cat(ways, 1)), low)
        decoded = self.decode(torch.cat((joined, self.kept(low)), 1))
        return _resized(self.end(decoded), x)


def deeplabv3plus(channels, classes):
    """DeepLabv3+ on ResNet-50."""
    return DeepLab(channels, classes)
