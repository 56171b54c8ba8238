"""ReFrame's texts: byte for byte, and inert whatever stands in names."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.bench.probes import PROBES
from dlcontainer.cli import main
from dlcontainer.errors import ConfigError
from dlcontainer.formats import reframe
from dlcontainer.formats.reframe import MetricReference, ReframeRequest, Tasks
from dlcontainer.sites.site import Site, SiteTarget
from tests.goldens import compare
from tests.values import GOLDEN, TEMPLATES, shipped_site

# No line break can stand in a fact of a site; in a path one can.
HOSTILE = 'a\'b"""c\\ $(touch x) `id` {{ x }} {% x %} \u00e9\u2028\U0001f600'
NODE_TYPES: dict[str, tuple[str | None, ...]] = {
    "summit": (None,),
    "example-slurm": (None,),
    "polaris": (None,),
    "perlmutter": ("gpu", "cpu"),
}


@cache
def sites_of(name: str) -> tuple[Site, ...]:
    return tuple(shipped_site(name, SiteTarget(node_type=kind)).value for kind in NODE_TYPES[name])


def wanted(**changes: Any) -> ReframeRequest:
    base: dict[str, Any] = {
        "site": "summit",
        "image": Path("/images/pytorch.sif"),
        "probes": ("import", "train"),
        "stepped": ("train",),
        "words": ("--pairs", "8", "--seed", "4"),
        "metrics": {
            "import": {"max_rss_mb": ["counts.max_rss_mb", "MB"]},
            "train": {"step_p95_s": ["step_p95_s", "s"]},
        },
        "references": {"import": {"ratio": MetricReference(value=1.0, highest=0.05)}},
    }
    return ReframeRequest(**{**base, **changes})


def texts(name: str) -> dict[str, str]:
    sites = sites_of(name)
    return {
        f"reframe-{name}-test.txt": reframe.test(sites[0], wanted(site=name), [TEMPLATES]),
        f"reframe-{name}-settings.txt": reframe.settings(sites, [TEMPLATES]),
    }


@pytest.mark.parametrize("name", NODE_TYPES)
def test_golden_texts(name: str, request: pytest.FixtureRequest) -> None:
    for file, text in texts(name).items():
        if request.config.getoption("--update-golden"):
            (GOLDEN / file).write_text(text)
        compare(text, GOLDEN / file)


def constants(text: str) -> dict[str, object]:
    """Give the values that a text's names are set to, as Python reads them; nothing is run."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def shape(text: str) -> list[str]:
    return [type(node).__name__ for node in ast.walk(ast.parse(text))]


def test_hostile_names_are_text() -> None:
    site = sites_of("example-slurm")[0]
    hostile = site.model_copy(
        update={
            "summary": HOSTILE,
            "scheduler": site.scheduler.model_copy(update={"directives": (f"#SBATCH {HOSTILE}",)}),
            "jobs": site.jobs.model_copy(update={"modules": (f"load {HOSTILE}",)}),
        }
    )
    given = wanted(image=Path(f"/{HOSTILE}\n.sif"), site=f"/{HOSTILE}", words=(HOSTILE, "\n"))
    text = reframe.test(hostile, given, [TEMPLATES])
    assert text.isascii()
    said = constants(text)
    assert (said["IMAGE"], said["SITE"]) == (f"/{HOSTILE}\n.sif", f"/{HOSTILE}")
    assert said["BENCH"] == [HOSTILE, "\n"]
    assert shape(text) == shape(reframe.test(site, wanted(words=("a", "b")), [TEMPLATES]))
    (system,) = constants(reframe.settings([hostile], [TEMPLATES]))["site_configuration"]["systems"]  # type: ignore[index]
    assert system["descr"] == HOSTILE
    (partition,) = system["partitions"]
    assert partition["access"] == [HOSTILE, "--partition=batch"]
    # Words of a shell: what a shell would run in them is quoted.
    (command,) = partition["prepare_cmds"]
    assert command.startswith("module load 'a'\"'\"'b")
    assert "'$(touch'" in command


@given(st.text())
def test_any_text_is_a_literal(text: str) -> None:
    written = reframe.literal(text)
    assert ast.literal_eval(written) == text
    assert written.isascii()
    assert written.isprintable()


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=9))
def test_any_tree_is_a_literal(tree: object) -> None:
    assert ast.literal_eval(reframe.literal(tree)) == tree


def test_what_reframe_writes_itself_is_left_out() -> None:
    access = {name: reframe._access(sites_of(name)[0]) for name in NODE_TYPES}
    assert access == {
        "summit": ["-P ABC123", "-q batch", '-alloc_flags "smt4 nvme"'],
        "example-slurm": ["--partition=batch"],
        "polaris": ["-l filesystems=home:eagle", "-q debug", "-A ABC123"],
        "perlmutter": ["-A ABC123_g", "-C gpu", "-q regular", "--exclusive"],
    }


def test_no_backend_for_a_scheduler() -> None:
    with pytest.raises(ConfigError, match="cannot submit jobs to cobalt") as caught:
        reframe.test(shipped_site("theta").value, wanted(), [TEMPLATES])
    assert caught.value.next_step


def test_names_that_reframe_takes() -> None:
    site = sites_of("example-slurm")[0]
    assert reframe.system(site.model_copy(update={"name": "3.x-y"})) == "_3_x-y"


def export(folder: Path, *words: str) -> int:
    argv = ["export", "reframe", "--site", "local", "--image", "x.sif", "-o", str(folder / "t.py")]
    return main._run([*argv, *words], as_json=False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "--pair", "8"], "--pairs"),
        (["--", "-o", "x"], "-o after --"),
        (["--", "--image=x"], "--image after --"),
        (["--", "--resume", "x"], "--resume after --"),
        (["--", "--native", "../x"], "give the absolute path"),
        (["--", "--recipe", "a/b"], "give the absolute path"),
        (["--", "--pairs", "many"], "valid integer"),
        (["--", "--pairs", "0"], "at least 1"),
        (["--", "--looks", "8,7"], "strictly increasing"),
        (["--", "--margin", "2"], "a share from"),
        (["--", "--arms", "unpacked,container"], "the test compares native and container"),
        (["--", "--backend", "gloo"], "--backend applies to 'bench collectives' only"),
        (["--", "--ranks-per-node", "2"], "require --ranks"),
        (
            ["--", "--ranks", "5", "--ranks-per-node", "2", "--nodes", "2"],
            "--nodes 2 does not match 5 ranks at 2 per node",
        ),
        (["--probe", "collectives"], "bench collectives needs at least 2 ranks"),
        (["--probe", "collectives", "--", "--ranks", "1"], "needs at least 2 ranks"),
        *(
            (["--probe", f"import,{name}", "--", "--ranks", "2"], f"bench {name}: ")
            for name in ("kernels", "threads", "input", "convergence", "transfers")
        ),
        (["--probe", "imprt"], "did you mean 'import'"),
        (["--reference", "import.rato=1"], "did you mean 'import.ratio'"),
        (["--reference", "train.ratio=1"], "no figure 'train.ratio'"),
        (["--reference", "import.ratio"], "no figure"),
        (["--reference", "import.ratio=x"], "not VALUE"),
        (["--reference", "import.ratio=nan"], "not VALUE"),
        (["--reference", "import.ratio=1,2,3,4"], "not VALUE"),
        (["--reference", "import.ratio=1,0.1"], "bounds must include"),
    ],
)
def test_bad_input(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(tmp_path, *words) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_asked_for_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--reference", "import.native=2,,0.5", "--settings", str(tmp_path / "s.py")]
    assert export(tmp_path, *words, "--", "--pairs", "8") == 0
    assert "--system=local:default" in capsys.readouterr().out
    said = constants((tmp_path / "t.py").read_text())
    assert said["REFERENCES"] == {"import": {"native": (2.0, None, 0.5)}}
    assert said["IMAGE"] == str(Path("x.sif").absolute())
    (system,) = constants((tmp_path / "s.py").read_text())["site_configuration"]["systems"]  # type: ignore[index]
    assert [part["scheduler"] for part in system["partitions"]] == ["local"]


@pytest.mark.parametrize("probe", PROBES)
def test_every_probe_is_exported_with_its_own_figures(probe: str, tmp_path: Path) -> None:
    ranks = max(PROBES[probe].least_ranks, 0 if PROBES[probe].alone else 4)
    words = ["--ranks", str(ranks), "--ranks-per-node", str(ranks)] if ranks else []
    reference = ["--reference", f"{probe}.max_rss_mb=1000,,0.1"]
    assert export(tmp_path, "--probe", probe, *reference, "--", *words) == 0
    said = constants((tmp_path / "t.py").read_text())
    assert (said["num_tasks"], said["num_tasks_per_node"]) == (ranks or 1, ranks or 1)
    assert said["exclusive_access"] is True
    own = said["METRICS"][probe]  # type: ignore[index]
    assert own["max_rss_mb"] == ["counts.max_rss_mb", "MB"]
    assert [name for name, _ in own.values()] == [m.name for m in PROBES[probe].metrics[1:]]
    # The name of each is its own: none hides one that all tests have.
    assert not own.keys() & reframe.UNITS.keys()
    assert said["REFERENCES"] == {probe: {"max_rss_mb": (1000.0, None, 0.1)}}


def test_ranks_on_several_nodes() -> None:
    tasks = Tasks(ranks=6, per_node=4, nodes=2)
    site = sites_of("example-slurm")[0]
    said = constants(reframe.test(site, wanted(tasks=tasks), [TEMPLATES]))
    assert (said["num_tasks"], said["num_tasks_per_node"]) == (6, 4)


@pytest.mark.parametrize(
    ("site", "tasks", "says"),
    [
        ("summit", Tasks(ranks=2, per_node=2), "lsf runs job scripts on a batch node"),
        ("local", Tasks(ranks=2, nodes=2), "this site has no scheduler"),
    ],
)
def test_ranks_that_no_test_can_start(site: str, tasks: Tasks, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reframe.test(shipped_site(site).value, wanted(tasks=tasks), [TEMPLATES])
    assert says in str(caught.value.why)
    assert caught.value.next_step


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    assert export(tmp_path / "no") == 7
