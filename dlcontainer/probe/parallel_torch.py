"""A network on this rank's part of a device mesh: stages, tensor shares, shards. Python >= 3.6.

Made by PyTorch alone: DeviceMesh, DTensor (`parallelize_module`), `fully_shard`, 1F1B schedules of
`torch.distributed.pipelining`. Copies beside tensor or pipeline groups average their gradients
after the backward pass, in buckets; copies alone are DistributedDataParallel (train_torch_ddp.py).
"""

import importlib
import inspect

import parallel_plans

# axis -> what of PyTorch it takes, and the first version that has it under this name
NEEDS = {
    "pp": (("torch.distributed.pipelining", "Schedule1F1B", "2.5"),),
    "fsdp": (("torch.distributed.fsdp", "fully_shard", "2.6"),),
    "tp": (("torch.distributed.tensor.parallel", "parallelize_module", "2.5"),),
}
_MESH = ("torch.distributed.device_mesh", "init_device_mesh", "2.3")
# axis -> the first version without a fault that gloo shows, and the fault; tried with 2.7.1, 2.8.0,
# 2.9.1, 2.10.0, 2.11.0 and 2.13.0
GLOO_FAULTS = {
    "pp": ((2, 8), "the first step of a pipeline never ends"),
    "fsdp": ((2, 9), "fully_shard trains wrong weights"),
}
# Bytes of gradients that are averaged in one message: DDP's own bucket.
BUCKET = 25 * 2**20
# Parameters below which a layer is no unit of fully_shard.
UNIT = 100000


def lacking(version, axes):
    """Say which parts of PyTorch a strategy takes that this one is missing; empty where none is."""
    wanted = [] if axes.is_plain else [_MESH]
    for axis in ("tp", "fsdp", "pp"):
        wanted += NEEDS[axis] if axes[axis] > 1 else ()
    for module, name, first in wanted:
        try:
            getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            return "PyTorch {} is missing {}.{}; {} or newer has it".format(
                version, module, name, first
            )
    return ""


def faulty(version, axes):
    """Say which known fault of this PyTorch's gloo a strategy meets; empty where none is."""
    number = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    for axis in sorted(GLOO_FAULTS):
        first, fault = GLOO_FAULTS[axis]
        if axes[axis] > 1 and number < first:
            return "{} over gloo with PyTorch {}; {}.{} or newer is right".format(
                fault, version, *first
            )
    return ""


def mesh(axes, device):
    """Make the mesh of all ranks; neighbours lie along its last axis."""
    from parallel_axes import AXES
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, tuple(axes[axis] for axis in AXES), mesh_dim_names=AXES)


def reordered(tensor, parts, ranks):
    """Lay the rows of parts that stand side by side so that each rank's share lies together."""
    if parts == 1:
        return tensor
    shape = tensor.shape
    rows = tensor.reshape((parts, ranks, shape[0] // (parts * ranks)) + tuple(shape[1:]))
    return rows.transpose(0, 1).reshape(shape)


class Parallel(object):
    """A network of which this rank trains its part; `model` is whole, on the CPU, and is cut."""

    def __init__(self, torch, model, loss, mesh, axes, places, device, micro_batches, name):
        self.torch, self.loss, self.mesh, self.axes = torch, loss, mesh, axes
        self.places, self.device, self.micro_batches = places, device, micro_batches
        self.is_first, self.is_last = places["pp"] == 0, places["pp"] == axes["pp"] - 1
        self.layers, self._schedules = {}, {}
        plan = parallel_plans.of(model, name)
        if axes["tp"] > 1:
            self.layers = plan.layers(model, axes["tp"])
        blocks = plan.blocks(model, axes["pp"]) if axes["pp"] > 1 else None
        before = list(model.named_parameters())
        if blocks is not None:
            import parallel_stages

            model = parallel_stages.Stage(model, plan, places["pp"], axes["pp"])
        self.model = model
        if self.layers:
            self._share_layers()
        if axes["fsdp"] > 1:
            self._shard()
        self.model.to(device)
        after = dict(self.parameters())
        # What an optimizer of the whole network is to train in place of its parameters.
        self.replaced = {id(old): after.get(name) for name, old in before}

    def parameters(self):
        """Give this rank's parameters by the names that the whole network has for them."""
        for name, parameter in self.model.named_parameters():
            yield name[6:] if name.startswith("whole.") else name, parameter

    def _share_layers(self):
        from torch.distributed.tensor import parallel

        styles = {"column": parallel.ColwiseParallel, "row": parallel.RowwiseParallel}
        whole = getattr(self.model, "whole", self.model)
        modules = dict(whole.named_modules())
        for name, (style, parts) in self.layers.items():
            # Of another stage.
            if name not in modules:
                continue
            if style == "column":
                with self.torch.no_grad():
                    for parameter in modules[name].parameters(recurse=False):
                        parameter.copy_(reordered(parameter.clone(), parts, self.axes["tp"]))
            # A plan by names is read wrongly below PyTorch 2.9: it shares others of their last part.
            parallel.parallelize_module(modules[name], self.mesh["tp"], styles[style]())

    def _shard(self):
        import warnings

        from torch.distributed.fsdp import fully_shard

        # Nothing here changes an output in place.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        # Of two axes the first one's ranks have copies, the second one's parts.
        own = self.mesh["dp", "fsdp"] if self.axes["dp"] > 1 else self.mesh["fsdp"]
        for unit in units(getattr(self.model, "whole", self.model)):
            fully_shard(unit, mesh=own)
        fully_shard(self.model, mesh=own)

    def rebind(self, optimizer):
        """Hand an optimizer of the whole network this rank's parameters; give it."""
        groups = []
        for group in optimizer.param_groups:
            kept = [self.replaced.get(id(one)) for one in group["params"]]
            # Those of several devices' layouts can't be stepped in one call.
            kinds = {}
            for one in kept:
                if one is not None:
                    kinds.setdefault(type(one).__name__ + _layout(one), []).append(one)
            for name in sorted(kinds):
                groups.append(dict(group, params=kinds[name]))
        optimizer.param_groups[:] = groups
        return optimizer

    def laid(self, name, value):
        """Give a weight of the whole network as it lies here: with the rows of its parts moved."""
        style, parts = self.layers.get(name.rpartition(".")[0], ("row", 1))
        return reordered(value, parts, self.axes["tp"]) if style == "column" else value

    def passes(self, images, labels, precision=None):
        """Run forward and backward on a batch; give its loss, detached, 0 where there is none."""
        forward = precision.forward if precision else self.torch.enable_grad
        if self.axes["pp"] > 1:
            with forward():
                loss = self._piped(images, labels)
        else:
            with forward():
                loss = self.loss(self.model(images), labels)
            loss.backward()
            loss = loss.detach()
        if self.axes["dp"] > 1 and self.axes["fsdp"] == 1:
            self._average()
        return loss

    def _piped(self, images, labels):
        schedule, losses = self._schedule(tuple(images.shape)), []
        if self.is_first and self.is_last:
            raise ValueError("a pipeline of one stage")
        if self.is_first:
            schedule.step(images)
        elif self.is_last:
            schedule.step(target=labels, losses=losses)
        else:
            schedule.step()
        # Each is its share of the mean.
        return sum(loss.detach() for loss in losses) if losses else self.torch.zeros(())

    def _schedule(self, shape):
        # What a stage sends has one size, that of the first batch that it saw: the gate's samples
        # are shorter than those that are timed, and may be as many.
        if shape not in self._schedules:
            from torch.distributed import pipelining

            kind, more = pipelining.Schedule1F1B, {}
            if "scale_grads" in inspect.signature(kind).parameters:
                # Older ones add the gradients up: all of them are handed losses that are shares.
                more["scale_grads"] = False
            count = self.micro_batches
            self._schedules[shape] = kind(
                self._stage(), count, loss_fn=lambda said, labels: self.loss(said, labels) / count,
                **more
            )  # fmt: skip
        return self._schedules[shape]

    def _stage(self):
        """Make this rank's stage of the pipeline."""
        from torch.distributed import pipelining

        return pipelining.PipelineStage(
            self.model, self.places["pp"], self.axes["pp"], self.torch.device(self.device),
            group=self.mesh["pp"].get_group(),
        )  # fmt: skip

    def _average(self):
        """Average the gradients of the copies, a bucket at a time."""
        distributed = self.torch.distributed
        group, bucket, size = self.mesh["dp"].get_group(), [], 0
        grads = [local(one.grad) for _, one in self.parameters() if one.grad is not None]
        for place, grad in enumerate(grads):
            bucket.append(grad)
            size += grad.numel() * grad.element_size()
            following = grads[place + 1] if place + 1 < len(grads) else None
            if size < BUCKET and following is not None and following.dtype == grad.dtype:
                continue
            flat = self.torch.cat([one.reshape(-1) for one in bucket])
            distributed.all_reduce(flat, group=group)
            flat /= self.axes["dp"]
            begin = 0
            for one in bucket:
                one.copy_(flat[begin : begin + one.numel()].view_as(one))
                begin += one.numel()
            bucket, size = [], 0


def normalizes(torch, model):
    """Tell whether a network normalizes over the samples of a batch."""
    norms = torch.nn.modules.batchnorm._BatchNorm
    return any(isinstance(one, norms) for one in model.modules())


def local(tensor):
    """Give the part of a tensor that this rank has."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def whole(tensor):
    """Give all of a tensor whose parts ranks have; each of them must ask for it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _layout(parameter):
    return str(getattr(parameter, "device_mesh", ""))


def units(model):
    """Give the modules whose parameters are gathered together; the root gathers all others.

    They are the blocks that a plan names, else direct children of some size.
    """
    name = getattr(model, "parallel_plan", {}).get("stages")
    if name and getattr(model, str(name), None) is not None:
        return [block for _, block in getattr(model, str(name)).named_children()]
    return [
        child
        for child in model.children()
        # What has no forward of its own is no unit.
        if type(child).__name__ not in ("ModuleList", "ModuleDict")
        and sum(one.numel() for one in child.parameters()) >= UNIT
    ]
