"""Parameters of a network, and the multiply-adds of one sample, counted as it runs. Python >= 3.6.

Counted are convolutions, linear layers and the products of attention, with the zeros of the
padding, as the literature does; biases, normalization, activations, pooling and look-ups are not.
"""

import torch
from torch import nn


def parameters(model):
    """Count the values that are trained."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad)


def multiply_adds(model, sample):
    """Count those of one forward pass over `sample`, a batch of one.

    The pass leaves no trace: evaluation draws no random number and moves no running mean.
    """
    found, hooks = [], []

    def note(module, given, made):
        found.append(_of(module, given, made))

    for module in model.modules():
        if hasattr(module, "multiply_adds") or isinstance(module, _COUNTED):
            hooks.append(module.register_forward_hook(note))
    trained = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(sample)
    finally:
        model.train(trained)
        for hook in hooks:
            hook.remove()
    return sum(found)


_COUNTED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)


def _of(module, given, made):
    if hasattr(module, "multiply_adds"):
        return module.multiply_adds(given, made)
    if isinstance(module, nn.Linear):
        return made.numel() * module.in_features
    height, width = module.kernel_size
    if isinstance(module, nn.ConvTranspose2d):
        # Each value that comes in is spread over the kernel.
        return given[0].numel() * module.out_channels // module.groups * height * width
    return made.numel() * module.in_channels // module.groups * height * width
