"""Published scaling, forecast from published facts: intervals, scores, and what they lack.

    .venv/bin/python benchmarks/published_points.py [--draws 3000] [--docs PAGE]

The inputs of `published/inputs.yaml` were frozen in a commit before a row was scored; their
digest stands in the table. Each point is the house's own step model over seeded draws of the
unknowns: a 90 % interval of the efficiency, its median, and its interval score (width + 20 times
how far the published value lies outside), beside that of the constant forecast "80 ± 15". An
interval that holds the published value proves nothing: [0, 100] holds every one. The input that
rules is the one by whose tenths (or choices) alone most of the variance is explained.
"""

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

HERE = Path(__file__).resolve().parent
# Not this folder: `statistics.py` of it would stand for Python's own.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean, median, pvariance

import yaml

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Algorithm,
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)
from dlcontainer.system import digests

INPUTS = HERE / "published" / "inputs.yaml"
SCHEMA = "dlcontainer/published-inputs/1"
BEGIN, END = "<!-- table: published points -->", "<!-- end of published points -->"
# Gneiting and Raftery, 2007: 2 / alpha a point outside, alpha of a 90 % interval.
OUTSIDE = 20
CONSTANT = (65.0, 95.0)
TENTHS = 10
# The points that have the measured term of small local batches too.
TERM = ", with the batch term"

Draw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """What a forecast takes: one value, a range or some choices; with its unit and its source."""

    values: tuple[Any, ...]
    is_range: bool
    unit: str
    source: str
    independent: str

    def drawn(self, draw: random.Random) -> Any:
        """Draw a value; of a range with equal chances on a logarithmic scale."""
        if not self.is_range:
            return draw.choice(self.values) if len(self.values) > 1 else self.values[0]
        low, high = self.values
        return low * (high / low) ** draw.random()

    def bin(self, drawn: Any) -> Any:
        """Return the tenth of a range that a drawn value lies in; a choice is its own bin."""
        if not self.is_range:
            return drawn
        low, high = self.values
        return min(TENTHS - 1, int(TENTHS * math.log(drawn / low) / math.log(high / low)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A published efficiency in percent, and the inputs of its forecast by name."""

    name: str
    published: float
    scaling: str
    ranks: int
    source: str
    inputs: Mapping[str, Input]


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A point's forecast in percent, scored; `shares`: of the variance, the largest input first."""

    point: Point
    low: float
    high: float
    middle: float
    shares: tuple[tuple[str, float], ...]

    @property
    def outside(self) -> float:
        """Return by how much the published value lies outside the interval."""
        return _outside(self.point.published, self.low, self.high)

    @property
    def interval_score(self) -> float:
        """Return the width, and the punishment of a miss."""
        return self.high - self.low + OUTSIDE * self.outside

    @property
    def constant_score(self) -> float:
        """Return the interval score of "80 ± 15"."""
        low, high = CONSTANT
        return high - low + OUTSIDE * _outside(self.point.published, low, high)


def _outside(published: float, low: float, high: float) -> float:
    return max(0.0, low - published, published - high)


def points(path: Path = INPUTS) -> list[Point]:
    """Read the points with their inputs; a later group of its list overrides an earlier one."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    if read["schema"] != SCHEMA:
        raise SystemExit(f"{path}: schema {read['schema']}, and this reads {SCHEMA}")
    groups = {
        group: {name: _input(f"{group}.{name}", facts) for name, facts in inputs.items()}
        for group, inputs in read["groups"].items()
    }
    listed = []
    for facts in read["points"]:
        inputs: dict[str, Input] = {}
        for group in facts.pop("takes"):
            inputs.update(groups[group])
        listed.append(Point(inputs=inputs, **facts))
    return listed


def _input(name: str, facts: Mapping[str, Any]) -> Input:
    kinds = [kind for kind in ("value", "range", "choice") if kind in facts]
    if len(kinds) != 1 or facts.keys() != {kinds[0], "unit", "source", "independent"}:
        raise SystemExit(f"{name}: one of value, range and choice; unit, source, independent")
    if facts["independent"] not in ("yes", "no", "assumed"):
        raise SystemExit(f"{name}: independent: yes, no or assumed, in quotation marks")
    given = facts[kinds[0]]
    values = (given,) if kinds[0] == "value" else tuple(given)
    # YAML reads 5e9 as a text, and 5.0e+9 as a number.
    if not all(isinstance(value, int | float) or value in get_args(Algorithm) for value in values):
        raise SystemExit(f"{name}: {given} is neither a number nor an algorithm")
    return Input(
        values=values,
        is_range=kinds[0] == "range",
        unit=facts["unit"],
        source=facts["source"],
        independent=facts["independent"],
    )


def efficiency(point: Point, draw: Draw) -> float:
    """Return a point's efficiency in percent, with these inputs."""
    first, last = _step_s(point, draw, 1), _step_s(point, draw, point.ranks)
    return 100 * first / last / (point.ranks if point.scaling == "strong" else 1)


def _step_s(point: Point, draw: Draw, ranks: int) -> float:
    local = draw["batch"] / (ranks if point.scaling == "strong" else 1)
    strategy = ParallelStrategy(dp=ranks)
    # A batch that N ranks do not divide is divided all the same: of 100 images 4 ranks have 25.
    choice = StrategyChoice(strategy=strategy, global_batch=local * ranks)
    network, machine = network_of(draw), machine_of(draw)
    step = step_model.step(network, machine, choice).step_s
    return step + (draw["coordinator_s"] if ranks > 1 else 0.0)


def network_of(draw: Draw) -> TrainedNetwork:
    """Return the network; where only samples a second are known, one operation a sample."""
    return TrainedNetwork(
        flops=draw.get("flops_per_sample", 1.0), gradient_bytes=draw["gradient_bytes"]
    )


def machine_of(draw: Draw) -> Machine:
    """Return the machine. `pass_share`: of one rank's step, what no smaller batch makes shorter."""
    rate = (
        draw["samples_per_s"]
        if "samples_per_s" in draw
        else draw["peak_share"] * draw["peak_flops_per_s"]
    )
    one_rank_s = draw["batch"] * draw.get("flops_per_sample", 1.0) / rate
    fixed = draw.get("pass_share", 0.0)
    return Machine(
        flops_per_s=rate / (1 - fixed),
        pass_s=fixed * one_rank_s,
        ranks_per_node=draw["ranks_per_node"],
        in_node=_link(draw, draw["in_node_bytes_per_s"]),
        between_nodes=_link(draw, draw["between_nodes_bytes_per_s"]),
        overlap=draw["overlap"],
        scatter=draw["scatter"],
        algorithm=draw["algorithm"],
        bucket_bytes=draw["bucket_bytes"],
    )


def _link(draw: Draw, peak: float) -> RankLink:
    return RankLink(latency_s=draw["latency_s"], second_per_byte=1 / (peak * draw["link_share"]))


def scored(point: Point, draws: int, seed: int) -> Score:
    """Forecast a point by so many draws."""
    source = random.Random(f"{seed} {point.name}")
    drawn = [
        {name: given.drawn(source) for name, given in point.inputs.items()} for _ in range(draws)
    ]
    values = [efficiency(point, draw) for draw in drawn]
    ordered = sorted(values)
    return Score(
        point=point,
        low=ordered[int(0.05 * (draws - 1))],
        high=ordered[int(0.95 * (draws - 1))],
        middle=median(values),
        shares=_shares(point, drawn, values),
    )


def _shares(
    point: Point, drawn: list[dict[str, Any]], values: list[float]
) -> tuple[tuple[str, float], ...]:
    """Return the share of the variance that each input's bins alone explain, the largest first."""
    mean, variance = fmean(values), pvariance(values)
    shares = []
    for name, given in point.inputs.items():
        if len(given.values) == 1:
            continue
        bins: dict[Any, list[float]] = {}
        for draw, value in zip(drawn, values, strict=True):
            bins.setdefault(given.bin(draw[name]), []).append(value)
        between = sum(len(group) * (fmean(group) - mean) ** 2 for group in bins.values())
        shares.append((name, between / len(values) / variance if variance else 0.0))
    return tuple(sorted(shares, key=lambda share: -share[1]))


def needed(point: Point, name: str, bounds: tuple[float, float]) -> float | None:
    """Return the value of one input that gives the published efficiency, the others in the middle.

    None where no value between the bounds does.
    """
    draw = {key: _middle(given) for key, given in point.inputs.items()}

    def error(value: float) -> float:
        return efficiency(point, {**draw, name: value}) - point.published

    return _root(error, *bounds)


def _middle(given: Input) -> Any:
    if given.is_range:
        return math.sqrt(given.values[0] * given.values[1])
    return given.values[len(given.values) // 2]


def _root(error: Callable[[float], float], low: float, high: float) -> float | None:
    at_low = error(low)
    if at_low * error(high) > 0:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        if error(middle) * at_low > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


HEADER = (
    "| point | 90 % | median | published | score | of 80 ± 15 | ruled by |\n"
    "|---|---|---|---|---|---|---|"
)


def row(score: Score) -> str:
    """Write a point's row."""
    ruling = ", ".join(f"{name} {100 * share:.0f} %" for name, share in score.shares[:2])
    published = f"{score.point.published:g}"
    if score.outside:
        published = f"**{published}, outside by {score.outside:.0f}**"
    return (
        f"| {score.point.name} | {score.low:.1f}-{score.high:.1f} | {score.middle:.1f} | "
        f"{published} | {score.interval_score:.0f} | {score.constant_score:.0f} | {ruling} |"
    )


def table(scores: list[Score], draws: int, seed: int, digest: str) -> str:
    """Write the table with its digest and its means."""
    without = [score for score in scores if not score.point.name.endswith(TERM)]
    with_it = [score for score in scores if score not in without]
    names = {score.point.name.removesuffix(TERM) for score in with_it}
    same = [score for score in without if score.point.name in names]
    return "\n".join(
        [
            f"Inputs `{digest[:16]}`, {draws:,} draws, seed {seed}; percent; a low score is good.",
            "",
            HEADER,
            *map(row, scores),
            _mean(f"mean of {len(without)}, no batch term", without),
            _mean(f"mean of {len(same)} of them", same),
            _mean(f"mean of the same {len(with_it)}{TERM}", with_it),
        ]
    )


def _mean(name: str, scores: list[Score]) -> str:
    ours = fmean(score.interval_score for score in scores)
    constant = fmean(score.constant_score for score in scores)
    return f"| {name} | | | | {ours:.0f} | {constant:.0f} | |"


def fixed(point: Point, words: list[str]) -> Point:
    """Return the point with some inputs at one value, NAME=VALUE: for looks beside the score."""
    inputs = dict(point.inputs)
    for word in words:
        name, _, text = word.partition("=")
        if name not in inputs:
            raise SystemExit(f"{point.name}: no input {name}; {', '.join(inputs)}")
        value = text if text in get_args(Algorithm) else float(text)
        inputs[name] = replace(inputs[name], values=(value,), is_range=False)
    return replace(point, inputs=inputs)


def replaced(text: str, new: str) -> str:
    """Return a page with this table in place of the one between the marks."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def needs(scores: list[Score]) -> Iterator[str]:
    """Say of each miss what one input would have to be."""
    for score in scores:
        if not score.outside:
            continue
        alone = {
            "link_share": needed(score.point, "link_share", (0.001, 1.0)),
            "pass_share": needed(score.point, "pass_share", (0.0, 0.95)),
            "scatter": needed(score.point, "scatter", (0.0, 2.0)),
            "coordinator_s": needed(score.point, "coordinator_s", (0.0, 100.0)),
        }
        words = ", ".join(
            f"{name} {value:.3g}" if value is not None else f"{name} (none)"
            for name, value in alone.items()
        )
        yield f"{score.point.name}: {score.point.published:g} % by one input alone: {words}"


def main() -> None:
    """Score all points, print them, and write the table into a page where one is named."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    read = yaml.safe_load(INPUTS.read_text(encoding="utf-8"))
    parser.add_argument("--draws", type=int, default=read["draws"])
    parser.add_argument("--seed", type=int, default=read["seed"])
    parser.add_argument(
        "--fix", action="append", default=[], metavar="NAME=VALUE", help="an input at one value"
    )
    parser.add_argument("--docs", type=Path, help="the page whose table is replaced")
    options = parser.parse_args()
    listed = [fixed(point, options.fix) for point in points()]
    scores = [scored(point, options.draws, options.seed) for point in listed]
    text = table(scores, options.draws, options.seed, digests.of_file(INPUTS))
    print(text)
    print("\n".join(["", *needs(scores)]))
    if options.docs and not options.fix:
        page = replaced(options.docs.read_text(encoding="utf-8"), text)
        options.docs.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
