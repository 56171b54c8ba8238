"""Trainings on digits by the real PyTorch: wrong steps are told, and both sides learn alike."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes.convergence import DATA, RULES, SHA256
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

PYTHON = "/opt/pytorch/bin/python"
# The probe's check against optimizers that are wrong by a little: each must be told.
WRONG = """
import json, sys
sys.path.insert(0, sys.argv[1])
import convergence_torch, digits, lars, rows
from probe_convergence import Rule
training, testing = digits.read(sys.argv[2], sys.argv[3])
trainer = convergence_torch.Trainer("cpu", 1, training, testing)
rules = {name: Rule(one, 500) for name, one in json.loads(sys.argv[4]).items()}
def check(name, size):
    return trainer.check(rules[name], size, digits.Draws("1", len(training)))
for name in rules:
    for size in (32, 1437):
        assert check(name, size) == 64 * 64 + 64 * 10
right, step = lars.lars_step, trainer.step
def other(**changes):
    def wrong(parameters, rate, momentum, weight_decay, trust):
        given = dict(rate=rate, momentum=momentum, weight_decay=weight_decay, trust=trust)
        right(parameters, **dict(given, **changes))
    return wrong
wrongs = [{"trust": 0.02002}, {"momentum": 0.89}, {"weight_decay": 0.0}]
for changes in wrongs:
    lars.lars_step = other(**changes)
    try:
        check("lars", 32)
    except rows.WrongError as problem:
        print(problem)
    else:
        sys.exit("{}: a wrong step passed".format(changes))
lars.lars_step = right
def twice(weights, rule, number, batch):
    step(weights, rule, number, batch[:-1] + batch[:1])
trainer.step = twice
try:
    check("sgd", 1437)
except rows.WrongError as problem:
    print(problem)
else:
    sys.exit("a sample too many passed")
"""


@pytest.fixture
def user(launching: World) -> World:
    return launching


def test_a_wrong_step_is_told(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    rules = json.dumps({name: dict(rule) for name, rule in RULES.items()})
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, "-c", WRONG, layout.PROBE, "/mnt", SHA256, rules),
        mode=tried.run_mode or "plain",
        environment={"OMP_NUM_THREADS": "1"},
        binds=((DATA.parent, "/mnt"),),
    )
    argv, environment = engine.run_argv(spec), apptainer.environment(world.environ)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 4
    assert all("weights are not those of fp64 after 3 steps" in line for line in said)


def test_native_and_container_learn_alike(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    output, page = tmp_path / "x.jsonl", tmp_path / "x.html"
    argv: list[object] = ["--site", "local", "--image", pytorch_image.image, "-o", output]
    argv += ["--pairs", 2, "--controls", 0, "--threads", 1, "--batches", "32,512"]
    user.run("bench", "convergence", *map(str, argv))
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    assert len(plan.rows) == 2 * 2 * 8
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert sample.phases.keys() >= {"import", "data", "checked", "rows"}
        for row in sample.rows:
            outcome: dict[str, Any] = dict(row.outcome)
            assert outcome["reached"] == "yes" or "steps" not in outcome
            # Nobody who guesses is right in 90 % of ten classes.
            assert outcome["right"] > 0.9 * outcome["tested"]
    drawn = {json.dumps(stack.facts["workload"], sort_keys=True) for stack in series.stacks}
    assert len(drawn) == 1
    judged = analyse(series)
    # Two pairs decide nothing; that they may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    assert section is not None
    for cells in section.rows:
        line = dict(zip(section.head, cells, strict=True))
        assert line["accuracies are"] == "equivalent", line
    said = user.run("report", output, "--json", "-o", page)
    (body,) = json.loads(said.stdout)["sessions"]
    assert [row["parameters"] for row in body["rows"]] == [dict(row) for row in plan.rows]
    assert len(body["charts"]) == 4
    assert "Accuracy over steps, LARS" in page.read_text()


def test_what_is_out_of_reach_is_said_in_words(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    argv: list[object] = ["--site", "local", "--image", pytorch_image.image, "-o", output]
    argv += ["--pairs", 1, "--controls", 0, "--threads", 1, "--batches", "32", "--accuracy", "100"]
    user.run("bench", "convergence", *map(str, argv), "--most-steps", "25")
    section = analyse(reader.read(output)).traits.section
    assert section is not None
    for cells in section.rows:
        line = dict(zip(section.head, cells, strict=True))
        assert line["steps, native"] == line["steps, container"] == "not reached within 25 steps"
        assert line["ratio of steps"] == "-"
