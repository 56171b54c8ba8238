"""In which numbers PyTorch computes a step: fp32, or mixed with bf16 or fp16. Python >= 3.6.

bf16 and fp16 by autocast: weights and their updates stay fp32. fp16 with a loss that is scaled by
a factor of its own accord (step_rules.LossScale).
"""

import sys

import accelerator
from step_rules import LossScale

# precision -> flags of /proc/cpuinfo, any of which is arithmetic in it; the session's own table.
# What has none is computed by conversion, and its time says nothing of the device.
FLAGS = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16", "svebf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}


def flags(path="/proc/cpuinfo"):
    """Name what the processor has; nothing where Linux does not say."""
    try:
        with open(path, errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return set(value.split())
    except OSError:
        pass
    return set()


def lacking(torch, name, device):
    """Say why a device has not the precision; empty where it has."""
    if name == "fp32":
        return ""
    if not hasattr(torch, "autocast"):
        return "PyTorch {} has no torch.autocast; 1.10 or newer has".format(torch.__version__)
    if device == "cpu":
        if not FLAGS[name] & flags():
            return "this processor has no arithmetic in it ({})".format(
                ", ".join(sorted(FLAGS[name]))
            )
        return ""
    return accelerator.named(torch, device).lacking(name)


def made(torch, name, device):
    """Give the way to step in a precision; ends the process where the device has it not."""
    problem = lacking(torch, name, device)
    if problem:
        sys.exit("--precision {}: {}".format(name, problem))
    if name == "fp32":
        return Whole()
    return Scaled(torch, device) if name == "fp16" else Mixed(torch, device, torch.bfloat16)


class Whole(object):
    """Steps in fp32."""

    def __enter__(self):
        return self

    def __exit__(self, *_problem):
        return False

    def forward(self):
        """Give the context of the forward pass."""
        return self

    def backward(self, loss, optimizer):
        """Take the gradients, and step."""
        loss.backward()
        optimizer.step()

    def counts(self):
        """Give what was counted."""
        return {}


class Mixed(Whole):
    """Products in a shorter precision, sums and weights in fp32."""

    def __init__(self, torch, device, kind):
        self._torch, self._device, self._kind = torch, device, kind

    def forward(self):
        """Give the context of the forward pass."""
        return self._torch.autocast(self._device, dtype=self._kind)


class Scaled(Mixed):
    """fp16: the loss is scaled, and a step whose gradients are not finite is left out."""

    def __init__(self, torch, device, scale=None):
        super(Scaled, self).__init__(torch, device, torch.float16)
        self.scale = scale or LossScale()

    def backward(self, loss, optimizer):
        """Take the gradients of the scaled loss, and step where all of them are finite."""
        (loss * self.scale.scale).backward()
        finite = []
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.grad.mul_(1.0 / self.scale.scale)
                    finite.append(self._torch.isfinite(weight.grad).all())
        is_finite = bool(self._torch.stack(finite).all())
        if is_finite:
            optimizer.step()
        self.scale.follow(is_finite)

    def counts(self):
        """Give the last scale, and how many steps were left out, warm-up included."""
        return {"loss_scale": self.scale.scale, "skipped_steps": self.scale.skipped}
