"""A small transformer with a parallel_plan, as a user's own `--script`; and wrong trainings of it.

`dlcontainer bench train --script benchmarks/hybrid/hybrid_network.py:build` trains it. With
PLANT=NAME in the environment the ranks that load it train wrongly in the way of that name: for
benchmarks/hybrid_gate.py and the tests, which show that the gate refuses each.
"""

import os
from typing import ClassVar

import torch
from torch import nn

WIDTH, HEADS, LAYERS, WORDS, PLACES, SAMPLES = 32, 4, 4, 50, 16, 8


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        normed = self.first(x)
        parts = [
            layer(normed).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        ]
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.relu(self.wide(self.second(x))))


class Network(nn.Module):
    """Tokens in, logits of each next token out: embedding, blocks, head, in this order."""

    parallel_plan: ClassVar = {
        "tensor": {
            **{f"blocks.*.{name}": "column" for name in ("q", "k", "v", "wide")},
            **{f"blocks.*.{name}": "row" for name in ("o", "narrow")},
        },
        "heads": HEADS,
        "stages": "blocks",
    }

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return self.head(self.blocks(self.embed(tokens)))


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Give the mean cross-entropy."""
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def build() -> tuple:
    """Give model, optimizer, sample and loss."""
    plant(os.environ.get("PLANT", ""), int(os.environ.get("DLC_RANK") or 0))
    model = Network()
    sample = torch.randint(0, WORDS, (SAMPLES, PLACES)), torch.randint(0, WORDS, (SAMPLES, PLACES))
    return model, torch.optim.AdamW(model.parameters(), 1e-3), sample, loss


_planted = []


def plant(name: str, rank: int) -> None:
    """Change how this process trains; once, and on the ranks that the plant is of."""
    if not name or _planted:
        return
    _planted.append(name)
    import parallel_torch

    WRONG[name](parallel_torch.Parallel, rank)


def _after_average(kind, act) -> None:
    average = kind._average

    def changed(self):
        before = [parallel_local(p.grad).clone() for _, p in self.parameters()]
        average(self)
        act(self, before)

    kind._average = changed


def parallel_local(tensor):
    """Give this rank's part of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _summed(kind, _rank) -> None:
    def act(self, _before):
        for _, p in self.parameters():
            parallel_local(p.grad).mul_(self.axes["dp"])

    _after_average(kind, act)


def _not_averaged(kind, _rank) -> None:
    kind._average = lambda _self: None


def _one_not_averaged(kind, _rank) -> None:
    def act(self, before):
        _, p = next(iter(self.parameters()))
        parallel_local(p.grad).copy_(before[0])

    _after_average(kind, act)


def _passes(kind, change) -> None:
    passes, seen = kind.passes, []

    def changed(self, images, labels, precision=None):
        seen.append((images, labels))
        return passes(self, *change(seen), precision)

    kind.passes = changed


def _micro_twice(kind, _rank) -> None:
    def change(seen):
        images, labels = seen[-1]
        half = len(images) // 2
        if len(seen) != 3:
            return images, labels
        return torch.cat([images[:half]] * 2), torch.cat([labels[:half]] * 2)

    _passes(kind, change)


def _stale(kind, rank) -> None:
    # Of the ranks of one stream alone: the second half.
    if rank >= int(os.environ["DLC_RANKS"]) // 2:
        _passes(kind, lambda seen: seen[-2] if len(seen) == 3 else seen[-1])


def _skipped(_kind, rank) -> None:
    if rank == 1:
        step, count = torch.optim.SGD.step, []

        def changed(self, *words):
            count.append(1)
            return None if len(count) == 3 else step(self, *words)

        torch.optim.SGD.step = changed


def _no_momentum(_kind, rank) -> None:
    if rank == 1:
        make = torch.optim.SGD.__init__

        def changed(self, *words, **named):
            make(self, *words, **{**named, "momentum": 0.0})

        torch.optim.SGD.__init__ = changed


def _reversed(_kind, _rank) -> None:
    import parallel_stages

    make = parallel_stages.Stage.__init__

    def changed(self, model, plan, number, stages):
        make(self, model, plan, number, stages)
        if number == stages - 1:
            model.blocks = nn.ModuleDict(reversed(list(model.blocks.items())))

    parallel_stages.Stage.__init__ = changed


def _after_cut(kind, act) -> None:
    make = kind.__init__

    def changed(self, *words):
        make(self, *words)
        with torch.no_grad():
            act(self)

    kind.__init__ = changed


def _shifted(kind, _rank) -> None:
    def act(self):
        if self.places["tp"] == 1:
            for name, p in self.parameters():
                if name.endswith("wide.weight"):
                    own = parallel_local(p.detach())
                    own.copy_(own.roll(1, 0))

    _after_cut(kind, act)


def _other_start(kind, _rank) -> None:
    def act(self):
        if self.places["tp"] == 1:
            for name, p in self.parameters():
                if "first" in name:
                    parallel_local(p.detach()).add_(0.01)

    _after_cut(kind, act)


def _micro_summed(kind, _rank) -> None:
    made = kind._piped

    def changed(self, images, labels):
        own, self.loss = self.loss, lambda said, wanted: loss(said, wanted) * self.micro_batches
        try:
            return made(self, images, labels)
        finally:
            self.loss = own

    kind._piped = changed


def _alone(_kind, _rank) -> None:
    parallel = nn.parallel.DistributedDataParallel

    def begin(self, module, **_named):
        nn.Module.__init__(self)
        self.module = module

    parallel.__init__ = begin
    parallel.forward = lambda self, *given: self.module(*given)


WRONG = {
    "summed": _summed,
    "not averaged": _not_averaged,
    "one not averaged": _one_not_averaged,
    "micro twice": _micro_twice,
    "micro summed": _micro_summed,
    "stale": _stale,
    "skipped": _skipped,
    "no momentum": _no_momentum,
    "reversed": _reversed,
    "shifted": _shifted,
    "other start": _other_start,
    "alone": _alone,
}
