"""What can go wrong in a session with the real engine: said, recorded, and nothing left behind."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from tests.integration.planting import planted_image
from tests.integration.test_bad_input import failing, mounted
from tests.integration.test_bench import options, user
from tests.integration.world import Built, World, require_twin
from tests.judging import analyse
from tests.processes import MARK, left_of

__all__ = ["user"]  # a fixture

# What ends each start of Python would end the step that packs.
UNPACKED = ("planted.pth", "--set", "image.pack=false")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Path]:
    """Give a disk with room for some launches."""
    yield from mounted(tmp_path / "a disk", "size=40k")


def argv(image: Path, recipe: Path, output: Path, *more: object) -> list[str]:
    words = ["bench", "import", "--site", "local", "--image", image, "--recipe", recipe]
    return [str(word) for word in (*words, "-o", output, *more)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("import os; os.kill(os.getpid(), 11)", "SIGSEGV", marks=pytest.mark.long),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL; out of memory?"),
        ("import os; os._exit(3)", "exit code 3"),
    ],
)
def test_the_container_crashes(
    user: World, tiny: Path, tmp_path: Path, line: str, says: str
) -> None:
    require_twin()
    image = planted_image(user, tiny, "/opt/tiny", tmp_path / "planted", line, *UNPACKED)
    output = tmp_path / "x.jsonl"
    said = failing(user, 7, *argv(image, tiny, output, "--pairs", 1, "--controls", 0))
    assert says in said
    series = reader.read(output)
    assert series.end is not None
    assert says in series.end.reason
    judged = analyse(series).verdict
    assert judged.word == "NOT COMPARABLE"
    assert any("no launch of container succeeded" in reason for reason in judged.reasons)


def test_the_container_hangs(user: World, tiny: Path, tmp_path: Path) -> None:
    line = 'import subprocess, time; subprocess.Popen(["sleep", "300"]); time.sleep(300)'
    image = planted_image(user, tiny, "/opt/tiny", tmp_path / "planted", line, *UNPACKED)
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    own = user.having(**{MARK: mark})
    said = failing(own, 7, *argv(image, tiny, output, "--timeout", 8, "--pairs", 1))
    assert "no end within 8 s" in said
    # The image's mount goes with the last process that is in it.
    assert left_of(mark) == {}
    assert "no end within 8 s" in str(reader.read(output).samples[-1].error)


def test_the_disk_is_full_of_samples_and_the_session_goes_on(
    user: World, tiny_image: Built, tiny: Path, page: Path
) -> None:
    output = page / "x.jsonl"
    ballast = page / "ballast"
    ballast.write_bytes(bytes(24 << 10))
    more = ("--pairs", 8, "--controls", 0, "--seed", 3)
    said = failing(user, 7, *argv(tiny_image.image, tiny, output, *more))
    assert "No space left" in said
    cut = reader.read(output)
    kept = cut.samples[:]
    assert kept
    assert not cut.complete
    ballast.unlink()
    page.joinpath("x.jsonl").chmod(0o600)
    words = [word for word in argv(tiny_image.image, tiny, output) if word not in {"-o"}]
    words.insert(words.index(str(output)), "--resume")
    failing_or_done = user.run(*words, code=None)
    series = reader.read(output)
    assert series.samples[: len(kept)] == kept
    assert len(series.samples) > len(kept), failing_or_done.stderr


def test_samples_edited_by_hand(user: World, tiny_image: Built, tiny: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.jsonl"
    user.run("bench", "import", *options(tiny_image, tiny, output, "--pairs", 1, "--controls", 0))
    lines = output.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if '"role":"pair"' in line)
    lines[place] = lines[place].replace('"wall_s":', '"wall_s":0', 1)
    output.write_text("".join(lines))
    said = failing(user, 7, "report", output)
    assert f"{output}:{place + 1}" in said
    assert "hash chain is broken" in said
    said = failing(user, 7, *argv(tiny_image.image, tiny, output)[:-2], "--resume", output)
    assert "hash chain is broken" in said
