"""Steps as work: the phases that their scripts announce, which are no part of their keys."""

from pathlib import Path

import pytest

from dlcontainer.build import build_steps
from dlcontainer.formats import build_context
from dlcontainer.system.progress import phase_line
from tests.values import folder_of, plan_of

STEPS = [
    {"name": "system", "os_packages": ["libgomp1"]},
    {"name": "framework", "python_packages": {"packages": ["numpy==2.0"]}},
    {"name": "own", "shell": "echo one\necho two\n"},
]


def scripts(folder: Path) -> dict[str, build_steps.BuildStep]:
    plan = plan_of(folder_of(folder, steps=STEPS))
    staged = folder / "staged"
    build_context.stage(plan, staged)
    return {step.name: step for step in build_steps.work(plan, staged, {})}


def test_each_command_that_takes_a_while_says_so_first(tmp_path: Path) -> None:
    steps = scripts(tmp_path)

    def phases(name: str) -> list[str]:
        lines = steps[name].script.splitlines()
        begins = f"echo '{phase_line('')}"
        return [line.removeprefix(begins)[:-1] for line in lines if line.startswith(begins)]

    assert phases("system") == ["read the package lists", "install OS packages"]
    assert phases("framework") == [
        "make the Python environment",
        "pip looks for the packages",
        "pip checks what fits what",
        "compile byte code",
    ]
    assert phases("own") == ["the recipe's own commands".replace("'", "'\"'\"'")]
    assert phases("image") == []


def test_a_phase_is_no_part_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scripts(tmp_path / "a")
    monkeypatch.setattr(build_steps, "_PHASES", ())
    after = scripts(tmp_path / "b")
    assert [step.key for step in before.values()] == [step.key for step in after.values()]
    assert before["system"].script != after["system"].script
