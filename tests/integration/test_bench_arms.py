"""Three arms with the real engine: triples, resumption, the report."""

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.launch_order import SEQUENCES
from tests.integration.test_bench import options, user
from tests.integration.world import Built, World, require_twin
from tests.processes import MARK, kill_marked, left_of, marked, poll

__all__ = ["user"]  # a fixture


@pytest.mark.long  # test_bench_bare.py measures three arms too
def test_three_arms_are_measured_and_reported(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    require_twin()
    output, page = tmp_path / "x.jsonl", tmp_path / "x.html"
    more = ("--arms", "native,unpacked,container", "--pairs", 12, "--controls", "4,4", "--seed", 3)
    user.run("bench", "import", *options(tiny_image, tiny, output, *more))
    series = reader.read(output)
    assert series.complete
    declared = series.session.declared
    assert declared.arms == ("native", "unpacked", "container")
    triples = [sample for sample in series.samples if sample.role == "triple"]
    assert len(triples) == 36
    orders = [sample.order for sample in triples if sample.position == 0]
    assert sorted(map(str, orders)) == sorted(SEQUENCES * 2)
    roles = [sample.role for sample in series.samples]
    assert (roles.count("control"), roles.count("candidate_control")) == (8, 8)
    stacks = {stack.arm: stack.facts for stack in series.stacks}
    assert set(stacks) == set(declared.arms)
    # The same prefix inside, once from a mounted image and once from a folder.
    assert stacks["unpacked"]["sys_prefix"] == stacks["container"]["sys_prefix"]
    argv = {name: " ".join(arm.argv) for name, arm in series.session.arms.items()}
    assert "/unpacked " in argv["unpacked"]
    assert ".sif" not in argv["unpacked"] + argv["native"]
    assert ".sif" in argv["container"]
    assert {s.mount for s in triples if s.arm == "unpacked"} == {"none"}
    done = user.run("report", output, "--json", "-o", page)
    (session,) = json.loads(done.stdout)["sessions"]
    means = {item["meaning"]: item["figure"]["means"] for item in session["contrasts"]}
    assert set(means) == {"the whole", "build and namespaces", "image mount"}
    assert means["the whole"] == [means["build and namespaces"][0], means["image mount"][1]]
    # A container's start costs tens of milliseconds; a tiny module's import hardly any.
    (whole,) = (item for item in session["contrasts"] if item["meaning"] == "the whole")
    assert whole["verdict"] == "SLOWER"
    assert session["verdict"] == "SLOWER"
    assert session["figures"]["B/B"]["pairs"] == 4
    for words in ("unpacked → container", "native → unpacked", "B/B control"):
        assert words in page.read_text()


@pytest.mark.long  # test_bench_resume.py goes the same road
def test_a_killed_session_of_three_arms_goes_on(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    require_twin()
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    own = user.having(**{MARK: mark})
    more = ("--arms", "native,unpacked,container", "--pairs", 6, "--controls", 0, "--seed", 5)
    argv = [*own.program, "bench", "import", *options(tiny_image, tiny, output, *more)]
    running = subprocess.Popen(
        argv, env=dict(own.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def inside_a_triple() -> bool:
        if not output.exists():
            return False
        try:
            last = reader.read(output).samples[-1:]
        except Exception:  # noqa: BLE001 - not yet a whole line
            return False
        return bool(last) and last[0].role == "triple" and last[0].position == 1

    try:
        assert poll(inside_a_triple, 120)
        os.kill(running.pid, signal.SIGKILL)
        running.wait(120)
        assert left_of(mark) == {}
    finally:
        running.kill()
        running.wait()
        kill_marked(mark)
    before = output.read_bytes()
    # Neither arms nor pairs are said again: the file has them.
    base = options(tiny_image, tiny, output)
    base[base.index("-o") : base.index("-o") + 2] = ["--resume", str(output)]
    user.run("bench", "import", *base)
    assert output.read_bytes().startswith(before)
    series = reader.read(output)
    assert series.complete
    used = [(s.role, s.pair, s.arm) for s in continuation.used(series) if s.role == "triple"]
    assert len(used) == len(set(used)) == 18


@pytest.mark.parametrize(
    "form", [pytest.param("staged", marks=pytest.mark.long), "packed", "squashfs"]
)
def test_the_native_tree_is_shown_another_way(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, form: str
) -> None:
    require_twin()
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    more = ("--native-as", form, "--pairs", 1, "--controls", 1)
    argv = options(tiny_image, tiny, output, *more)
    done = user.having(**{MARK: mark}).run("bench", "import", *argv)
    assert marked(mark) == {}, done.stderr
    series = reader.read(output)
    assert series.complete
    assert series.session.declared.workload["native_as"] == form
    facts = {stack.arm: stack.facts for stack in series.stacks}["native"]
    place = Path(str(facts["sys_prefix"]))
    assert place.name == ("native" if form == "squashfs" else "staged")
    assert not place.exists()
    if form == "squashfs":
        assert "fuse" in str(facts["sys_prefix_mount"])
        assert "fuse" in str(series.session.machine["reference_on"])
    took = series.session.machine["native_ready_s"]
    assert isinstance(took, float)
    assert took > 0
    assert f"shown as {form}; preparing it took" in user.run("report", output).stdout
    # Interrupted before its end: the tree is made again, at a place of another name.
    *lines, _ = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines))
    again = options(tiny_image, tiny, output)
    again[again.index("-o") : again.index("-o") + 2] = ["--resume", str(output)]
    user.run("bench", "import", *again)
    assert reader.read(output).complete


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--arms", "native,unpacked,container", "--pairs", "8"], "--pairs 12"),
        (["--arms", "native,unpacked,container", "--looks", "8,16"], "multiples of 6"),
        (["--arms", "native"], "two or three different arms"),
        (["--arms", "unpacked,container", "--native", "/usr"], "no native arm"),
        (["--arms", "unpacked,container", "--native-as", "staged"], "no native arm"),
        (["--controls", "4,x"], "one or two numbers"),
    ],
)
def test_bad_arms(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, more: list[str], words: str
) -> None:
    output = tmp_path / "x.jsonl"
    done = user.run("bench", "import", *options(tiny_image, tiny, output), *more, code=2)
    assert words in done.stderr
    assert not output.exists()


def test_a_site_s_accelerators_are_let_into_the_container_alone(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    """No GPU need be here: the engine then says so, and goes on."""
    require_twin()
    site, output = tmp_path / "with-gpus.yaml", tmp_path / "x.jsonl"
    site.write_text(
        "schema: 1\nname: with-gpus\nsummary: this machine, as if it had GPUs\nfacts: host\n"
        "default_recipe: pytorch\njobs: {flags: [--nv], remembered: [flags]}\n"
    )
    argv = options(tiny_image, tiny, output, "--pairs", 1, "--controls", 0)
    argv[argv.index("local")] = str(site)
    user.run("bench", "import", *argv)
    series = reader.read(output)
    assert series.complete
    arms = {name: arm.argv for name, arm in series.session.arms.items()}
    assert "--nv" in arms["container"]
    assert arms["container"].index("--nv") < arms["container"].index(str(tiny_image.image))
    assert "--nv" not in arms["native"]
