"""Prove that this image's TensorFlow works: train a small network with Keras, see the loss fall.

Prints one JSON object; exits 1 when the loss does not fall, or a device does not train as
the CPU does; without a device that is not tried. Standard library and tensorflow only.
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
    import tensorflow as tf

    # One thread and the same kernels: the same sums in the same order in every run.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(20190617)
    tf.config.experimental.enable_op_determinism()
    images = tf.random.stateless_normal((64, 16, 16, 3), seed=(2019, 617))
    labels = tf.cast(tf.reduce_mean(images, axis=(1, 2, 3)) > 0, tf.int32)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.5, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    # The whole batch at each step: an epoch is a step.
    past = model.fit(images, labels, batch_size=64, epochs=STEPS, shuffle=False, verbose=0)
    losses = [float(loss) for loss in past.history["loss"]]
    falls = all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.05
    state, seen = devices("tensorflow")
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
