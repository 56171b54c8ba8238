"""The arms of a job session: the site's own script, with and without the engine."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import scripts
from dlcontainer.bench.job.scripts import FOLDER, JobFrame, NativeSide, Placing, RankSearch
from dlcontainer.errors import UsageError
from dlcontainer.planning.plan import Plan
from tests.jobs import plan_at
from tests.jobsessions import steps_declared
from tests.values import TEMPLATES

FORM = {"summary": "f", "ranks_per_node": 4,
        "launcher": ["srun", "-n{ranks}", "--ntasks-per-node={ranks_per_node}"]}  # fmt: skip
ANY = Placing(nodes=None, tasks_per_node=None, form=None)


def arms(
    plan: Plan,
    placing: Placing = ANY,
    search: RankSearch = RankSearch(first_step="step"),  # noqa: B008
) -> dict[Any, str]:
    native = NativeSide(prefix=Path("/sw/my env"), environment={"A": "b $c", "LANG": "d $e"})
    return dict(scripts.arms(plan, native, search, placing, [TEMPLATES]))


def runs(text: str) -> str:
    """Give what each rank runs, as one line."""
    [found] = re.findall(r"\n    set -- (.*?) \"\$\{dlc_command\[@\]\}\"\n", text, re.DOTALL)
    return " ".join(found.replace("\\\n", " ").split())


def test_the_arms_differ_by_the_engine_alone(tmp_path: Path) -> None:
    site: dict[str, Any] = {
        "scheduler": {"kind": "slurm", "forms": {"a": FORM}},
        "jobs": {
            "inside": {"OMP_NUM_THREADS": "4"},
            "prefix": ["numactl", "-l"],
            "staging": {"how": "sbcast", "to": "/tmp"},
        },
        "modules": {"keep_mounted": 60},
    }
    both = arms(plan_at(tmp_path, **site))
    native, container = runs(both["native"]), runs(both["container"])
    clock = f"python3 -I -S {FOLDER}/../rank_clock.py rank {FOLDER} '{scripts.MARK}' step '' --"
    assert native.startswith(f"{clock} numactl -l env LANG='d $e' OMP_NUM_THREADS=4 /bin/sh -c ")
    # The user's value wins on both sides, or the image's does.
    assert "\n    [ -n \"${A+x}\" ] || export A='b $c'\n" in both["native"]
    assert native.endswith(" dlc-native '/sw/my env'")
    assert container.startswith(f"{clock} numactl -l ")
    assert container.endswith('"$dlc_image"')
    # An image is staged and mounted; a folder is not.
    assert "sbcast" in both["container"]
    assert "sbcast" not in both["native"]
    assert "sif list" not in both["native"]
    assert 'srun -n"$dlc_ranks"' in both["native"]


def test_as_many_ranks_as_asked_for(tmp_path: Path) -> None:
    form = plan_at(tmp_path, scheduler={"kind": "slurm", "forms": {"a": FORM}})
    two = Placing(nodes=2, tasks_per_node=2, form=None)
    assert "dlc_ranks_per_node=2 " in arms(form, two)["container"]
    words = {"kind": "slurm", "launcher": ["srun"], "resources": {"nodes": 2}}
    plain = plan_at(tmp_path / "b", scheduler=words)
    text = arms(plain, two)["native"]
    assert "dlc_launcher=(srun --nodes=2 --ntasks=4 --ntasks-per-node=2)" in text
    assert "#SBATCH --ntasks-per-node=2" in scripts.head(plain, two)
    assert "#SBATCH --nodes=2" in scripts.head(plain, two)
    # A launcher without a number takes that of the lines, which therefore is the one asked for.
    lines = {"directives": ["#SBATCH --ntasks-per-node=4", "#SBATCH -c 8"]}
    counting = plan_at(tmp_path / "d", scheduler={"kind": "slurm", "forms": {"a": FORM}, **lines})
    assert scripts.head(counting, two) == ("#SBATCH --ntasks-per-node=2", "#SBATCH -c 8")
    inside = {"a": {**FORM, "inside": "torchrun"}}
    starter = plan_at(
        tmp_path / "e",
        recipe={"exposes": ["python", "torchrun"]},
        scheduler={"kind": "slurm", "forms": inside, **lines},
    )
    assert scripts.head(starter, two)[0] == "#SBATCH --ntasks-per-node=4"
    # Without a number all is the site's.
    assert "dlc_launcher=(srun)" in arms(plain)["native"]
    none = plan_at(tmp_path / "c", scheduler={"kind": "none"})
    one = Placing(nodes=None, tasks_per_node=3, form=None)
    assert "dlc_launcher=(mpirun -n 3)" in arms(none, one)["native"]
    assert scripts.head(none, one) == ()
    with pytest.raises(UsageError, match="--nodes 2: site demo has no scheduler"):
        arms(none, two)


def test_a_runtime_that_takes_no_file(tmp_path: Path) -> None:
    plan = plan_at(tmp_path, engine={"runtime": "shifter"})
    with pytest.raises(UsageError, match="starts images with shifter"):
        arms(plan)


def test_a_frame_stamps_around_its_arm(tmp_path: Path) -> None:
    folder = tmp_path / "it's 1"
    folder.mkdir()
    framing = JobFrame(
        command=("python", "a b.py"), search=RankSearch(first_step="s"), cwd=Path("/home/u v"),
        image=Path("/i/x.sif"), head=("#SBATCH -N 2",),
    )  # fmt: skip
    frame = scripts.write(folder, "container", f"run {FOLDER}/x\n", framing)
    lines = frame.read_text().splitlines()
    assert lines[:3] == ["#!/bin/bash", "#SBATCH -N 2", "cd '/home/u v' || exit 3"]
    assert "export DLCONTAINER_IMAGE=/i/x.sif" in lines
    begun, ended = (next(n for n, x in enumerate(lines) if w in x) for w in ("began", "ended"))
    ran = next(n for n, line in enumerate(lines) if line.startswith("bash "))
    assert begun < ran < ended
    assert lines[ran].endswith(f"dlc-begin '{scripts.MARK}' 1 '' python 'a b.py'")
    assert (folder / "arm.sh").read_text() == f"run '{tmp_path}/it'\"'\"'s 1'/x\n"
    native = scripts.write(folder, "native", "x\n", framing).read_text()
    assert "export DLCONTAINER_IMAGE" not in native


def test_the_hook_is_shown_in_the_image_and_named_to_python(tmp_path: Path) -> None:
    search = RankSearch(steps=steps_declared())
    both = arms(plan_at(tmp_path), search=search)
    assert f"--bind {FOLDER}" in runs(both["container"])
    assert "--bind" not in runs(both["native"])
    marked = RankSearch(steps=steps_declared(source="output", mark="s p"))
    both = arms(plan_at(tmp_path), search=marked)
    assert f"--bind {FOLDER}" not in both["container"]
    assert f"'{scripts.MARK}' '' 's p' --" in runs(both["container"])


@pytest.mark.parametrize(
    ("search", "words", "left"),
    [
        (RankSearch(), "'' '' python", []),
        (RankSearch(steps=steps_declared(source="output", mark="s")), "1 '' python", ["events"]),
        (RankSearch(steps=steps_declared()), "'' FOLDER python", ["events", "hook"]),
    ],
)
def test_a_frame_has_what_steps_take(
    tmp_path: Path, search: RankSearch, words: str, left: list[str]
) -> None:
    framing = JobFrame(
        command=("python",), search=search, cwd=tmp_path, image=Path("/i/x.sif"), head=()
    )
    text = scripts.write(tmp_path, "native", "x\n", framing).read_text()
    assert words.replace("FOLDER", str(tmp_path)) in text
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == left
    hook = [path.name for path in tmp_path.glob("hook/*")]
    assert sorted(hook) == (["event_stamps.py", "sitecustomize.py"] if "hook" in left else [])


@pytest.mark.parametrize(("before", "after"), [(None, "F/hook"), ("/a b", "F/hook:/a b")])
def test_the_first_process_of_a_command_tells_python(
    real_processes: None, before: str | None, after: str
) -> None:
    script = 'echo "$PYTHONPATH|$DLCONTAINER_EVENTS|$PYTHONUNBUFFERED|$*"'
    given = {"PYTHONPATH": before} if before else {}
    for folder, unbuffered, says in (
        ("F", "", f"{after}|F/events||a b"),
        ("", "1", f"{before or ''}||1|a b"),
    ):
        words = ["/bin/sh", "-c", scripts._BEGIN, "dlc-begin", "MARK", unbuffered, folder]
        done = subprocess.run(
            [*words, "/bin/sh", "-c", script, "sh", "a b"], env=given,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == f"MARK\n{says}\n"
