"""Machines to simulate: what is true, and how long each launch takes there (NumPy)."""

import math
from dataclasses import dataclass, replace

import numpy

from benchmarks.regressions import Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A machine, and what is true: logs of factors; `sd` is that of a pair's d without outliers.

    `drift` is over the planned session; `ar` the correlation of neighbouring launches; a launch
    is an outlier with the probability `outliers` and then takes `far` longer. What belongs to one
    arm: `own_ar`, the correlation of each arm's launches among themselves, in place of `ar`;
    `carry`, what a container leaves to the launch after it; `slow`, the share of container
    launches that take `slower` times as long, their mean taken out; `placement`, the sd between
    sessions of what stays for all of a session; `own_drift` that of the factor by which an arm
    changes evenly over the planned session, 1 in its middle. `kernels` is the sd of a pair's d in a
    calibration kernel, which knows of none of these.
    """

    truth: float = 1.0
    sd: float = 0.01
    drift: float = 0.03
    ar: float = 0.5
    outliers: float = 0.03
    far: float = 0.05
    second: float = 0.01
    own_ar: float = 0.0
    carry: float = 0.0
    slow: float = 0.0
    slower: float = 1.5
    placement: float = 0.0
    own_drift: float = 0.0
    kernels: float = 0.02


def launches(world: World, sessions: int, launched: str, random: numpy.random.Generator) -> Floats:
    """Draw the logs of the launches' times, in their order: what is shared, and each arm's own."""
    count, arms = len(launched), numpy.array(list(launched))
    if world.own_ar:
        noise = numpy.zeros((sessions, count))
        for arm in sorted(set(launched)):
            # In time, also while the other arm runs.
            own = walk(sessions, count, world.own_ar, world.sd / math.sqrt(2), random)
            noise[:, arms == arm] = own[:, arms == arm]
    else:
        # The sd of the difference of neighbours of such a process: sd_launch * sqrt(2 (1 - ar)).
        noise = walk(sessions, count, world.ar, world.sd / math.sqrt(2 * (1 - world.ar)), random)
    noise += world.drift * numpy.arange(count) / count
    noise += math.log1p(world.far) * (random.random((sessions, count)) < world.outliers)
    contained = arms == "c"
    noise[:, 1:] += world.carry * contained[:-1]
    if world.slow:
        hit = random.random((sessions, count)) < world.slow
        noise += contained * math.log(world.slower) * (hit - world.slow)
    for arm in sorted(set(launched)):
        noise += (arms == arm) * of_arm(world, sessions, numpy.arange(count) / count, random)
    return noise


def of_arm(
    world: World, sessions: int, when: Floats, random: numpy.random.Generator
) -> Floats | float:
    """Draw what one arm has of its own for all of a session, at these times of it (0 to 1)."""
    found: Floats | float = 0.0
    if world.placement:
        found = found + random.normal(0, world.placement / math.sqrt(2), (sessions, 1))
    if world.own_drift:
        slope = random.normal(0, world.own_drift / math.sqrt(2), (sessions, 1))
        found = found + slope * (when - 0.5)
    return found


def walk(sessions: int, count: int, ar: float, sd: float, random: numpy.random.Generator) -> Floats:
    """Draw an AR(1) process of this sd for each session."""
    noise = random.normal(0, sd, (sessions, count))
    for i in range(1, count):
        noise[:, i] = ar * noise[:, i - 1] + math.sqrt(1 - ar**2) * noise[:, i]
    return noise


def quiet(world: World) -> World:
    """Return the same machine without outliers."""
    return replace(world, outliers=0.0)
