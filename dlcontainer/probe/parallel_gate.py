"""Do ranks of a strategy train what one process trains? Held before a time counts. Python >= 3.6.

Six steps of SGD with momentum in fp32, from the same weights, on the same samples: by all ranks in
the way that their steps are timed, and by one process (rank 0's) that adds up the gradients of the
same micro-batches. Each rank holds its losses and its part of the weights against that process's;
running statistics of normalizations are not compared. Adam would hide a gradient that was added up
and not averaged. Micro-batches of the gate are small, to cost little: one sample, or two where a
network normalizes over them.
"""

import json

import parallel_torch

STEPS, TOLERANCE = 6, 1e-5
# At which a wrong gradient shows in six steps, and rounding doesn't.
RATE, MOMENTUM = 0.01, 0.9
# Of memory that is free, what one process may take: weights, gradients, momentum, and as much for
# what is computed.
_SHARES = 4


class Reference(object):
    """What one process came to: losses by step and stream, and its weights by their names."""

    def __init__(self, losses, weights):
        self.losses, self.weights = losses, weights


def held(trainer, wanted):
    """Train both ways; give the differences, the same on every rank."""
    meeting = wanted.meeting()
    why = _too_large(trainer, wanted) if wanted.place.rank == 0 else ""
    why = json.loads(meeting.exchange(json.dumps(why))[0])
    small = bool(why) and getattr(trainer.work, "has_small", False)
    if why and not small:
        return {"checked": "nothing", "why": why, "tolerance": TOLERANCE}
    switches = _full_precision(trainer.framework)
    work = trainer.work.smaller() if small else trainer.work
    batches = Batches(trainer, work, wanted)
    before = None if small else _kept(trainer)
    gated = trainer.gated(work) if small else trainer.gated(None)
    loud = _quiet(trainer.framework, gated.model)
    said = {"losses": [], "names": []}
    reference = None
    if wanted.place.rank == 0:
        reference = _one_process(trainer, work, batches, wanted)
        said = {
            "losses": reference.losses,
            "names": [[name, list(value.shape)] for name, value in reference.weights.items()],
        }
    said = json.loads(meeting.exchange(json.dumps(said))[0])
    losses = _ranks(trainer, gated, batches, wanted)
    stream = wanted.axes.stream(wanted.place.rank)
    loss = max(abs(mine - step[stream]) for mine, step in zip(losses, said["losses"]))
    weight, name = _weights_apart(trainer, gated, reference, said["names"], wanted)
    if before is not None:
        _restored(trainer, before)
        for module, share in loud:
            module.p = share
    for holder, value in switches:
        # Of the steps that are timed, as they were.
        holder.allow_tf32 = value
    every = _exchanged(meeting, [loss, weight, name], gated, said["names"])
    return _judged(every, batches, small, wanted)


def _exchanged(meeting, own, gated, names):
    """Give all ranks' differences; a weight that none of them trains is as far as can be."""
    held = [name for name, _ in gated.parameters()]
    own = [_finite(own[0]), _finite(own[1]), own[2], held]
    every = [json.loads(line) for line in meeting.exchange(json.dumps(own))]
    trained = set(name for one in every for name in one[3])
    lost = [name for name, _ in names if name not in trained]
    return [[one[0], _finite(float("inf")), lost[0]] for one in every] if lost else every


def _judged(every, batches, small, wanted):
    far = max(range(len(every)), key=lambda rank: every[rank][1])
    gate = {
        "checked": "build(small=True)" if small else "the network",
        "loss": max(one[0] for one in every),
        "weights": max(one[1] for one in every),
        "tolerance": TOLERANCE,
        "steps": STEPS,
        "reference": "one process that adds up {} micro-batches of {} samples, SGD, fp32".format(
            batches.count * wanted.axes.streams, batches.size
        ),
    }
    gate["ok"] = gate["loss"] <= TOLERANCE and gate["weights"] <= TOLERANCE
    if not gate["ok"]:
        gate["farthest"] = {"rank": far, "weight": every[far][2]}
    return gate


def _finite(number):
    # JSON has no such number, and no comparison may hold it for small.
    return number if number == number and abs(number) < 1e30 else 1e30


def _too_large(trainer, wanted):
    """Say why one process can't hold the whole network; empty where it can."""
    bytes_ = sum(one.numel() * one.element_size() for one in trainer.work.model.parameters())
    bytes_ = trainer.whole_bytes or bytes_
    needed, free = _SHARES * bytes_, trainer.free_bytes()
    if free is None or needed <= free:
        return ""
    return "one process would need {:.1f} GB, and {:.1f} GB are free".format(
        needed / 1e9, free / 1e9
    )


def _full_precision(torch):
    import accelerator

    before = [(holder, holder.allow_tf32) for holder in accelerator.tf32_switches(torch)]
    accelerator.products_in_full(torch)
    accelerator.convolutions_in_full(torch)
    return before


def _quiet(torch, model):
    """Leave out random zeros, of which one process draws others than ranks; give what was left."""
    kind, loud = torch.nn.modules.dropout._DropoutNd, []
    for module in model.modules():
        if isinstance(module, kind):
            loud.append((module, module.p))
            module.p = 0.0
    return loud


class Batches(object):
    """The samples of the gate: each stream's, of each step, the same on every rank."""

    def __init__(self, trainer, work, wanted):
        self._torch, self._work, self._device = trainer.framework, work, trainer.device
        self._seed = wanted.seed + 1000003
        self._streams = wanted.axes.streams
        self.count = max(1, wanted.micro_batches)
        self.size = 2 if trainer.normalizes else 1

    def of(self, step, stream):
        """Give a stream's samples of a step."""
        make = self._torch.Generator()
        make.manual_seed(self._seed + step * self._streams + stream)
        images, labels = self._work.draw(make, self.count * self.size)
        return images.to(self._device), labels.to(self._device)

    def micro(self, step, stream):
        """Give its micro-batches."""
        images, labels = self.of(step, stream)
        for first in range(0, self.count * self.size, self.size):
            yield images[first : first + self.size], labels[first : first + self.size]


def sgd(torch, parameters):
    """Make the gate's optimizer; no step of several tensors at once, whose kinds may differ."""
    return torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM, foreach=False)


def _one_process(trainer, work, batches, wanted):
    torch, streams = trainer.framework, wanted.axes.streams
    model = work.build().to(trainer.device)
    model.train()
    _quiet(torch, model)
    optimizer, losses = sgd(torch, list(model.parameters())), []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append([])
        for stream in range(streams):
            total = 0.0
            for images, labels in batches.micro(step, stream):
                loss = work.loss(model(images), labels) / batches.count
                (loss / streams).backward()
                total += float(loss.detach())
            losses[-1].append(total)
        optimizer.step()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return Reference(losses, weights)


def _ranks(trainer, gated, batches, wanted):
    stream = wanted.axes.stream(wanted.place.rank)
    optimizer = sgd(trainer.framework, [one for _, one in gated.parameters()])
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(gated.passes(*batches.of(step, stream)))
        optimizer.step()
    return trainer.floats(losses)


def _weights_apart(trainer, gated, reference, names, wanted):
    """Hold this rank's weights against the one process's, which rank 0 sends round by name."""
    torch, distributed = trainer.framework, trainer.framework.distributed
    own, worst = dict(gated.parameters()), (0.0, "")
    missing = sorted(set(own) - {name for name, _ in names})
    if missing:
        return float("inf"), missing[0]
    for name, shape in names:
        if reference is not None:
            value = reference.weights[name].clone().contiguous()
        else:
            value = torch.zeros(shape, device=trainer.device)
        distributed.broadcast(value, 0)
        if name not in own:
            continue
        value = gated.laid(name, value)
        mine = parallel_torch.whole(own[name].detach())
        apart = float("inf")
        if mine.shape == value.shape:
            apart = _finite(float((mine - value).abs().max())) if value.numel() else 0.0
        if not apart <= worst[0]:
            worst = apart, name
    return worst


def _kept(trainer):
    """Copy this rank's weights and buffers."""
    return [parallel_torch.local(one.detach()).clone().cpu() for one in trainer.state()]


def _restored(trainer, before):
    with trainer.framework.no_grad():
        for one, old in zip(trainer.state(), before):
            parallel_torch.local(one.detach()).copy_(old)
            if getattr(one, "grad", None) is not None:
                one.grad = None
