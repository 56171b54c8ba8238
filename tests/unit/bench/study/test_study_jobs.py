"""A session's job as a script: the site's lines, then the command as it was typed."""

import shlex
from pathlib import Path

from dlcontainer.bench.study import study_jobs
from dlcontainer.bench.study.study_jobs import JobCommand


def test_a_script_runs_the_command_where_it_was_typed(tmp_path: Path) -> None:
    words = ("python", "bench", "--set", "a=$(touch x) 'b'", "-o", "/s/it's.jsonl")
    command = JobCommand(
        words=words,
        cwd=Path("/home/a user"),
        environ={"PATH": "/opt/my bin:/bin", "SECRET": "s3cret", "XDG_CACHE_HOME": ""},
    )
    files = study_jobs.paths(tmp_path, "2-dp2")
    assert (files.script.name, files.log.name) == ("2-dp2.sh", "2-dp2.log")
    script = study_jobs.write(files.script, ("#SBATCH --nodes=2",), command).read_text()
    lines = script.splitlines()
    assert lines[:3] == ["#!/bin/bash", "#SBATCH --nodes=2", "cd '/home/a user' || exit 3"]
    assert "export PATH='/opt/my bin:/bin'" in lines
    # No word of the environment but the folders: a script lies in a file that others may read.
    assert "s3cret" not in script
    assert "XDG_CACHE_HOME" not in script
    assert [line for line in lines if tuple(shlex.split(line)) == words]
    assert lines[-1] == "exit $((code != 0))"
