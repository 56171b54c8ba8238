"""Prove that this image's Caffe works: fit a line to constant data, see the loss fall.

Prints one JSON object; exits 1 when the loss does not fall, or a device does not train as
the CPU does; without a device that is not tried. Standard library and caffe only. No syntax newer
than Python 3.5, which is what these images may have.
"""

import json
import math
import os
import sys
import tempfile

STEPS = 30

NET = """
name: "line"
layer {
  name: "data" type: "DummyData" top: "data" top: "target"
  dummy_data_param {
    shape { dim: 16 dim: 8 } shape { dim: 16 dim: 1 }
    data_filler { type: "constant" value: 1.0 } data_filler { type: "constant" value: 0.5 }
  }
}
layer {
  name: "product" type: "InnerProduct" bottom: "data" top: "product"
  inner_product_param { num_output: 1 weight_filler { type: "constant" value: 0.2 } }
}
layer {
  name: "loss" type: "EuclideanLoss" bottom: "product" bottom: "target" top: "loss"
}
"""

SOLVER = 'net: "{}" base_lr: 0.01 lr_policy: "fixed" max_iter: {} solver_mode: CPU random_seed: 1\n'


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
    os.environ.setdefault("GLOG_minloglevel", "2")
    import caffe

    folder = tempfile.mkdtemp()
    net = os.path.join(folder, "net.prototxt")
    solver = os.path.join(folder, "solver.prototxt")
    with open(net, "w") as file:
        file.write(NET)
    with open(solver, "w") as file:
        file.write(SOLVER.format(net, STEPS))
    caffe.set_mode_cpu()
    trained = caffe.SGDSolver(solver)
    losses = []
    for _ in range(STEPS):
        trained.step(1)
        losses.append(float(trained.net.blobs["loss"].data))
    falls = all(map(math.isfinite, losses)) and losses[-1] < losses[0] / 2
    state, seen = devices("caffe")
    print(
        json.dumps(
            {
                "ok": falls and state != "failed",
                "what": "{} training steps".format(STEPS),
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
