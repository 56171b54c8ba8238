"""The convergence probe: steps and seconds until a small network knows digits. Python >= 3.6.

A row is one training, of one optimizer with one batch from one seed. It takes all steps; its time
is theirs, without the tests between them. Beside it stand the step and the seconds at which enough
images of the test part were told right for the first time (or that they never were), and how many
were at the end. The framework is a module convergence_NAME.py with a class Trainer, made from
(device, threads, training, testing):
- `framework`: the module that is attested.
- `network(draws)`: the weights of a training.
- `timed(weights, rule, number, batch)`: train on one batch; the seconds.
- `right(weights)`: how many images for testing are told right.
- `check(rule, size, draws)`: hold some steps against fp64, give how many weights were right; raises
  rows.WrongError.
"""

import argparse
import hashlib
import importlib
import json
import time

import accelerator
import digits
import hand_over
import rows

FRAMEWORKS = ("torch",)


class Rule(object):
    """An optimizer's settings, as they were declared.

    The rate is `rate` (batch / `batch`)^`exponent` (1 - step / steps)^`decay`; `trust` 0 is SGD.
    """

    NAMES = ("batch", "decay", "exponent", "momentum", "rate", "trust", "weight_decay")

    def __init__(self, declared, steps):
        if tuple(sorted(declared)) != self.NAMES:
            raise ValueError("--rules: each has {}".format(", ".join(self.NAMES)))
        self._declared, self._steps = declared, steps
        self.momentum, self.trust = declared["momentum"], declared["trust"]
        self.weight_decay = declared["weight_decay"]

    def rate(self, size, number):
        """Give the rate of a step, counted from 0, with a batch of this size."""
        known = self._declared
        largest = known["rate"] * (float(size) / known["batch"]) ** known["exponent"]
        return largest * (1.0 - float(number) / self._steps) ** known["decay"]


class Trainings(object):
    """All trainings of a launch, and what came of each."""

    def __init__(self, wanted, trainer, samples, tested):
        self._wanted, self._trainer = wanted, trainer
        self._samples, self._tested = samples, tested
        self._rules = {name: Rule(one, wanted.steps) for name, one in wanted.rules.items()}
        self._outcomes, self._digests = {}, {}

    def listed(self):
        """List the rows, in the order that the session declared."""
        return [
            {"optimizer": optimizer, "batch": size, "seed": seed}
            for optimizer in self._wanted.optimizers.split(",")
            for size in map(int, self._wanted.batches.split(","))
            for seed in range(1, self._wanted.seeds + 1)
        ]

    def check(self, row):
        """Hold the row's first steps against fp64."""
        try:
            return self._trainer.check(self._rules[row["optimizer"]], row["batch"], self._draws(row))
        except rows.WrongError as problem:
            raise rows.WrongError("{}: {}".format(_named(row), problem))

    def visit(self, row):
        """Train; give the seconds of all steps."""
        wanted, rule, draws = self._wanted, self._rules[row["optimizer"]], self._draws(row)
        weights, spent, first, curve = self._trainer.network(draws), 0.0, None, []
        for number in range(wanted.steps):
            batch = draws.batch(row["batch"])
            spent += self._trainer.timed(weights, rule, number, batch)
            right = self._trainer.right(weights)
            if first is None and 100.0 * right >= wanted.target * self._tested:
                first = {"steps": number + 1, "seconds": spent}
            if (number + 1) % wanted.every == 0:
                curve.append(right)
        reached = "yes" if first else "not reached within {} steps".format(wanted.steps)
        outcome = {"reached": reached, "right": right, "tested": self._tested, "curve": curve}
        self._outcomes[_named(row)] = dict(outcome, **(first or {}))
        self._digests[_named(row)] = draws.digest()
        return [spent]

    def _draws(self, row):
        # Neither the batch nor the optimizer: a seed is the same training for all of them.
        return digits.Draws("{} {}".format(self._wanted.seed, row["seed"]), self._samples)

    def outcome(self, row):
        """Say what came of a row."""
        return self._outcomes[_named(row)]

    def drawn(self):
        """Give one digest of all weights and orders that were drawn, in the order of the rows."""
        each = "".join(self._digests[_named(row)] for row in self.listed())
        return hashlib.sha256(each.encode("ascii")).hexdigest()


def _named(row):
    return "{optimizer}, batch {batch}, seed {seed}".format(**row)


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe convergence")
    parser.add_argument("--data", required=True, help="the folder of " + digits.FILE)
    parser.add_argument("--sha256", required=True, help="that of the file")
    parser.add_argument("--optimizers", required=True, help="with commas between")
    parser.add_argument("--batches", required=True, help="with commas between")
    parser.add_argument("--seeds", type=int, required=True, help="how many")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--every", type=int, required=True, help="steps between points of curves")
    parser.add_argument("--target", type=float, required=True, help="percent")
    parser.add_argument("--rules", type=json.loads, required=True, help="{OPTIMIZER: {...}}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=accelerator.DEVICES, default="cpu")
    parser.add_argument("--framework", choices=FRAMEWORKS, default=FRAMEWORKS[0])
    return parser.parse_args(arguments)


def run(arguments, stamps):
    """Train and report; `stamps` are those of this process until now, ns."""
    wanted = options(arguments)
    module = importlib.import_module("convergence_" + wanted.framework)
    stamps["import"] = _now()
    training, testing = digits.read(wanted.data, wanted.sha256)
    trainer = module.Trainer(wanted.device, wanted.threads, training, testing)
    trainings = Trainings(wanted, trainer, len(training), len(testing))
    stamps["data"] = _now()
    listed, checked = trainings.listed(), {}
    for row in listed:
        checked[_named(row)] = trainings.check(row)
    stamps["checked"] = _now()
    begin = time.perf_counter()
    found = rows.measured(
        listed, 1, wanted.seed, lambda row: checked[_named(row)], trainings.visit
    )
    values = {"wall_s": time.perf_counter() - begin}
    stamps["rows"] = _now()
    found = [dict(row, outcome=trainings.outcome(row["parameters"])) for row in found]
    hand_over.report(
        "convergence", stamps, values, _workload(wanted, trainings), rows=found,
        framework=module.Trainer.framework,
    )  # fmt: skip


def _workload(wanted, trainings):
    """Say what was run: it is attested, and so is what was drawn."""
    names = (
        "optimizers", "batches", "seeds", "steps", "every", "target", "seed", "device", "framework"
    )  # fmt: skip
    work = {name: getattr(wanted, name) for name in names}
    return dict(work, data=wanted.sha256, drawn=trainings.drawn())


def _now():
    return int(time.time() * 1e9)
