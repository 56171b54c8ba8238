"""Small files that want much memory or time, given to every reader, which may not have much."""

import subprocess
import sys

import pytest

from tests.fuzz import changes
from tests.fuzz.readers import READERS
from tests.integration.test_bombs import limits
from tests.values import ROOT

READ = """\
import sys, tempfile, time
from pathlib import Path
from tests.fuzz import changes
from tests.fuzz.readers import READERS, outcome
bombs = changes.bombs()
for name in sys.argv[1].split(","):
    for bomb, data in bombs.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / READERS[name].name
            path.write_bytes(data)
            began = time.process_time()
            outcome(READERS[name], path)
            spent = time.process_time() - began
            assert spent < 10, (name, bomb, spent)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_every_bomb(name: str) -> None:
    """1 GB of addresses and 20 s of a processor for all of a reader's. Road: test_changed_bytes."""
    done = subprocess.run(
        [sys.executable, "-c", READ, name],
        cwd=ROOT,
        preexec_fn=limits,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(changes.bombs()) > 15
