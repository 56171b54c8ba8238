"""Ranks that train one PyTorch network by a parallel strategy (`--parallel`). Python >= 3.6.

dp alone is DistributedDataParallel; anything else is parallel_torch.py's. What of the weights a
rank holds is its part; ranks of one part hold the same, and `moved` says it of each part.
"""

import sys

import accelerator
import parallel_plans
import parallel_torch
import probe_train
import train_torch_ddp


class Trainer(train_torch_ddp.Trainer):
    """One rank of a strategy; see probe_train.py."""

    def __init__(self, wanted):
        axes = self._axes = wanted.axes
        self._places, self._net, self._wanted = axes.at(wanted.place.rank), None, wanted
        # Of a network that is whole on each rank: counted when it is asked for.
        self.whole_bytes = 0
        super(Trainer, self).__init__(wanted)
        self.shares = axes.shares

    def _home(self):
        # A network that is cut may be too large for one device.
        return self.device if self._axes.is_plain else accelerator.CPU

    def _require(self, torch, wanted):
        problem = parallel_torch.lacking(torch.__version__, self._axes)
        if not problem and self.device == accelerator.CPU:
            problem = parallel_torch.faulty(torch.__version__, self._axes)
        if problem:
            sys.exit("--parallel {}: {}".format(self._axes.name, problem))
        if wanted.micro_batches == 0:
            wanted.micro_batches = 2 * self._axes["pp"] if self._axes["pp"] > 1 else 1
        super(Trainer, self)._require(torch, wanted)

    def _work(self, torch, wanted):
        work = super(Trainer, self)._work(torch, wanted)
        axes, count = self._axes, wanted.micro_batches
        if wanted.batch % count:
            sys.exit(
                "--parallel {}: a batch of {} can't be divided by {} micro-batches".format(
                    axes.name, wanted.batch, count
                )
            )
        # Of the whole network: ranks are going to have different parts of it.
        self.normalizes = parallel_torch.normalizes(torch, work.model)
        if axes["pp"] > 1:
            import parallel_stages

            plan = parallel_plans.of(work.model, wanted.workload)
            plan.blocks(work.model, axes["pp"])
            parallel_stages.hold(work.model, plan, work.images[0][:1].to(self._home()))
        return work

    def _together(self, wanted):
        if self._axes.is_plain:
            return self._wrapped(self._model)
        self.whole_bytes = sum(
            one.numel() * one.element_size() for one in self._model.parameters()
        )
        self._mesh = parallel_torch.mesh(self._axes, self.device)
        self._net = self._cut(self._model, self._loss, wanted)
        self._net.rebind(self._optimizer)
        return self._net.model

    def _cut(self, model, loss, wanted):
        """Cut a whole network, on the CPU, for this rank."""
        return parallel_torch.Parallel(
            self.framework, model, loss, self._mesh, self._axes, self._places, self.device,
            wanted.micro_batches, wanted.workload,
        )  # fmt: skip

    def step(self, number):
        """Train on one batch."""
        if self._net is None:
            super(Trainer, self).step(number)
            return
        self._optimizer.zero_grad()
        images, labels = self._batch(number)
        loss = self._net.passes(images, labels, self._precision)
        self._optimizer.step()
        self._kept.append(loss)
        self._on.end_step()

    def losses(self):
        """Give the losses of all steps, warm-up included; all stages have the last one's."""
        if self._axes["pp"] == 1 or not self._kept:
            return super(Trainer, self).losses()
        torch, group = self.framework, self._mesh["pp"].get_group()
        losses = torch.stack([loss.reshape(()).to(self.device) for loss in self._kept])
        last = torch.distributed.get_process_group_ranks(group)[-1]
        torch.distributed.broadcast(losses, last, group=group)
        return losses.tolist()

    def movement(self, before):
        """Say how each part of the weights moved that this rank holds; other ranks may too."""
        return {
            part: probe_train.movement(before[part], now) for part, now in self.weights().items()
        }

    def weights(self):
        """Give all weights that are trained, by the part that holds them."""
        if self._net is None:
            return {"all": super(Trainer, self).weights()}
        held = {}
        for _, parameter in self._net.parameters():
            cut = hasattr(parameter, "to_local")
            numbers = parallel_torch.local(parameter.detach()).flatten().tolist()
            held.setdefault(self._part(parameter if cut else None), []).extend(numbers)
        return held

    def _part(self, cut):
        """Name a part, by this rank's places along the axes that cut it."""
        axes = ["pp"] if self._axes["pp"] > 1 else []
        if cut is not None:
            axes += [axis for axis in cut.device_mesh.mesh_dim_names if axis in ("tp", "fsdp")]
        words = ["{}{}".format(axis, self._places[axis]) for axis in axes if self._axes[axis] > 1]
        return " ".join(words) or "all"

    def gate(self, wanted):
        """Hold this training against one process; see parallel_gate.py."""
        import parallel_gate

        gate = parallel_gate.held(self, wanted)
        probe_train.stamp("gate")
        return gate

    def gated(self, work):
        """Give what the gate trains: these ranks' network, or a smaller one that is cut alike."""
        if self._net is not None:
            return self._net if work is None else self._cut(work.model, work.loss, self._wanted)
        model = self._model if work is None else self._wrapped(work.model.to(self.device))
        return Copies(model, self._loss if work is None else work.loss)

    def state(self):
        """Give the weights and buffers that this rank holds."""
        return list(self._model.parameters()) + list(self._model.buffers())

    def floats(self, losses):
        """Give losses as numbers; all stages have the last one's."""
        kept, self._kept = self._kept, losses
        try:
            return self.losses()
        finally:
            self._kept = kept

    def free_bytes(self):
        """Give the memory that one process can have on this device; None where nobody says."""
        return self._on.free_bytes()


class Copies(object):
    """Copies of a whole network that average their gradients, as the gate trains them."""

    def __init__(self, model, loss):
        self.model, self._loss = model, loss

    def parameters(self):
        """Give the parameters by the names that the network has for them."""
        for name, parameter in self.model.named_parameters():
            yield name[7:] if name.startswith("module.") else name, parameter

    def passes(self, images, labels):
        """Run forward and backward on a batch; give its loss, detached."""
        loss = self._loss(self.model(images), labels)
        loss.backward()
        return loss.detach()

    def laid(self, _name, value):
        """Give a weight of the whole network as it lies here."""
        return value
