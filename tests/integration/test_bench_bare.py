"""The image's own Python on this host, without an engine: what it is held against, and refused."""

import json
import shutil
from pathlib import Path

import pytest

from dlcontainer.bench.samples import comparable, reader
from tests.integration.test_bench import measured, options, user
from tests.integration.world import Built, World, require_twin
from tests.judging import SESSIONS, analyse, by_chance

__all__ = ["user"]  # a fixture


def test_the_build_is_held_apart_from_the_engine(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    require_twin()
    page = tmp_path / "x.html"
    for seed in range(3, 3 + SESSIONS):
        output = tmp_path / f"{seed}.jsonl"
        more = ("--arms", "native,bare,container", "--pairs", 6, "--controls", 0, "--seed", seed)
        series = measured(user, tiny_image, tiny, output, *more)
        assert series.complete
        contrasts = [item.verdict for item in analyse(series).contrasts]
        if not any(by_chance(item.reasons) for item in contrasts):
            break
    assert series.session.declared.arms == ("native", "bare", "container")
    stacks = {stack.arm: stack for stack in series.stacks}
    bare, inside = stacks["bare"].facts, stacks["container"].facts
    place = Path(str(bare["sys_prefix"]))
    assert place.parts[-3:] == ("bare", "opt", "tiny")
    assert not place.exists()
    # No engine: all namespaces are this machine's, and no filter of system calls is there.
    assert bare["namespaces"] == stacks["native"].facts["namespaces"] != inside["namespaces"]
    # The very interpreter and libraries of the image, and its module pack.
    for fact in ("executable", "libc", "system_library_builds", "library_builds", "hooks", "probe"):
        assert bare[fact] == inside[fact], fact
    argv = series.session.arms["bare"].argv
    assert any(Path(word).name.startswith("ld-") for word in argv)
    assert not any("apptainer" in word or ".sif" in word for word in argv)
    found = comparable.differences("overhead", stacks["bare"], stacks["container"])
    assert [item.name for item in found if item.refuses] == []
    done = user.run("report", output, "--json", "-o", page)
    (session,) = json.loads(done.stdout)["sessions"]
    verdicts = {item["meaning"]: item["verdict"] for item in session["contrasts"]}
    assert set(verdicts) == {"the whole", "build", "engine"}
    assert "NOT COMPARABLE" not in verdicts.values(), session["contrasts"]
    for words in ("native → bare", "bare → container"):
        assert words in page.read_text()


@pytest.mark.long  # tests/unit/bench/measure/test_bare.py goes the same road
def test_a_session_of_the_engine_alone_goes_on(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    more = ("--arms", "bare,container", "--pairs", 1, "--controls", 0)
    user.run("bench", "import", *options(tiny_image, tiny, output, *more))
    found = analyse(reader.read(output))
    assert [item for item in found.differences if item.refuses] == []
    # Interrupted before its end: the tree is unpacked again, at a place of another name.
    *lines, _ = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines))
    again = options(tiny_image, tiny, output)
    again[again.index("-o") : again.index("-o") + 2] = ["--resume", str(output)]
    user.run("bench", "import", *again)
    assert reader.read(output).complete
    # An image of another recipe than this one is not started without an engine around it.
    other = shutil.copytree(tiny, tmp_path / "other")
    recipe = other / "recipe.yaml"
    recipe.write_text(recipe.read_text() + 'environment: {OTHER: "1"}\n')
    output.unlink()
    argv = options(tiny_image, other, output, *more)
    done = user.run("bench", "import", *argv, code=None)
    assert done.returncode == 7
    assert "not those that the image was built from" in done.stderr
    assert not output.exists()
