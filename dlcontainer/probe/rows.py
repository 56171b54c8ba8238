"""Rows: one thing timed at several settings, in interleaved rounds. Python >= 3.6.

Each row is checked before any time counts. Rounds visit all rows, each round in an order of its
own, so that what comes and goes on a machine meets all of them. Best and median, and beside them
the processor time of this process and of those that it started and that have ended, and what other
guests of the machine took (steal).
"""

import os
import random
import time


class WrongError(Exception):
    """A result is not the known one: no time of it counts."""


def measured(declared, rounds, seed, check, visit):
    """Measure every row; give them as `hand_over.report` takes them.

    `declared` are the parameters of each row, a dict. `check(parameters)` gives how many values
    were right and raises WrongError where one was not; `visit(parameters)` gives the seconds of
    each repetition. All ranks go the same way.
    """
    found = [_Row(parameters, check(parameters)) for parameters in declared]
    for number in range(rounds):
        order = list(found)
        random.Random("{} {}".format(seed, number)).shuffle(order)
        for row in order:
            row.take(visit)
    return [row.said() for row in found]


class _Row(object):
    def __init__(self, parameters, checked):
        self._parameters, self._checked = parameters, checked
        self._times, self._cpu, self._steal = [], 0.0, 0.0

    def take(self, visit):
        """Visit it once more."""
        cpu, steal = spent(), stolen()
        self._times += visit(self._parameters)
        self._cpu += spent() - cpu
        self._steal += max(0.0, stolen() - steal)

    def said(self):
        """Give what is reported."""
        return {
            "parameters": self._parameters,
            "unit": "s",
            "n": len(self._times),
            "best": min(self._times),
            "median": median(self._times),
            "cpu_s": self._cpu,
            "steal_s": self._steal,
            "checked": self._checked,
        }


def median(values):
    """Give the middle value, or the mean of the two in the middle."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def spent():
    """Give the processor time of this process, and of the processes that it has waited for."""
    return time.process_time() + sum(os.times()[2:4])


def stolen(path="/proc/stat"):
    """Give the seconds that a hypervisor has kept from this machine's processors; 0: not said."""
    try:
        with open(path) as file:
            words = file.readline().split()
        return int(words[8]) / float(os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
