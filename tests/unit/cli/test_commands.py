"""The command line: JSON everywhere, exit codes, overrides, no processes where none are due."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer import __version__
from dlcontainer.cli import main
from dlcontainer.formats import texts
from dlcontainer.schemas import files
from tests.publishing import image_of
from tests.values import (
    IMAGE_BASE,
    RECIPE,
    ROOT,
    SITE,
    TEMPLATES,
    folder_of,
    shipped_plan,
    shipped_variants,
    write_yaml,
)

Run = Callable[..., tuple[int, str, str]]
SLURM = ("--site", "example-slurm")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line as a user with an empty home, in an empty folder, without an engine."""
    home = tmp_path / "it's a home"
    (home / "here").mkdir(parents=True)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.setattr("sys.executable", "/no/such/python")
    monkeypatch.chdir(home / "here")

    def run(*argv: object) -> tuple[int, str, str]:
        words = [str(word) for word in argv]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def config(home: Path, name: str, data: dict[str, Any]) -> Path:
    return write_yaml(home / "it's a home/.config/dlcontainer" / name, data)


@pytest.mark.parametrize(
    ("argv", "schema"),
    [
        (["site", "list"], "sites"),
        (["site", "show", "example-slurm"], "site"),
        (["recipe", "list"], "recipes"),
        (["recipe", "show", "pytorch"], "recipe"),
        (["plan", *SLURM], "plan"),
        (["render", *SLURM], "render"),
        (["render", *SLURM, "-f", "native", "-o", "a b/"], "render"),
        (["render", *SLURM, "-f", "job", "-o", "a b/"], "render"),
        (["render", *SLURM, "-f", "job", "--form", "a"], "error"),
        (["render", *SLURM, "-f", "route"], "error"),
        (["plan", "--site", "local", "--set", "base.release=potato"], "error"),
        (["render", "--site", "nowhere"], "error"),
        (["build", *SLURM, "--dry-run"], "error"),
        (["validate", "no such.sif"], "error"),
        (["doctor"], "doctor"),
        (["site", "environment"], "explain-env"),
        (["site", "environment", "no such.sif"], "error"),
        (["plan"], "error"),
    ],
)
def test_json_is_one_object_with_a_schema_and_nothing_else(
    run: Run, argv: list[str], schema: str
) -> None:
    code, out, err = run(*argv, "--json")
    body = json.loads(out)
    assert body["schema"] == f"dlcontainer/{schema}/1"
    if schema == "error":
        assert (body["exit_code"], body["what"] in err) == (code, True)
    else:
        assert (code, err) == (1 if schema == "doctor" else 0, "")


@pytest.mark.parametrize(("noun", "key"), [("site", "arch"), ("recipe", "steps")])
def test_schemas_for_editors(run: Run, noun: str, key: str) -> None:
    code, out, err = run(noun, "schema")
    body = json.loads(out)
    assert (code, err, body["$schema"]) == (0, "", files.DIALECT)
    assert key in body["$defs"][noun.capitalize()]["required"]
    wrapped = json.loads(run(noun, "schema", "--json")[1])
    assert wrapped == {"schema": f"dlcontainer/{noun}-schema/1", "json_schema": body}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("site", "show", "example-slurm"), "site-configs/example-slurm.yaml"),
        (("site", "show", "summit@2021"), "site-configs/summit.yaml"),
        (("recipe", "show", "pytorch"), "recipes/pytorch"),
    ],
)
def test_the_path_of_what_is_to_be_copied(run: Run, words: tuple[str, ...], path: str) -> None:
    assert run(*words, "--path") == (0, f"{ROOT / path}\n", "")
    body = json.loads(run(*words, "--path", "--json")[1])
    assert body == {"schema": "dlcontainer/path/1", "path": str(ROOT / path)}


def test_site_environment_shows_names_with_their_row_and_no_value(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"LR": "s3cret", "PYTHONPATH": "s3cret", "LD_PRELOAD": "s3cret", "BASH_FUNC_x%%": "()"}
    for name, value in {**given, "DLCONTAINER_PASS": "PYTHONPATH", "DATA_HOME": "/x"}.items():
        monkeypatch.setenv(name, value)
    image = image_of(tmp_path, more={"environment": {"DATA_HOME": "/opt/data"}})
    code, out, err = run("site", "environment", image, "--json")
    assert (code, err, "s3cret" in out) == (0, "", False)
    seen = {one["name"]: one["row"] for one in json.loads(out)["variables"] if not one["goes_in"]}
    assert seen.items() >= {"LD_PRELOAD": "loader", "BASH_FUNC_x%%": "name"}.items()
    assert seen["DATA_HOME"] == "image"
    assert not {"LR", "PYTHONPATH"} & {*seen}
    code, out, _ = run("site", "environment")
    assert (code, "s3cret" in out) == (0, False)
    assert "  LD_PRELOAD" in out
    assert "DATA_HOME" in out.splitlines()[1]


def test_people_read_text(run: Run) -> None:
    code, out, _ = run("site", "list")
    assert (code, out.splitlines()[0]) == (0, "active")
    assert out.splitlines()[1].split()[:2] == ["target", "accelerator"]
    assert "status" not in out
    code, short, _ = run("plan", *SLURM)
    assert code == 0
    assert "apptainer, not tried here: run `dlcontainer doctor`" in short
    assert short.splitlines()[0].startswith("image ")
    assert "not cuda-12.4: " not in short
    assert "environment.OMP_PROC_BIND" not in short
    assert "-v shows " in short
    code, out, _ = run("plan", *SLURM, "-v")
    assert "not cuda-12.4: " in out
    assert "environment.OMP_PROC_BIND" in out
    assert "site (site-configs/example-slurm.yaml:" in out
    assert (
        run("recipe", "show", "pytorch", "-v")[1].count("recipe (recipes/pytorch/recipe.yaml:") > 10
    )
    listed = run("recipe", "list")[1]
    assert "{{" not in listed
    assert re.search(r"^pytorch +\S", listed, re.MULTILINE)
    summit = run("plan", "pytorch", "--site", "summit")[1]
    assert summit.count("no promise") == 3
    assert summit.count("not known at summit-2024, so not promised") == 1
    assert "unknown at the site" not in summit
    assert run("--version") == (0, f"dlcontainer {__version__}\n", "")


# The site documents no other way to build.
@pytest.mark.parametrize("form", [form for form in texts.FORMATS if form != "route"])
def test_render_gives_the_golden_text_and_nothing_else(run: Run, form: texts.Format) -> None:
    plan = shipped_plan("example-slurm", "pytorch")
    wanted = texts.text(plan, form, [TEMPLATES])
    assert run("render", "pytorch", *SLURM, "--format", form) == (0, wanted, "")


def test_render_into_files(run: Run, tmp_path: Path) -> None:
    here = Path.cwd()
    code, out, err = run("render", *SLURM, "-o", "it's new/")
    assert (code, out) == (0, "wrote it's new: Dockerfile, README.txt, apptainer.def\n")
    assert err == "note: the base is missing (base.sqfs, rootfs.tar); to get it: add --with-base\n"
    assert (here / "it's new/files/00-verify.py").is_file()
    code, out, err = run("render", *SLURM, "-o", "one file.def")
    assert (code, out) == (0, "wrote one file.def\n")
    assert err == "note: the base is missing (base.sqfs); to get it: -o FOLDER/ --with-base\n"
    assert (here / "one file.def").read_text() == (here / "it's new/apptainer.def").read_text()
    code, out, err = run("render", *SLURM, "-o", "one file.def/below/x")
    assert (code, out) == (3, "")
    assert "can't write one file.def/below/x: Not a directory" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["plan"], "Missing option '--site'"),
        (["plan", *SLURM, "--nope"], "No such option: --nope"),
        (["plan", *SLURM, "a", "b"], "unexpected extra argument"),
        (["plna"], "No such command 'plna'"),
        (["render", *SLURM, "--format", "docker"], "'-f': 'docker' is not one of"),
        (["render", *SLURM, "--form", "a"], "--nodes apply to job scripts only"),
        (["render", *SLURM, "--nodes", "2"], "--nodes apply to job scripts only"),
        (["build", *SLURM, "--engine", "docker-compose"], "'docker-compose' is not"),
        (["plan", *SLURM, "--set", "no value"], "expected KEY=VALUE"),
        (["plan", *SLURM, "--set", "a="], "no VALUE after '='"),
        (["plan", *SLURM, "--set", "a={b: 1}"], "VALUE must be a scalar or a [list]"),
        (["plan", *SLURM, "--set", "site=local"], "a site is not a single value"),
    ],
)
def test_a_command_line_that_makes_no_sense(run: Run, argv: list[str], message: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("dlcontainer: ")
    assert message in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["plan", "--site", "example-slrum"],
            "there is no site config named 'example-slrum'; did you mean",
        ),
        (["plan", "--site", "zzz"], "there is no site config named 'zzz'; known: "),
        (
            ["plan", "pytroch", *SLURM],
            "there is no recipe named 'pytroch'; did you mean 'pytorch'?",
        ),
        (["site", "show", "../local"], "../local: cannot be read: "),
        (
            ["plan", *SLURM, "--set", "version.torch=1"],
            "version: a site cannot override this key; did you",
        ),
        (["plan", *SLURM, "--set", "steps=[]"], "steps: a site cannot override this key"),
        (["plan", *SLURM, "--set", "site.arch=x86"], "--set site.arch=…: arch: expected one of"),
        (["plan", *SLURM, "--set", "environment.A={{ nope }}"], "VALUE"),
        (
            ["plan", *SLURM, "--set", "environment.A=x{{ nope }}"],
            "…: template: 'nope' is undefined",
        ),
    ],
)
def test_names_and_values_that_are_not_known(run: Run, argv: list[str], message: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2 if message == "VALUE" else 3, "")
    assert message in err


def test_what_a_job_asks_for_is_an_option(run: Run) -> None:
    options = ("--account", "7", "--nodes", "3", "--time", "90:00")
    _, out, _ = run("render", *SLURM, "--format", "job", *options)
    assert out.splitlines()[1:5] == [
        f"#SBATCH --{word}" for word in ("account=7", "partition=batch", "time=01:30:00", "nodes=3")
    ]
    code, _, err = run("render", "--site", "local", "--format", "job", "--account", "me")
    assert (code, "jobs of this site cannot request account" in err) == (3, True)
    code, _, err = run("render", *SLURM, "--format", "job", "--account", "me; rm")
    assert (code, "not a name of a scheduler: 'me; rm'" in err) == (3, True)


def test_a_setting_arrives(run: Run) -> None:
    _, out, _ = run(
        *("plan", *SLURM, "--json", "--set", "environment.OMP_NUM_THREADS=4"),
        *("--set", "site.environment.BY_SITE=it's"),
    )
    body = json.loads(out)
    environment = body["content"]["environment"]
    assert (environment["OMP_NUM_THREADS"], environment["BY_SITE"]) == ("4", "it's")
    assert body["origins"]["environment.OMP_NUM_THREADS"] == "--set"


def test_the_users_own_folder(run: Run, tmp_path: Path) -> None:
    config(tmp_path, "site-configs/mine.yaml", {**SITE, "name": "mine", "default_recipe": "own"})
    folder = config(tmp_path, "recipes/own/recipe.yaml", {**RECIPE, "name": "own"}).parent
    (folder / "verify.py").write_text("print('{}')\n")
    overrides = {
        "sites": {"mine": {"environment": {"A": "of the site"}}},
        "recipes": {"own": {"environment": {"B": "of the recipe"}, "base": IMAGE_BASE}},
    }
    path = config(tmp_path, "overrides.yaml", overrides)
    code, out, err = run("plan", "--site", "mine", "--json")
    assert (code, err) == (0, "")
    body = json.loads(out)
    environment = {"A": "of the site", "B": "of the recipe", "LANG": "C.UTF-8"}
    assert body["content"]["environment"] == environment
    assert body["origins"]["environment.B"].startswith(f"user ({path}:")
    path.write_text("recipe:\n  own: {}\n")
    code, _, err = run("plan", "--site", "mine")
    assert (code, err.splitlines()[0]) == (
        3,
        f"dlcontainer: {path}:1:1: recipe: unknown key; did you mean 'recipes'?",
    )


def test_a_user_s_recipe_over_a_shipped_one(run: Run, tmp_path: Path) -> None:
    step = {"name": "more", "python_packages": {"packages": ["einops==0.8.1"]}}
    own: dict[str, Any] = {
        "name": "mine",
        "extends": "pytorch",
        "summary": "PyTorch and more",
        "steps": [step],
    }
    own["variants"] = {"ngc": {"refused": "its packages are the image's own"}}
    file = config(tmp_path, "recipes/mine/recipe.yaml", own)
    code, out, err = run("plan", "mine", "--site", "alps", "--json")
    assert (code, err) == (0, "")
    body = json.loads(out)
    assert body["variant"]["name"] == "cuda-13-arm"
    assert (body["system"]["glibc"], body["system"]["python"]) == ("2.39", "3.12")
    first, last = body["pins"][0], body["pins"][-1]
    assert first["origin"].startswith("recipes/pytorch/variants/cuda-13-arm.yaml:")
    assert last == {"package": "einops==0.8.1", "origin": f"{file}:8", "step": "more"}
    code, _, err = run("plan", "mine", "--site", "alps", "--variant", "ngc")
    assert code == 8
    assert f"refused by the recipe: its packages are the image's own ({file}:11:5)" in err
    assert run("recipe", "show", "mine", "--path")[1] == f"{file.parent}\n"
    assert "PyTorch and more" in run("recipe", "list")[1]
    # What pins the base of the parent recipe holds for what lies over it.
    overrides = {"recipes": {"pytorch": {"environment": {"B": "of the parent recipe"}}}}
    config(tmp_path, "overrides.yaml", overrides)
    body = json.loads(run("plan", "mine", "--site", "alps", "--json")[1])
    assert body["content"]["environment"]["B"] == "of the parent recipe"
    own["extends"] = "pytroch"
    config(tmp_path, "recipes/mine/recipe.yaml", own)
    code, _, err = run("plan", "mine", "--site", "alps")
    said = "extends: there is no recipe named 'pytroch'; did you mean 'pytorch'?"
    assert (code, err.splitlines()[0]) == (3, f"dlcontainer: {file}:2:1: {said}")


def test_files_by_path(run: Run, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    site = write_yaml(tmp_path / "it's a site.yaml", SITE)
    by_folder = run("render", f"{folder}", "--site", site)
    assert by_folder == run("render", folder / "recipe.yaml", "--site", site)
    assert by_folder[1].startswith("# demo 1.0 for site demo (x86_64)\n")


def test_a_recipe_that_calls_itself_another(run: Run, tmp_path: Path) -> None:
    folder = folder_of(tmp_path).rename(tmp_path / "other")
    file = config(tmp_path, "recipes/mytool/recipe.yaml", {})
    shutil.copytree(folder, file.parent, dirs_exist_ok=True)
    site = write_yaml(tmp_path / "own.yaml", SITE)
    code, out, err = run("plan", "mytool", "--site", site)
    assert (code, out) == (3, "")
    assert f"{file}:2:1: name: 'demo', but the recipe's folder is 'mytool'\n" in err
    assert "  next: write `name: mytool`, or rename the folder\n" in err
    assert run("plan", file.parent, "--site", site)[0] == 0  # by its path it is what it says


@pytest.mark.parametrize(
    ("recipe", "key", "given", "version"),
    [
        ("pytorch", "torch", "2.5.1+cpu", "2.5.1"),
        ("tensorflow", "tensorflow", "2.20.0", "2.20.0"),
        ("horovod", "horovod", "0.27.0", "0.27.0"),
        ("mxnet", "mxnet", "1.9.0", "1.9.0"),
    ],
)
def test_another_version_is_another_image(
    run: Run, recipe: str, key: str, given: str, version: str
) -> None:
    code, out, err = run("plan", recipe, *SLURM, "--set", f"versions.{key}={given}", "--json")
    assert (code, err) == (0, "")
    body = json.loads(out)
    assert body["content"]["recipe"]["version"] == version
    assert body["name"] == f"{recipe}-{version}-example-slurm"


def test_no_shipped_variant_fixes_its_version() -> None:
    for name, variant in shipped_variants():
        assert "version" not in variant.get("changes", variant), name


def test_no_engine_says_how_to_get_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sif").write_bytes(b"\0" * 32 + b"SIF_MAGIC\0" + b"01\0" + b"02\0")
    for argv in (["build", *SLURM], ["validate", tmp_path / "a.sif"]):
        code, _, err = run(*argv)
        assert code == 4
        assert "neither Apptainer nor Singularity is on PATH" in err
        assert "next: run `make setup`" in err
    code, out, err = run("doctor")
    assert (code, "error    engine: " in out) == (1, True)
    assert "can't build or run images here: engine" in err


def test_what_is_no_image_needs_no_engine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "it's text.sif").write_text("text")
    code, _, err = run("validate", tmp_path / "it's text.sif")
    assert (code, "is not a SIF image" in err) == (1, True)


@pytest.mark.parametrize("command", ["validate", "inspect", "diff", "publish"])
def test_a_mistyped_path_is_no_bad_image(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    more = ("--site", "local", "--root", tmp_path) if command == "publish" else ()
    for name, says in (
        ("nowhere.sif", "No such file or directory"),
        ("a folder", "Is a directory"),
        ("dangling", "No such file or directory"),
    ):
        path = tmp_path / name
        names = (path, path) if command == "diff" else (path,)
        code, out, err = run(command, *names, *more)
        assert (code, out) == (2, "")
        assert err.startswith(f"dlcontainer: can't read {path}: {says}\n")


def test_the_three_roads_are_as_the_page_says(run: Run, tmp_path: Path) -> None:
    """Type the commands of the page that need neither the site's machine nor a network."""
    page = (ROOT / "docs/centre/from-plan-to-proof.md").read_text()
    lines = re.findall(r"^\$ dlcontainer ((?:plan|render) .*)$", page, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        code, out, err = run(*line.split())
        assert code == (8 if "--variant" in line else 0), f"{line}\n{err}"
        if line.startswith("plan") and "lumi" not in line:
            assert f"images/{out.split()[1]}.sif" in page
        if line.startswith("render"):
            text = (tmp_path / "it's a home/here/job.sh").read_text()
            assert re.search(r"^#SBATCH (--nodes=|-N )2$", text, re.MULTILINE)
            (tmp_path / "it's a home/here/job.sh").unlink()
