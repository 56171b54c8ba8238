"""What a step needs only while it builds: there in time, gone after, checked by the native twin."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import step_commands, texts
from tests.values import TEMPLATES, folder_of, plan_of

SYSTEM = {"name": "system", "os_packages": ["python3"]}
COMPILE = {
    "name": "compile",
    "shell": "cc -o tool tool.c\n",
    "build_packages": ["gcc", "make=4.3-4.1"],
}


def plan_with(parent: Path, **changes: Any) -> Any:
    return plan_of(folder_of(parent, steps=[SYSTEM, {**COMPILE, **changes}]))


def test_they_come_before_the_snippet_and_go_after_it(tmp_path: Path) -> None:
    block = step_commands.image_blocks(plan_with(tmp_path))[1]
    assert block.is_script
    lines = [str(line) for line in block.commands]
    install = "apt-get install --yes --no-install-recommends gcc make=4.3-4.1"
    assert lines[0].startswith("dlc_before=$(dpkg-query")
    inner = lines[lines.index("(") + 1 : lines.index(")")]
    assert inner == ["prefix=/opt/demo", "cc -o tool tool.c"]
    assert lines.index(install) < lines.index("(")
    assert lines[-1].startswith("dpkg-query")
    assert lines[-1].endswith('| grep -vxF "$dlc_before" | xargs apt-get purge --yes')


def test_a_layer_of_a_dockerfile_holds_none_of_them(tmp_path: Path) -> None:
    text = texts.text(plan_with(tmp_path), "dockerfile", [TEMPLATES])
    (layer,) = [line for line in text.splitlines() if "cc -o tool" in line]
    script = json.loads(layer.removeprefix("RUN "))[-1]
    order = [script.index(word) for word in ("install --yes", "cc -o tool", "apt-get purge")]
    assert order == sorted(order)


def test_the_native_twin_checks_them_where_it_runs_the_snippet(tmp_path: Path) -> None:
    alone, twin = plan_with(tmp_path / "a"), plan_with(tmp_path / "b", native=True)
    assert alone.recipe.native_packages == ["python3"]
    assert twin.recipe.native_packages == ["gcc", "make", "python3"]
    assert "apt-get install --yes" not in texts.text(twin, "native", [TEMPLATES])


def test_they_belong_to_a_snippet(tmp_path: Path) -> None:
    steps = [{**SYSTEM, "build_packages": ["gcc"]}]
    with pytest.raises(ConfigError, match="only a shell step can have 'build_packages'"):
        plan_of(folder_of(tmp_path, steps=steps))
