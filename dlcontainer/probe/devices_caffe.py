"""Caffe's GPUs: those of a build with CUDA. Syntax of Python 3.5."""

import os
import shutil
import tempfile

import caffe

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
SOLVER = 'net: "{}" base_lr: 0.01 lr_policy: "fixed" max_iter: {} random_seed: 1\n'
GPUS = "/proc/driver/nvidia/gpus"


class Devices(object):
    """See prove_devices.py."""

    def names(self):
        """Give the devices that can be set: a build without CUDA ends the process that sets one."""
        if not os.path.exists(GPUS) or not _has_cuda():
            return []
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            ids = [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
        else:
            ids = os.listdir(GPUS)
        return ["GPU {}".format(index) for index in range(len(ids))]

    def losses(self, index, steps):
        """Train on a device, or on the CPU; give the losses."""
        folder = tempfile.mkdtemp()
        try:
            return self._trained(folder, index, steps)
        finally:
            caffe.set_mode_cpu()
            shutil.rmtree(folder, ignore_errors=True)

    def _trained(self, folder, index, steps):
        net, solver = os.path.join(folder, "net.prototxt"), os.path.join(folder, "solver.prototxt")
        with open(net, "w") as file:
            file.write(NET)
        with open(solver, "w") as file:
            file.write(SOLVER.format(net, steps))
        if index is None:
            caffe.set_mode_cpu()
        else:
            caffe.set_device(index)
            caffe.set_mode_gpu()
        trained, losses = caffe.SGDSolver(solver), []
        for _ in range(steps):
            trained.step(1)
            losses.append(float(trained.net.blobs["loss"].data))
        return losses


def _has_cuda():
    try:
        with open("/proc/self/maps", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return "libcudart" in text or "libcublas" in text
