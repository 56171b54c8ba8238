"""Publishers at work in one tree at once; SIGKILL at each call is in tests/integration/faults."""

import os
from pathlib import Path

from tests.trees import both, hand, hidden, image_file, put, seen

DONE = 0


def test_eight_at_once(tmp_path: Path) -> None:
    """Each waits for the others, and nobody's version is lost."""
    root, image = tmp_path / "root", image_file(tmp_path / "images")
    root.mkdir()
    versions = [f"{number}.0" for number in range(8)]
    children = []
    for version in versions:
        child = os.fork()
        if child == 0:
            code = 2
            try:
                put(root, image, version, by=hand(strict=False))
                code = DONE
            finally:  # never back into pytest
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [DONE] * 8
    assert seen(root) == both(*versions)
    assert str((root / "current").readlink()) == "generations/8"
    assert len({path.stat().st_ino for path in root.glob("releases/*/image.sif")}) == 1
    assert hidden(root) == []
