"""The texts of every combination that makes sense, compared whole with the golden files."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from spython.main.parse.parsers import SingularityParser

from dlcontainer.cli import matrix
from dlcontainer.formats import build_context, texts
from dlcontainer.formats.texts import FILE_NAMES, Format
from dlcontainer.planning.plan import Plan
from tests.values import GOLDEN, HOST, TEMPLATES, host, shipped_matrix, shipped_plan

MATRIX = shipped_matrix()
PLANS = {one.plan.name: one.plan for one in MATRIX if one.plan is not None}
# The matrix has the usual variant of a kind; of the others one site shows what they look like.
PLANS |= {plan.name: plan for plan in [shipped_plan("local", "horovod", "tensorflow")]}
# A twin is another text for every distribution's base; two show it.
WITH_TWIN = ("local", "example-slurm")
LOCAL = PLANS["pytorch-2.13.0-local"]


def forms(plan: Plan) -> list[Format]:
    return [
        form for form in texts.formats_of(plan) if form != "native" or plan.site.name in WITH_TWIN
    ]


def golden(name: str, form: Format) -> Path:
    return GOLDEN / name / FILE_NAMES[form]


def render(plan: Plan, form: Format) -> str:
    return texts.text(plan, form, [TEMPLATES])


def compare(text: str, path: Path) -> None:
    assert text == path.read_text(), f"not {path}; if it is meant to be so: make golden"


@pytest.fixture(scope="session", autouse=True)
def _update(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-golden"):
        return
    for folder in GOLDEN.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for name, plan in PLANS.items():
        (GOLDEN / name).mkdir()
        for form in forms(plan):
            golden(name, form).write_text(render(plan, form))
    (GOLDEN / "matrix.txt").write_text(matrix.table(MATRIX) + "\n")


def test_no_shipped_file_is_wrong() -> None:
    assert [str(one.error) for one in MATRIX if one.error] == []


def test_names_are_unique() -> None:
    settled = [one.plan.name for one in MATRIX if one.plan is not None]
    assert len(PLANS) == len(settled) + 1
    assert len(settled) == len(set(settled))


@pytest.mark.parametrize("name", PLANS)
def test_golden_files(name: str) -> None:
    for form in forms(PLANS[name]):
        compare(render(PLANS[name], form), golden(name, form))


def test_the_matrix_and_what_makes_no_sense_in_it() -> None:
    compare(matrix.table(MATRIX) + "\n", GOLDEN / "matrix.txt")


@pytest.mark.parametrize("form", forms(LOCAL))
def test_an_appended_line_fails(form: Format, tmp_path: Path) -> None:
    longer = tmp_path / "golden"
    longer.write_text(golden(LOCAL.name, form).read_text() + "one more\n")
    with pytest.raises(AssertionError, match="make golden"):
        compare(render(LOCAL, form), longer)
    with pytest.raises(AssertionError, match="make golden"):
        compare(render(LOCAL, form) + "\n", golden(LOCAL.name, form))


def test_there_are_no_other_golden_files() -> None:
    found = {path for path in GOLDEN.rglob("*") if path.is_file()}
    texts_ = {golden(name, form) for name, plan in PLANS.items() for form in forms(plan)}
    # ReFrame's are compared by test_reframe.py.
    found -= set(GOLDEN.glob("reframe-*.txt"))
    assert found == texts_ | {GOLDEN / "README.md", GOLDEN / "matrix.txt"}


@pytest.mark.parametrize("form", texts.formats_of(LOCAL))
def test_the_host_is_in_no_text(form: Format) -> None:
    environ = {
        "http_proxy": "http://user:secret@proxy.example:3128",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "SSL_CERT_FILE": "/etc/secret-ca.pem",
        "HOME": "/home/hidden",
    }
    other = host(environ=environ, home=Path("/home/hidden"), user="hidden", kernel="9.9-hidden")
    text = render(shipped_plan("local", on=other), form)
    assert text == render(LOCAL, form)
    for trace in ("hidden", "secret", "proxy", "mirror.example"):
        assert trace not in text


class Reader(SingularityParser):  # type: ignore[misc]
    """spython's parser of definition files; it knows local images, but refuses them."""

    def _check_bootstrap(self, line: str) -> None:
        self.bootstrap = line


def read(path: Path) -> tuple[str, Any]:
    reader = Reader(str(path))
    return reader.bootstrap, reader.recipe[reader.active_layer]


@pytest.mark.parametrize(
    "plan", [p for p in PLANS.values() if p.site.name in WITH_TWIN and not p.recipe.base.image]
)
def test_an_independent_reader_sees_what_is_meant(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    build_context.write(plan, "apptainer", render(plan, "apptainer"), f"{folder}/")
    bootstrap, seen = read(folder / "apptainer.def")
    assert (bootstrap, seen.fromHeader) == ("Bootstrap: localimage", "base.sqfs")
    assert [line.split() for line in seen.files] == [
        ["files/manifest.json", "/opt/dlcontainer/manifest.json"],
        ["files/00-verify.py", "/opt/dlcontainer/verify.py"],
        ["files/probe", "/opt/dlcontainer/probe"],
    ]
    assert all((folder / line.split()[0]).exists() for line in seen.files)
    labels = dict(line.split(" ", 1) for line in seen.labels)
    assert labels["org.dlcontainer.digest"] == f"sha256:{plan.digest}"
    assert labels["org.opencontainers.image.description"] == plan.recipe.summary
    environ = dict(line.split("=", 1) for line in seen.environ)
    assert environ.pop("PATH").startswith(f"{plan.recipe.prefix}/bin:/usr/local/sbin:")
    assert environ == dict(plan.environment)
    assert seen.install[0] == "set -eu"
    assert seen.cmd == 'exec "$@"'
    steps = [line for line in seen.install if line.startswith('echo "==> step')]
    named = [line.split()[-1].rstrip('"') for line in steps]
    done = [step.name for step in plan.recipe.steps]
    assert [name for name in named if name in done] == done
    assert len(steps) == int(steps[0].split("/")[1].split()[0])


def test_the_recorded_host_is_the_twins() -> None:
    assert not [note for note in LOCAL.notes if "twin" in note]
    assert LOCAL.recipe.base.release == HOST.release
    newer = shipped_plan("local", on=host(release="trixie"))
    assert newer.recipe.base.release == "trixie"
