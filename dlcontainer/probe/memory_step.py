"""Bytes of a rank under one strategy: its own part of a step, without data, device or other ranks.

A rank trains by parallel_torch.py as in `train --parallel`, on tensors without data and in a
process group that sends nothing. Python >= 3.6.
"""

import contextlib
import time

import memory_build
import memory_torch
import parallel_axes
import parallel_plans
import parallel_torch
import precision_torch


class StrategyError(Exception):
    """This network can't be trained by this strategy; says why."""


def row(torch, wanted, name):
    """Weigh a strategy: the row of the stage that holds most; raises StrategyError, ScriptError."""
    axes, begin = parallel_axes.Axes(name), time.time()
    problem = parallel_torch.lacking(torch.__version__, axes)
    if problem:
        raise StrategyError(problem)
    try:
        stages = [_Rank(torch, wanted, axes, stage).weighed() for stage in range(axes["pp"])]
    except parallel_plans.PlanError as refused:
        raise StrategyError(str(refused))
    most = max(stages, key=lambda stage: stage["peak"])
    return dict(most, strategy=name, seconds=round(time.time() - begin, 3))


class _Agreed(object):
    """What stages agree on before they begin, as newer versions ask of them by sending numbers."""

    def item(self):
        return 1


def _stage_class():
    from torch.distributed import pipelining

    class Told(pipelining.PipelineStage):
        """A stage that is told its shapes, and asks no other stage."""

        def _warmup_forward_vote(self, *_given, **_named):
            return None

        def _warmup_backward_result(self, *_given, **_named):
            return _Agreed()

    return Told


class Alone(parallel_torch.Parallel):
    """A rank's part; of a pipeline a stage that knows the shapes of its neighbours' tensors."""

    shapes = None

    def __init__(self, torch, *given):
        # Tensors without data lie nowhere: where a model is moved, nothing is.
        kept, torch.nn.Module.to = torch.nn.Module.to, lambda model, *_given, **_named: model
        try:
            super(Alone, self).__init__(torch, *given)
        finally:
            torch.nn.Module.to = kept

    def _stage(self):
        number = self.places["pp"]
        given, made = self.shapes[number], self.shapes[number + 1]
        if number:
            given = given.detach().requires_grad_()
        made = made.detach().requires_grad_()
        return _stage_class()(
            self.model, number, self.axes["pp"], self.torch.device("cpu"),
            input_args=(given,), output_args=(made,), group=self.mesh["pp"].get_group(),
        )  # fmt: skip


class _Rank(object):
    """One rank, of the first place along all axes but that of its stage."""

    def __init__(self, torch, wanted, axes, stage):
        self._torch, self._wanted, self._axes, self._stage = torch, wanted, axes, stage
        self._user = wanted.script

    def _watched(self):
        if not self._user:
            return _nothing()
        return memory_build.Watched(self._user, "its step")

    def weighed(self):
        """Give the row of this rank."""
        torch, axes = self._torch, self._axes
        fake = memory_torch.of(memory_torch.FAKE)(allow_non_fake_inputs=True)
        rank = self._stage * (axes.ranks // axes["pp"])
        with memory_torch.Group(torch, rank, axes.ranks), contextlib.ExitStack() as stack:
            mesh = None
            if not axes.is_plain:
                mesh = parallel_torch.mesh(axes, "cpu")
                stack.enter_context(memory_torch.RealMeshes())
            stack.enter_context(fake)
            make = memory_build.of_user if self._user else memory_build.published
            network = make(torch, self._wanted)
            count = self._micro_batches(network)
            for group in network.optimizer.param_groups:
                if self._wanted.device != "cpu" and group.get("foreach", 1) is None:
                    # The optimizer's own choice on a GPU, whose temporaries are a step's peak.
                    group["foreach"] = not group.get("fused")
            net = None if axes.is_plain else self._cut(network, count, mesh)
            parts, peak = self._tracked(network, net)
        if axes.is_plain and axes["dp"] > 1:
            buckets = _buckets(network.model)
            parts["temporary"], peak = parts["temporary"] + buckets, peak + buckets
        return dict(
            parts, peak=peak, batch=network.batch, micro_batches=count, stage=self._stage
        )  # fmt: skip

    def _micro_batches(self, network):
        count = self._wanted.micro_batches or 2 * self._axes["pp"]
        if self._axes["pp"] == 1:
            count = 1
        if network.batch % count:
            raise StrategyError(
                "a batch of {} can't be divided by {} micro-batches".format(network.batch, count)
            )
        return count

    def _cut(self, network, count, mesh):
        """Cut the network for this rank."""
        torch, axes = self._torch, self._axes
        shapes = None
        if axes["pp"] > 1:
            with self._watched():
                shapes = _between(torch, network, axes, count, self._precision())
        net = Alone(
            torch, network.model, network.loss, mesh, axes,
            axes.at(self._stage * (axes.ranks // axes["pp"])), "cpu", count, network.name,
        )  # fmt: skip
        net.shapes = shapes
        net.rebind(network.optimizer)
        return net

    def _precision(self):
        if self._wanted.precision == "bf16":
            return precision_torch.Mixed(self._torch, "cpu", self._torch.bfloat16)
        return precision_torch.Whole()

    def _tracked(self, network, net):
        """Train two steps; the second one's peak is the row's: the optimizer has its state then."""
        import memory_storages

        optimizer, model = network.optimizer, net.model if net else network.model
        storages, precision = memory_storages.Storages(), self._precision()
        parameters = list(model.parameters())
        storages.is_part("parameters", parameters + list(model.buffers()))
        is_last = self._stage == self._axes["pp"] - 1
        sample = [network.inputs] * (self._stage == 0) + [network.targets] * is_last
        storages.is_part("inputs", sample)
        _follow(storages, parameters)
        _tell_passes(storages, model, network if net is None else net, is_last)
        with storages, self._watched():
            for _ in range(2):
                optimizer.zero_grad()
                storages.begin()
                if net is not None:
                    net.passes(network.inputs, network.targets, precision)
                else:
                    with precision.forward():
                        loss = network.loss(network.model(network.inputs), network.targets)
                    loss.backward()
                    del loss
                storages.is_part("gradients", [one.grad for one in parameters])
                optimizer.step()
                state = [kept for of in optimizer.state.values() for kept in of.values()]
                storages.is_part("optimizer", state)
        return storages.parts, storages.peak


def _tell_passes(storages, model, network, is_last):
    """Tell what a forward pass makes, the loss with it, from what all else makes."""

    def begins(*_given):
        storages.phase = "activations"

    def ends(*_given):
        storages.phase = "temporary"

    model.register_forward_pre_hook(begins)
    if not is_last:
        model.register_forward_hook(ends)
    loss = network.loss

    def lost(*given):
        try:
            return loss(*given)
        finally:
            ends()

    network.loss = lost


def _follow(storages, parameters):
    """Tell gradients from what else a backward pass makes, as soon as they are there."""

    def kept(parameter):
        storages.is_part("gradients", [parameter.grad])

    for parameter in parameters:
        if parameter.requires_grad and hasattr(parameter, "register_post_accumulate_grad_hook"):
            parameter.register_post_accumulate_grad_hook(kept)


def _between(torch, network, axes, count, precision):
    """Give a tensor like those that enter each stage, and what the last one gives."""
    model, plan = network.model, parallel_plans.of(network.model, network.name)
    blocks = list(plan.blocks(model, axes["pp"]).children())
    begin, end = plan.ends(model)
    share, x = len(blocks) // axes["pp"], network.inputs[: network.batch // count]
    shapes = [x]
    with torch.no_grad(), precision.forward():
        for name in begin:
            x = getattr(model, name)(x)
        for place, block in enumerate(blocks):
            if place and place % share == 0:
                shapes.append(torch.empty_like(x))
            x = block(x)
        for name in end:
            x = getattr(model, name)(x)
    return shapes + [torch.empty_like(x)]


def _buckets(model):
    """Give the bytes of DistributedDataParallel's buckets: gradients once more, as they are sent."""
    return sum(one.numel() * one.element_size() for one in model.parameters() if one.requires_grad)


@contextlib.contextmanager
def _nothing():
    yield
