"""Prove that this image's MXNet works: train a small network with Gluon, see the loss fall.

Prints one JSON object; exits 1 when the loss does not fall, or a device does not train as
the CPU does; without a device that is not tried. Standard library and mxnet only.
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
    # Read when the library is loaded; one thread: the same sums in the same order in every run.
    os.environ["OMP_NUM_THREADS"] = "1"
    import mxnet as mx

    gluon, nd = mx.gluon, mx.nd
    mx.random.seed(20190617)
    images = nd.random.normal(shape=(64, 3, 16, 16))
    labels = images.mean(axis=(1, 2, 3)) > 0
    model = gluon.nn.HybridSequential()
    model.add(
        gluon.nn.Conv2D(8, 3, padding=1, activation="relu"),
        gluon.nn.GlobalAvgPool2D(),
        gluon.nn.Flatten(),
        gluon.nn.Dense(2),
    )
    model.initialize(mx.init.Xavier())
    model.hybridize()
    wanted = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(
        model.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9}
    )
    losses = []
    for _ in range(STEPS):
        with mx.autograd.record():
            loss = wanted(model(images), labels).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    falls = all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.05
    state, seen = devices("mxnet")
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
