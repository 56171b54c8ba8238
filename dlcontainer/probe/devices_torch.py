"""PyTorch's devices, whatever their kind: see accelerator.py. Python >= 3.6."""

import torch

import accelerator

SEED = 20190617


class Devices(object):
    """See prove_devices.py."""

    def __init__(self):
        accelerator.convolutions_in_full(torch)
        accelerator.products_in_full(torch)
        self._seen = accelerator.seen(torch)

    def names(self):
        """Give the devices' names."""
        return self._seen.names()

    def losses(self, index, steps):
        """Train on a device, or on the CPU; give the losses."""
        if index is None:
            return _losses(torch.device("cpu"), steps)
        # Or the first device is opened beside it, which another rank may hold for itself.
        with self._seen.within(index):
            return _losses(torch.device(self._seen.place(index)), steps)


def _losses(device, steps):
    # Made on the CPU, then moved: the same numbers on every device.
    make = torch.Generator()
    make.manual_seed(SEED)
    images = torch.randn(64, 3, 16, 16, generator=make)
    labels = torch.arange(64) % 2
    # The second kind is brighter: something to learn in a few steps.
    images = (images + labels.reshape(64, 1, 1, 1).float()).to(device)
    labels = labels.to(device)
    shapes = ((8, 3, 3, 3), (2, 8))
    weights = [torch.randn(*shape, generator=make) * 0.3 for shape in shapes]
    weights = [part.to(device).requires_grad_() for part in weights]
    losses = []
    for _ in range(steps):
        hidden = torch.relu(torch.nn.functional.conv2d(images, weights[0], padding=1))
        scores = hidden.mean(dim=(2, 3)).matmul(weights[1].t())
        loss = torch.nn.functional.cross_entropy(scores, labels)
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for part, slope in zip(weights, slopes):
                part.sub_(0.5 * slope)
        losses.append(float(loss.item()))
    return losses
