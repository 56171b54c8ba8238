"""`dlcontainer bench` with a real engine: samples, gates, and nothing left mounted."""

import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.series import Series
from dlcontainer.system import machine
from tests.integration.truth import native_prefix, packages_of
from tests.integration.world import Built, World, write_wheel
from tests.judging import SESSIONS, analyse, by_chance
from tests.processes import MARK, kill_marked, left_of, marked, poll


@pytest.fixture
def user(world: World, wheels: Path) -> World:
    return world.having(PIP_FIND_LINKS=wheels)


def options(built: Built, recipe: Path, output: Path, *more: object) -> list[str]:
    argv = ["--site", "local", "--image", built.image, "--recipe", recipe, "-o", output, *more]
    return [str(word) for word in argv]


def measured(user: World, built: Built, tiny: Path, output: Path, *more: object) -> Series:
    user.run("bench", "import", *options(built, tiny, output, *more))
    return reader.read(output)


def environment_with(folder: Path, *pth: Path | str) -> Path:
    """Make a native side: an environment with lines of a .pth file, paths and code alike."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "side.pth").write_text("\n".join(map(str, pth)) + "\n")
    return folder


def other_wheel(folder: Path, version: str) -> Path:
    wheel = write_wheel(folder)
    (folder / "dlctiny.py").write_text(f'__version__ = "{version}"\n')
    wheel.unlink()
    return folder


def test_a_session_is_whole(user: World, tiny_image: Built, tiny: Path, tmp_path: Path) -> None:
    for seed in range(3, 3 + SESSIONS):
        output = tmp_path / f"a 'quoted' file {seed}.jsonl"
        series = measured(user, tiny_image, tiny, output, "--pairs", 2, "--seed", seed)
        judged = analyse(series).verdict
        if not by_chance(judged.reasons):
            break
    assert series.complete
    declared = series.session.declared
    assert (declared.pairs, declared.control_pairs, declared.joiner_pairs) == (2, 2, 2)
    roles = [sample.role for sample in series.samples]
    assert {role: roles.count(role) for role in set(roles)} == {
        "warmup": 3,
        "pair": 4,
        "joiner": 4,
        "control": 4,
    }
    for sample in series.samples:
        assert sample.ok
        assert set(sample.phases) == {"runtime", "python", "site", "import"}
    joined = {s.mount for s in series.samples if s.role == "joiner" and s.arm == "container"}
    assert joined == {"joiner"}
    # The same wheel on both sides: nothing forbids the comparison, two pairs decide nothing.
    assert judged.word == "INCONCLUSIVE", judged.reasons


def test_without_a_twin_the_unpacked_image_is_the_native_side(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    # A plan whose base is not this host's: as if the image were of another distribution.
    release = machine.read_host(os.environ).release
    other = "bookworm" if release == "trixie" else "trixie"
    more = ("--pairs", 1, "--controls", 1, "--set", f"base.release={other}")
    series = measured(user, tiny_image, tiny, tmp_path / "x.jsonl", *more)
    assert series.session.declared.arms == ("unpacked", "container")
    assert "no native twin" in series.session.arms["unpacked"].why
    assert analyse(series).verdict.word == "INCONCLUSIVE"


def test_another_version_on_one_side(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    side = environment_with(tmp_path / "side", other_wheel(tmp_path / "wheel", "2.0"))
    output = tmp_path / "x.jsonl"
    more = ("--pairs", 1, "--controls", 0, "--native", side)
    judged = analyse(measured(user, tiny_image, tiny, output, *more)).verdict
    assert judged.word == "NOT COMPARABLE"
    assert any("dlctiny 2.0" in reason and "dlctiny 1.0" in reason for reason in judged.reasons)


def test_another_number_of_threads_on_one_side(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    line = "import os; os.environ['OMP_NUM_THREADS'] = '77'"
    side = environment_with(tmp_path / "side", other_wheel(tmp_path / "wheel", "1.0"), line)
    more = ("--pairs", 1, "--controls", 0, "--native", side)
    series = measured(user, tiny_image, tiny, tmp_path / "x.jsonl", *more)
    judged = analyse(series).verdict
    assert judged.word == "NOT COMPARABLE"
    assert any("OMP_NUM_THREADS" in reason and "77" in reason for reason in judged.reasons)


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--pairs", "0"], 2, "at least 1"),
        (["--pairs", "-3"], 2, "at least 1"),
        (["--controls", "-1"], 2, "0 or more"),
        (["--native", "/no/such/folder"], 2, "no bin/python"),
        (["--question", "deployment"], 2, "--native FOLDER"),
        (["--steps", "5"], 2, "applies to 'bench train' only"),
    ],
)
def test_bad_input(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, more: list[str], code: int,
    words: str,
) -> None:  # fmt: skip
    output = tmp_path / "x.jsonl"
    done = user.run("bench", "import", *options(tiny_image, tiny, output), *more, code=code)
    assert words in done.stderr
    assert not output.exists()


def test_an_image_without_a_record(
    user: World, as_built: Built, tiny: Path, tmp_path: Path
) -> None:
    as_built.record.unlink()
    done = user.run("bench", "import", *options(as_built, tiny, tmp_path / "x.jsonl"), code=1)
    assert "no record" in done.stderr


def test_the_native_side_fails_to_import(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    side = environment_with(tmp_path / "side", tmp_path / "nothing")
    output = tmp_path / "x.jsonl"
    argv = options(tiny_image, tiny, output, "--native", side)
    done = user.run("bench", "import", *argv, code=7)
    assert "No module named 'dlctiny'" in done.stderr
    series = reader.read(output)
    assert series.end is not None
    assert "native" in series.end.reason


def test_a_hanging_rank_is_ended(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex
    line = "import subprocess, time; subprocess.Popen(['sleep', '300']); time.sleep(300)"
    side = environment_with(tmp_path / "side", tmp_path, line)
    argv = options(tiny_image, tiny, tmp_path / "x.jsonl", "--native", side, "--timeout", 2)
    done = user.having(**{MARK: mark}).run("bench", "import", *argv, code=7)
    assert "no end within 2 s" in done.stderr
    assert marked(mark) == {}


@pytest.mark.parametrize(
    "name", ["SIGINT", "SIGKILL", pytest.param("SIGTERM", marks=pytest.mark.long)]
)
def test_nothing_stays_mounted(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path, name: str
) -> None:
    mark, output = uuid.uuid4().hex, tmp_path / "x.jsonl"
    own = user.having(**{MARK: mark})
    argv = [*own.program, "bench", "import", *options(tiny_image, tiny, output, "--pairs", 300)]
    running = subprocess.Popen(
        argv, env=dict(own.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        # The warm-up launches are written: the instance is up, and pairs are being launched.
        assert poll(lambda: output.exists() and len(output.read_bytes().splitlines()) > 8, 120)
        held = holders(running.pid)
        assert held
        os.kill(running.pid, signal.Signals[name])
        code = running.wait(120)
        assert left_of(mark) == {}
        assert poll(lambda: not living(held), 60)
    finally:
        running.kill()
        running.wait()
        kill_marked(mark)
    series = reader.read(output)
    if name == "SIGKILL":
        assert series.end is None
    else:
        assert code == 130
        assert series.end is not None
        assert (series.complete, series.end.reason) == (False, "interrupted by the user")
    home = Path(user.environ["HOME"])
    assert not list(home.glob(".apptainer/instances/app/*/*/dlc-*"))


def holders(pid: int) -> dict[int, str]:
    """Give the processes below one that hold an instance and its mount: number -> start time."""
    parents, kinds = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                head, _, rest = (folder / "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = rest.split()
            parents[int(folder.name)] = int(fields[1])
            kinds[int(folder.name)] = (head.partition("(")[2], fields[19])
    below, grown = {pid}, True
    while grown:
        new = {one for one, parent in parents.items() if parent in below} - below
        below, grown = below | new, bool(new)
    names = ("appinit", "sinit", "squashfuse")
    return {one: kinds[one][1] for one in below & kinds.keys() if kinds[one][0].startswith(names)}


def living(held: dict[int, str]) -> list[int]:
    left = []
    for pid, start in held.items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX" and fields[19] == start:
            left.append(pid)
    return left


@pytest.mark.long
def test_pytorch_imports_and_trains(world: World, pytorch_image: Built, tmp_path: Path) -> None:
    base: list[str | Path] = ["--site", "local", "--image", pytorch_image.image, "--controls", "1"]
    for probe, more in (("import", ["--pairs", "2"]), ("train", ["--pairs", "1", "--steps", "3"])):
        output = tmp_path / f"{probe}.jsonl"
        world.run("bench", probe, *base, *more, "-o", output)
        series = reader.read(output)
        assert series.complete
        judged = analyse(series)
        assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
        if probe == "train":
            assert judged.losses is not None
            assert judged.losses.steps == 8


def twin_packages(world: World, built: Built, tmp_path: Path) -> Path:
    """Have the native twin made; give the folder of its packages."""
    argv = ["--site", "local", "--image", str(built.image), "--pairs", "1", "--controls", "0"]
    world.run("bench", "import", *argv, "-o", tmp_path / "twin.jsonl")
    return packages_of(native_prefix(tmp_path / "twin.jsonl"))


@pytest.mark.long
def test_pytorch_of_another_version_or_thread_count(
    world: World, pytorch_image: Built, tmp_path: Path
) -> None:
    packages = twin_packages(world, pytorch_image, tmp_path)
    # The twin's torch, file by file, but for what it says its version is.
    other = tmp_path / "other" / "torch"
    other.mkdir(parents=True)
    for entry in (packages / "torch").iterdir():
        if entry.name not in {"version.py", "__pycache__"}:
            (other / entry.name).symlink_to(entry)
    version = (packages / "torch/version.py").read_text()
    (other / "version.py").write_text(version + "\n__version__ = '2.12.0+cpu'\n")
    threads = "import os; os.environ['OMP_NUM_THREADS'] = '77'"
    base = ["--site", "local", "--image", str(pytorch_image.image), "--pairs", "1"]
    for name, pth, says in (
        ("version", (other.parent, packages), "2.12.0+cpu"),
        ("threads", (packages, threads), "77"),
    ):
        side = environment_with(tmp_path / name, *pth)
        output = tmp_path / f"{name}.jsonl"
        world.run("bench", "import", *base, "--controls", "0", "--native", side, "-o", output)
        judged = analyse(reader.read(output)).verdict
        assert judged.word == "NOT COMPARABLE"
        assert any(says in reason for reason in judged.reasons), judged.reasons
