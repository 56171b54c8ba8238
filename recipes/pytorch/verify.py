"""Prove that this image's PyTorch works: train a small network and see the loss fall.

Prints one JSON object; exits 1 when the loss does not fall, or a device does not train as
the CPU does; without a device that is not tried. Standard library and torch only.
"""

import json
import math
import os
import sys

STEPS = 30


def devices(framework):
    """Train on each device beside the CPU, by the probe that images carry beside this file."""
    sys.dont_write_bytecode = True  # a build's test must leave nothing in the image
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe"))
    try:
        import prove_devices
    except ImportError:
        return "not tried", "no probe beside this file"
    return prove_devices.line(framework)


def main():
    import torch

    torch.manual_seed(20190617)
    torch.set_num_threads(1)  # one thread: the same sums in the same order on every machine
    images = torch.randn(64, 3, 16, 16)
    labels = (images.mean(dim=(1, 2, 3)) > 0).long()
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 2),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    falls = all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.05
    state, seen = devices("torch")
    print(
        json.dumps(
            {
                "ok": falls and state != "failed",
                "what": f"{STEPS} training steps",
                "loss_first": round(losses[0], 6),
                "loss_last": round(losses[-1], 6),
                "devices": "{}: {}".format(state, seen),
            },
            sort_keys=True,
        )
    )
    return 0 if falls and state != "failed" else 1


if __name__ == "__main__":
    sys.exit(main())
