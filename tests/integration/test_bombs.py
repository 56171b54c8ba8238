"""Templates that would take a machine's memory or time, in processes that may not have much."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bombs
from tests.integration.world import World, isolated, write_bare

MEMORY, SECONDS = 1 << 30, 20

EXPAND = """\
import sys
from dlcontainer.config import templating
from dlcontainer.errors import ConfigError
from tests import bombs
try:
    templating.expand(sys.stdin.read(), bombs.VALUES, where="recipe.yaml", shell=False)
except ConfigError as error:
    print(error)
    sys.exit(3)
"""


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def started(*argv: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        argv, preexec_fn=limits, capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("number", range(len(bombs.MEMORY + bombs.TIME)))
def test_a_bomb(number: int) -> None:
    text = bombs.sized((bombs.MEMORY + bombs.TIME)[number], 10**10)
    root = Path(__file__).parents[2]
    done = started(sys.executable, "-c", EXPAND, input=text, cwd=root)
    assert done.returncode in (0, 3), f"{text}\n{done.returncode} {done.stderr[-2000:]}"
    if done.returncode == 0:  # what is harmless may be taken
        assert "(" * 300 in text, text
    else:
        assert "template" in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        "summary: \"{{ 'x' * 10**10 }}\"",
        "prefix: \"{{ 'x'|center(10**10) }}\"",
        "homepage: \"{% for x in range(99999) %}{{ ('y' * 60000)|upper }}{% endfor %}\"",
    ],
)
def test_a_recipe_is_refused(tmp_path: Path, change: str) -> None:
    world: World = isolated(tmp_path / "world", tmp_path / "cache")
    recipe = write_bare(tmp_path / "recipe")
    path, key = recipe / "recipe.yaml", change.partition(":")[0]
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}:")]
    lines.append(change)
    path.write_text("\n".join(lines) + "\n")
    done = started(
        *world.program,
        "plan",
        str(recipe),
        "--site",
        "local",
        env=dict(world.environ),
        cwd=tmp_path,
    )
    assert done.returncode == 3, done.stderr[-2000:]
    assert f"{path}:{lines.index(change) + 1}:" in done.stderr
    assert len(done.stderr) < 1000
