"""The model of an import storm: a closed queue of ranks before one metadata server. Pure.

Mean-value analysis (Reiser and Lavenberg 1980): C clients, each thinking for Z between two
operations, a server that takes s for one. A plain sum of latency and service would leave the queue
out. Reads are not queued at the metadata server: they take their latency and share a bandwidth.

The steady state that this solves knows no beginning. All clients begin in one instant: of the first
operation the last client waits for all the others, C s, before it takes its turn in the queue.
Where each asks thousands of times that is nothing; of an image, which is asked for a few times, it
is most of the wait near the knee (a simulated queue: tests/unit/lab/storm/test_model.py).
"""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

MB = 1e6
Number = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Held-out imports took so much longer than predicted (docs/measurements/storm.md). Printed, not
# multiplied in: it was measured on stand-ins, and not on your file system.
SHORT_BY = (0.0, 0.13)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queueing:
    """What one client sees: seconds an operation spends at the server, operations/s of all."""

    response_s: float
    throughput: float


def closed_queue(
    clients: float, think_s: float, service_s: float, variation: float = 1.0
) -> Queueing:
    """Solve the closed queue by mean-value analysis, one client more at a time.

    `variation` is the squared coefficient of variation of the service time: 1 for exponential
    (then this is exact), 0 for constant. A broken number of clients lies between its neighbours.
    """
    if clients < 1:
        raise ValueError(f"a closed queue has at least one client, not {clients}")
    if service_s <= 0:
        return Queueing(response_s=0.0, throughput=math.inf if think_s <= 0 else clients / think_s)
    queue = throughput = 0.0
    below = response = service_s
    for number in range(1, math.ceil(clients) + 1):
        below = response
        # Who arrives waits for all who wait, and for the rest of the one who is served.
        busy = min(throughput * service_s, 1.0)
        response = service_s * (1 + queue) + service_s * busy * (variation - 1) / 2
        # The correction alone would let a constant server do more than its rate.
        response = max(response, number * service_s - think_s)
        throughput = number / (response + think_s)
        queue = throughput * response
    share = clients - math.floor(clients)
    felt = below + share * (response - below) if share else response
    return Queueing(response_s=felt, throughput=clients / (felt + think_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerModel:
    """A shared file system: seconds, operations/s, MB/s; 0 for no limit.

    `latency_s` and `read_s` are what an operation and a read take without a queue, the server's
    own time (1/rate) apart.
    """

    latency_s: float
    rate: float
    read_s: float
    client_mb_s: float = 0.0
    target_mb_s: float = 0.0
    stripes: int = 1
    total_mb_s: float = 0.0
    variation: float = 1.0

    def bandwidth(self, nodes: int) -> float:
        """Return what so many nodes read together from one file, MB/s; infinite without limits."""
        limits = (
            nodes * self.client_mb_s,
            self.stripes * self.target_mb_s,
            self.total_mb_s,
        )
        return min((limit for limit in limits if limit > 0), default=math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportLoad:
    """What an import asks of the file system on a node, and of the processor.

    Operations of a node with R ranks are `shared + R * own`: what one rank has fetched, the
    node's cache gives to the others. `read_waits` are the reads that a rank waits for one after the
    other (what is read ahead is waited for once), `mb` what a node reads. `cpu_s` is of one rank,
    `start_s` what it waits before.
    """

    shared_operations: float
    own_operations: float
    read_waits: float
    mb: float
    cpu_s: float
    start_s: float = 0.0

    # Asked for one after the other before anything is computed, as what mounts an image does.
    at_start: bool = False

    def operations(self, ranks: int) -> float:
        """Return the metadata operations of a node."""
        return self.shared_operations + ranks * self.own_operations

    @property
    def steps(self) -> float:
        """Metadata operations that one rank waits for, one after the other."""
        return self.shared_operations + self.own_operations


@dataclass(frozen=True, kw_only=True, slots=True)
class StormJob:
    """How many start at once: nodes, ranks on each, cores of a node."""

    nodes: Number
    ranks: Number
    cores: Number

    @property
    def stretch(self) -> float:
        """How much longer a rank computes where ranks outnumber cores."""
        return max(1.0, self.ranks / self.cores)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Seconds until the last rank is ready, and where they go."""

    seconds: Seconds
    processor_s: Seconds
    metadata_s: Seconds
    read_s: Seconds
    # Share of its time that the metadata server works.
    busy: Seconds


def predict(load: ImportLoad, system: ServerModel, job: StormJob) -> Prediction:
    """Predict the time until the last rank is ready."""
    processor = load.start_s + load.cpu_s * job.stretch
    reading = _reading(load, system, job)
    if load.steps <= 0 or system.rate <= 0:
        waited = load.steps * system.latency_s
        return Prediction(
            seconds=processor + reading + waited,
            processor_s=processor,
            metadata_s=waited,
            read_s=reading,
            busy=0.0,
        )
    metadata = _asking(load, system, job, 0.0 if load.at_start else processor + reading)
    seconds = processor + reading + metadata
    worked = job.nodes * load.operations(job.ranks) / system.rate
    return Prediction(
        seconds=seconds,
        processor_s=processor,
        metadata_s=metadata,
        read_s=reading,
        busy=min(1.0, worked / seconds),
    )


def _asking(load: ImportLoad, system: ServerModel, job: StormJob, between_s: float) -> float:
    """Return the seconds that the last rank spends on metadata, with so many between its questions.

    n operations of each of C clients: C s for the first, R for each further one.
    """
    service = 1.0 / system.rate
    think = system.latency_s + between_s / load.steps
    # A shared operation is asked once a node, so a node is fewer clients than it has ranks.
    clients = max(1.0, job.nodes * load.operations(job.ranks) / load.steps)
    met = closed_queue(clients, think, service, system.variation)
    first = clients * service
    further = max(load.steps - 1, 0.0) * met.response_s
    return load.steps * system.latency_s + first + further


def _reading(load: ImportLoad, system: ServerModel, job: StormJob) -> float:
    return load.read_waits * system.read_s + job.nodes * load.mb / system.bandwidth(job.nodes)


def saturation(load: ImportLoad, system: ServerModel, job: StormJob) -> float:
    """Return the nodes at which the metadata server has no time left; infinite if it always has.

    The knee of the asymptotic bounds: C* = (Z + s) / s clients (Denning and Buzen 1978).
    """
    if load.steps <= 0 or system.rate <= 0:
        return math.inf
    lone = StormJob(nodes=1, ranks=job.ranks, cores=job.cores)
    alone = load.start_s + load.cpu_s * job.stretch + _reading(load, system, lone)
    alone += load.steps * (system.latency_s + 1.0 / system.rate)
    return alone * system.rate / load.operations(job.ranks)
