"""The surroundings of a command: the engine that it finds."""

from pathlib import Path

import pytest

from dlcontainer.cli.context import CliContext
from dlcontainer.cli.output import Console
from dlcontainer.engines import capabilities
from dlcontainer.errors import EngineError, MisfitError
from dlcontainer.system.process import ProcessRunner
from tests.values import TRIAL


def test_the_execution_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(capabilities, "require", lambda *_: TRIAL)
    console = Console(quiet=True)
    world = CliContext(environ={"PATH": str(program.parent), "XDG_CACHE_HOME": str(tmp_path)})
    execution = world.execution(console)
    assert (execution.engine.program, execution.capabilities) == (program, TRIAL)
    assert (execution.cache, execution.progress) == (tmp_path / "dlcontainer", console)
    assert execution.runner == ProcessRunner(environ=world.environ)


def test_no_engine_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(EngineError):
        CliContext(environ={"PATH": str(tmp_path)}).execution(Console(quiet=True))


def test_a_refused_variant_s_next_step_names_each_way_once(tmp_path: Path) -> None:
    world = CliContext(environ={"HOME": str(tmp_path)})
    with pytest.raises(MisfitError) as caught:
        world.plan("pytorch", "lassen", variant="wheels")
    ways = str(caught.value.next_step).split("; or ")
    assert "--variant open-ce" in ways
    assert len(ways) == len(set(ways))
    assert all(way.startswith("--") for way in ways)
