"""LARS and LARC in PyTorch, step by step as they are published; SGD is PyTorch's. Python >= 3.6.

No layer is left out of the ratios, as in the paper; recipes that leave out biases and
normalizations train otherwise.
"""

import torch

import step_rules

# Rates at which the workloads train on noise without an overflow; they stand for no recipe. A step
# of LARS moves a layer by rate * trust of its length. Weight decay is that of both publications'
# AlexNet; apex's trust is 0.02, the paper's 0.001.
SETTINGS = {
    "sgd": {"lr": 0.001, "momentum": 0.9},
    "lars": {"lr": 2.0, "momentum": 0.9, "weight_decay": 5e-4, "trust": 0.001},
    "larc": {"lr": 0.01, "momentum": 0.9, "weight_decay": 5e-4, "trust": 0.02},
}


class Layerwise(torch.optim.Optimizer):
    """SGD whose layers have a rate each; `_slope` gives what a layer's momentum takes up."""

    def __init__(self, params, **settings):
        # Horovod makes it from groups that have their settings.
        super(Layerwise, self).__init__(params, settings)

    @torch.no_grad()
    def step(self, closure=None):
        """Step every layer that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group)
        return loss

    def _move(self, weight, group):
        state = self.state[weight]
        if "speed" not in state:
            state["speed"] = torch.zeros_like(weight)
        lengths = torch.linalg.norm(weight), torch.linalg.norm(weight.grad)
        state["speed"].mul_(group["momentum"]).add_(self._slope(weight, lengths, group))
        weight.sub_(state["speed"])

    def _slope(self, weight, lengths, group):
        raise NotImplementedError


def _either(lengths, ratio, other):
    """Take the ratio where both lengths are known; on the device, which is not waited for."""
    known = (lengths[0] > 0) & (lengths[1] > 0)
    return torch.where(known, ratio, torch.full_like(ratio, other))


class Lars(Layerwise):
    """v = m v + rate ratio (g + decay w), w = w - v."""

    def _slope(self, weight, lengths, group):
        decay = group["weight_decay"]
        ratio = step_rules.lars(lengths[0], lengths[1], group["trust"], decay)
        ratio = _either(lengths, ratio, 1.0)
        return group["lr"] * ratio * (weight.grad + decay * weight)


class Larc(Layerwise):
    """v = m v + min(local rate, rate) (g + decay w), w = w - v; no decay where there is no ratio."""

    def _slope(self, weight, lengths, group):
        local = step_rules.larc(lengths[0], lengths[1], group["trust"], group["weight_decay"])
        rate = _either(lengths, local.clamp(max=group["lr"]), group["lr"])
        decay = _either(lengths, torch.full_like(local, group["weight_decay"]), 0.0)
        return rate * (weight.grad + decay * weight)


def made(name, parameters):
    """Make an optimizer by its name, with the settings above."""
    kind = {"sgd": torch.optim.SGD, "lars": Lars, "larc": Larc}[name]
    return kind(parameters, **SETTINGS[name])
