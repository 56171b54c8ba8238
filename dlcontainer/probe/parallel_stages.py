"""A stage of a pipeline: a network's blocks of one rank, with its ends. Python >= 3.6."""

import torch
from torch import nn

import parallel_plans


class Stage(nn.Module):
    """The part of a network that one stage runs; the rest of it is taken out."""

    def __init__(self, model, plan, number, stages):
        super(Stage, self).__init__()
        name = str(plan.given["stages"])
        begin, end = plan.ends(model)
        _hold_apart(model, name, end, plan.name)
        blocks = getattr(model, name)
        named = list(blocks.named_children())
        share = len(named) // stages
        own = named[number * share : (number + 1) * share]
        is_first, is_last = number == 0, number == stages - 1
        setattr(model, name, nn.ModuleDict(own))
        for child in [child for child, _ in model.named_children() if child != name]:
            if not (is_last if child in end else is_first):
                # Named still, and nothing of it is left.
                setattr(model, child, None)
        if not is_first:
            for parameter in [parameter for parameter, _ in model.named_parameters(recurse=False)]:
                setattr(model, parameter, None)
        self.whole = model
        self._blocks, self._begin, self._end = name, begin if is_first else [], end * is_last

    def forward(self, x):
        for name in self._begin:
            x = getattr(self.whole, name)(x)
        for block in getattr(self.whole, self._blocks).values():
            x = block(x)
        for name in self._end:
            x = getattr(self.whole, name)(x)
        return x


def _hold_apart(model, blocks, end, name):
    """Refuse a parameter that two stages would train; raises PlanError."""
    owners = {}
    for key, parameter in model.named_parameters(remove_duplicate=False):
        top = key.split(".")[0]
        place = key.split(".")[1] if top == blocks else "end" if top in end else "begin"
        owner = owners.setdefault(id(parameter), (place, key))
        if owner[0] != place:
            raise parallel_plans.PlanError(
                "{}: {} and {} are one parameter, and pipeline stages would each train their "
                "own".format(name, owner[1], key)
            )


def hold(model, plan, sample):
    """Refuse a plan by which the network says something else; raises PlanError."""
    trained = model.training
    model.eval()
    try:
        with torch.no_grad():
            wanted = model(sample)
            begin, end = plan.ends(model)
            x = sample
            for name in begin:
                x = getattr(model, name)(x)
            for _, block in getattr(model, str(plan.given["stages"])).named_children():
                x = block(x)
            for name in end:
                x = getattr(model, name)(x)
    finally:
        model.train(trained)
    same = isinstance(wanted, torch.Tensor) and isinstance(x, torch.Tensor)
    if not same or x.shape != wanted.shape or not torch.allclose(x, wanted, atol=1e-5):
        raise parallel_plans.PlanError(
            "parallel_plan of {}: {}, then the blocks of {!r}, then {} don't give what the "
            "network's forward gives".format(
                plan.name, ", ".join(begin) or "nothing", plan.given["stages"],
                ", ".join(end) or "nothing",
            )
        )  # fmt: skip
