"""A small network learns the digits, in PyTorch, on a CPU or an accelerator. Python >= 3.6.

Two layers without biases, 64 - 64 - 10, and tanh between: nothing in it has an edge, so that one
step can be held against the same step in fp64.
"""

import time

import torch

import accelerator
import digits
import lars
import rows

HIDDEN = 64
INPUTS = digits.SIDE * digits.SIDE
SHAPES = ((HIDDEN, INPUTS), (digits.CLASSES, HIDDEN))
# Steps that are held against fp64, and how far a weight may be off, by the largest move.
CHECKED_STEPS, OFF = 3, 1e-4


class Trainer(object):
    """The network, its data and its optimizers; see probe_convergence.py."""

    framework = torch

    def __init__(self, device, threads, training, testing):
        self._on = accelerator.chosen(torch, device)
        accelerator.products_in_full(torch)
        torch.set_num_threads(threads)
        self._device = device
        self._images, self._labels = self._placed(training)
        self._test_images, self._test_labels = self._placed(testing)

    def _placed(self, part):
        images = torch.tensor(part.images, dtype=torch.float32) / digits.LEVELS
        return images.to(self._device), torch.tensor(part.labels).to(self._device)

    def network(self, draws):
        """Make the weights (Glorot's bound) of a training."""
        found = []
        for outer, inner in SHAPES:
            drawn = draws.weights(outer * inner, (6.0 / (outer + inner)) ** 0.5)
            one = torch.tensor(drawn).view(outer, inner).to(self._device)
            found.append(one.requires_grad_())
        return found

    def step(self, weights, rule, number, batch):
        """Train on one batch, its samples by their numbers."""
        picked = torch.tensor(batch, device=self._device)
        said = _said(weights, self._images[picked])
        loss = torch.nn.functional.cross_entropy(said, self._labels[picked])
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for one, gradient in zip(weights, gradients):
                one.grad = gradient
            rate = rule.rate(len(batch), number)
            if rule.trust:
                lars.lars_step(weights, rate, rule.momentum, rule.weight_decay, rule.trust)
            else:
                _sgd_step(weights, rate, rule)

    def timed(self, weights, rule, number, batch):
        """Train on one batch; give the seconds."""
        self._on.settle()
        begin = time.perf_counter()
        self.step(weights, rule, number, batch)
        self._on.settle()
        return time.perf_counter() - begin

    def right(self, weights):
        """Count the images for testing that are told right."""
        with torch.no_grad():
            told = _said(weights, self._test_images).argmax(1)
            return int((told == self._test_labels).sum())

    def check(self, rule, size, draws):
        """Hold some steps against fp64, weight by weight; give how many weights were right."""
        weights = self.network(draws)
        begun = [one.detach().double() for one in weights]
        known, velocities = list(begun), [torch.zeros_like(one) for one in begun]
        for number in range(CHECKED_STEPS):
            batch = draws.batch(size)
            self.step(weights, rule, number, batch)
            for place, gradient in enumerate(self._by_hand(known, batch)):
                weight = known[place]
                before, after = _scales(rule, rule.rate(size, number), weight, gradient)
                moved = before * (gradient + rule.weight_decay * weight)
                velocities[place] = rule.momentum * velocities[place] + moved
                known[place] = weight - after * velocities[place]
        return sum(map(_compared, weights, known, begun))

    def _by_hand(self, weights, batch):
        """Give the gradients by formula."""
        picked = torch.tensor(batch, device=self._device)
        images = self._images[picked].double()
        hidden = torch.tanh(images @ weights[0].t())
        said = torch.softmax(hidden @ weights[1].t(), 1)
        said[torch.arange(len(batch), device=self._device), self._labels[picked]] -= 1.0
        said = said / len(batch)
        inner = (1 - hidden * hidden) * (said @ weights[1])
        return [inner.t() @ images, said.t() @ hidden]


def _scales(rule, rate, weight, gradient):
    """Give what a step is multiplied by before it joins the velocity, and after."""
    if not rule.trust:
        return 1.0, rate
    norm = weight.norm()
    return rate * rule.trust * norm / (gradient.norm() + rule.weight_decay * norm), 1.0


def _said(weights, images):
    return torch.tanh(images @ weights[0].t()) @ weights[1].t()


def _sgd_step(weights, rate, rule):
    """Take a step as torch.optim.SGD does."""
    for one in weights:
        step = one.grad + rule.weight_decay * one
        velocity = getattr(one, "velocity", None)
        one.velocity = step if velocity is None else velocity * rule.momentum + step
        one.sub_(one.velocity, alpha=rate)


def _compared(found, known, begun):
    off = (found.detach().double() - known).abs()
    allowed = OFF * float((known - begun).abs().max())
    # A NaN is not below anything.
    right = int((off <= allowed).sum())
    if right != known.numel():
        raise rows.WrongError(
            "{:,} of {:,} weights are not those of fp64 after {} steps: the farthest is {:.3g} "
            "off, {:.3g} is allowed".format(
                known.numel() - right, known.numel(), CHECKED_STEPS, float(off.max()), allowed
            )
        )
    return right
