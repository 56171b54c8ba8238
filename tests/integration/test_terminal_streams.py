"""Every command that reads, with its streams odd: a documented exit code, never that of a bug.

What a fork can't show of an interpreter's own start and end is in test_terminal.py, for a few.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import terminals
from tests.integration.test_terminal import DOCUMENTED
from tests.streams import KINDS
from tests.terminals import READS, Typed

Answer = Callable[[str, str], dict[str, Any]]


def _first() -> Iterator[str]:
    for name, (line, *_) in READS.items():
        yield f"{name} {line.words if isinstance(line, Typed) else line}".strip()


# A wrong one too: its text goes to the other stream.
LINES = (*_first(), "plan pytorch --site nosuch", "site show lum", "report {nosuch}")


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answer]:
    folder = tmp_path_factory.mktemp("samples")
    samples = terminals.samples(folder)
    own = {name: text for name, text in os.environ.items() if not name.startswith("XDG_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.streams"], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**own, "HOME": str(samples.home), "TMPDIR": str(folder)},
        cwd=Path(terminals.__file__).parents[1],
    )  # fmt: skip
    orders, answers = process.stdin, process.stdout
    assert orders
    assert answers
    kept: dict[tuple[str, str], dict[str, Any]] = {}

    def ask(line: str, streams: str) -> dict[str, Any]:
        if (line, streams) not in kept:
            order = {"words": samples.words(line), "streams": streams}
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            kept[line, streams] = json.loads(answers.readline())
        return kept[line, streams]

    yield ask
    orders.close()
    assert process.wait(60) == 0
    answers.close()


@pytest.mark.parametrize("line", LINES)
def test_odd_streams(line: str, answer: Answer) -> None:
    usual = answer(line, "usual")
    assert usual["code"] in DOCUMENTED
    for streams in KINDS[1:]:
        found = answer(line, streams)
        assert found["code"] in DOCUMENTED, (streams, found["err"])
        assert "Traceback" not in found["err"], streams
        if streams == "full" and usual["out"]:
            assert found["code"] != 0
        elif streams == "gone" and usual["out"]:
            # The reader has what it wanted; a command that fails all the same says so.
            assert found["code"] in (0, usual["code"])
        else:
            assert found["code"] == usual["code"], streams
        if streams == "ascii":
            assert found["out"].isascii()
