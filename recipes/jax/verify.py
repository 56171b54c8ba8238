"""Prove that this image's JAX works: a gradient is NumPy's, and a small network's loss falls.

The gradient of a two-layer network is worked out by hand in NumPy, in float64, and held against
JAX's on the default device; then a convolutional network trains. Prints one JSON object; exits 1
when the gradient is another, the loss does not fall, or a device does not train as the CPU does;
without a device that is not tried. Standard library, jax and numpy only.
"""

import json
import math
import os
import sys

STEPS = 30
# How far a gradient may be from NumPy's, relative to its largest entry: sums of 32 products in
# float32 are some 1e-6 apart, a wrong sign or factor 1.
BOUND = 1e-4
SEED = 20190617


def devices(framework):
    """Train on each device beside the CPU, by the probe that images carry beside this file."""
    sys.dont_write_bytecode = True  # a build's test must leave nothing in the image
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe"))
    try:
        import prove_devices
    except ImportError:
        return "not tried", "no probe beside this file"
    return prove_devices.line(framework)


def apart(jax, np):
    """Give how far JAX's gradient is from NumPy's, relative to its largest entry."""
    make = np.random.RandomState(SEED)
    inputs, first, second = (make.standard_normal(shape) for shape in ((32, 8), (8, 16), (16, 3)))
    targets = make.standard_normal((32, 3))

    def loss(first, second):
        hidden = jax.numpy.tanh(inputs.astype("float32") @ first)
        return ((hidden @ second - targets.astype("float32")) ** 2).mean()

    given = jax.jit(jax.grad(loss, argnums=(0, 1)))(
        first.astype("float32"), second.astype("float32")
    )
    hidden = np.tanh(inputs @ first)
    slope = 2 * (hidden @ second - targets) / targets.size
    by_hand = (inputs.T @ (slope @ second.T * (1 - hidden**2)), hidden.T @ slope)
    off = [np.abs(np.asarray(a) - b).max() / np.abs(b).max() for a, b in zip(given, by_hand)]
    return float(max(off))


def trained(jax, np):
    """Train a convolutional network for some steps; give the losses."""
    make = np.random.RandomState(SEED)
    images = make.standard_normal((64, 3, 16, 16)).astype("float32")
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype("int32")
    weights = {
        "kernel": (make.standard_normal((8, 3, 3, 3)) * 0.3).astype("float32"),
        "scores": (make.standard_normal((8, 2)) * 0.3).astype("float32"),
        "offset": np.zeros(2, "float32"),
    }
    moved = jax.tree.map(np.zeros_like, weights)

    def loss(weights):
        hidden = jax.lax.conv_general_dilated(images, weights["kernel"], (1, 1), "SAME")
        scores = jax.nn.relu(hidden).mean(axis=(2, 3)) @ weights["scores"] + weights["offset"]
        return -jax.nn.log_softmax(scores)[np.arange(64), labels].mean()

    @jax.jit
    def step(weights, moved):
        value, slopes = jax.value_and_grad(loss)(weights)
        moved = jax.tree.map(lambda old, slope: 0.9 * old + slope, moved, slopes)
        weights = jax.tree.map(lambda part, change: part - 0.5 * change, weights, moved)
        return value, weights, moved

    losses = []
    for _ in range(STEPS):
        value, weights, moved = step(weights, moved)
        losses.append(float(value))
    return losses


def main():
    # One thread: the same sums in the same order on every machine. Or JAX takes three quarters of a
    # device's memory for itself. Both are read when its backend starts.
    flags = "--xla_cpu_multi_thread_eigen=false"
    os.environ["XLA_FLAGS"] = "{} {}".format(os.environ.get("XLA_FLAGS", ""), flags).strip()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import numpy as np

    # Full float32: the default lets a device round products to TF32.
    jax.config.update("jax_default_matmul_precision", "highest")
    off = apart(jax, np)
    losses = trained(jax, np)
    falls = all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.05
    state, seen = devices("jax")
    ok = falls and off <= BOUND and state != "failed"
    print(
        json.dumps(
            {
                "ok": ok,
                "what": "{} training steps, and a gradient as NumPy's".format(STEPS),
                "loss_first": round(losses[0], 6),
                "loss_last": round(losses[-1], 6),
                "gradient_apart": float("{:.1e}".format(off)),
                "backend": jax.default_backend(),
                "devices": "{}: {}".format(state, seen),
            },
            sort_keys=True,
        )
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
