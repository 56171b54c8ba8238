"""The network that planted_limits.py trains: its computing is long, its gradients are few.

Four convolutions of 64 channels over 48 x 48 pixels: 0.6 MB of gradients, sent after all of them
were computed. `sleeping()` computes nothing: its step is a sleep, which every host has for itself,
in slices: while a process is stopped it begins none, so a host that is stopped at times is slow.
"""

import time
from typing import Any

import torch
from torch import nn

SLICES, SLICE_S = 250, 0.001


def build() -> Any:
    """Return the model, its optimizer, a batch and the loss."""
    layers = []
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return _made(model, torch.randn(8, 64, 48, 48))


def without_onednn() -> Any:
    """Return the same, computed by PyTorch's own kernels."""
    torch.backends.mkldnn.set_flags(_enabled=False)
    return build()


def sleeping() -> Any:
    """Return a layer of 2 MB of gradients whose step sleeps: emulated compute."""
    return _made(nn.Sequential(_Sleep(), nn.Linear(512, 1024)), torch.randn(4, 512))


class _Sleep(nn.Module):
    """Sleep, and give what came in."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Run it."""
        for _ in range(SLICES):
            time.sleep(SLICE_S)
        return inputs


def _made(model: nn.Module, inputs: torch.Tensor) -> Any:
    sample = inputs, torch.zeros(len(inputs), dtype=torch.long)
    return model, torch.optim.SGD(model.parameters(), lr=0.01), sample, nn.functional.cross_entropy
