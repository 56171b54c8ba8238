"""The texts of the shipped recipe, compared whole with the golden files (make golden)."""

from pathlib import Path
from typing import Any

import pytest
from spython.main.parse.parsers import SingularityParser

from dlcontainer.formats import context, texts
from dlcontainer.formats.texts import FILE_NAMES, FORMATS, Format
from dlcontainer.plan import Plan
from tests.values import GOLDEN, HOST, TEMPLATES, host, shipped_plan

SITES = ("local", "example-slurm")
PLANS = {site: shipped_plan(site) for site in SITES}
CASES = [(site, form) for site in SITES for form in FORMATS]


def golden(site: str, form: Format) -> Path:
    return GOLDEN / site / FILE_NAMES[form]


def render(plan: Plan, form: Format) -> str:
    return texts.text(plan, form, [TEMPLATES])


def compare(text: str, path: Path) -> None:
    assert text == path.read_text(), f"not {path}; if it is meant to be so: make golden"


@pytest.mark.parametrize(("site", "form"), CASES)
def test_golden_files(site: str, form: Format, request: pytest.FixtureRequest) -> None:
    text, path = render(PLANS[site], form), golden(site, form)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    compare(text, path)


@pytest.mark.parametrize(("site", "form"), CASES)
def test_an_appended_line_fails(site: str, form: Format, tmp_path: Path) -> None:
    longer = tmp_path / "golden"
    longer.write_text(golden(site, form).read_text() + "one more\n")
    with pytest.raises(AssertionError, match="make golden"):
        compare(render(PLANS[site], form), longer)
    with pytest.raises(AssertionError, match="make golden"):
        compare(render(PLANS[site], form) + "\n", golden(site, form))


def test_there_are_no_other_golden_files() -> None:
    found = {path for path in GOLDEN.rglob("*") if path.is_file()} - {GOLDEN / "README.md"}
    assert found == {golden(site, form) for site, form in CASES}


@pytest.mark.parametrize("form", FORMATS)
def test_the_host_is_in_no_text(form: Format) -> None:
    environ = {
        "http_proxy": "http://user:secret@proxy.example:3128",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "SSL_CERT_FILE": "/etc/secret-ca.pem",
        "HOME": "/home/hidden",
    }
    other = host(environ=environ, home=Path("/home/hidden"), user="hidden", kernel="9.9-hidden")
    text = render(shipped_plan("local", on=other), form)
    assert text == render(PLANS["local"], form)
    for trace in ("hidden", "secret", "proxy", "mirror.example"):
        assert trace not in text


class Reader(SingularityParser):  # type: ignore[misc]
    """spython's parser of definition files; it knows local images, but refuses them."""

    def _check_bootstrap(self, line: str) -> None:
        self.bootstrap = line


def read(path: Path) -> tuple[str, Any]:
    reader = Reader(str(path))
    return reader.bootstrap, reader.recipe[reader.active_layer]


@pytest.mark.parametrize("site", SITES)
def test_an_independent_reader_sees_what_is_meant(site: str, tmp_path: Path) -> None:
    plan = PLANS[site]
    folder = tmp_path / "it's a folder"
    context.write(plan, "apptainer", render(plan, "apptainer"), f"{folder}/")
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
    assert environ.pop("PATH").startswith("/opt/pytorch/bin:/usr/local/sbin:")
    assert environ == dict(plan.environment)
    assert seen.install[0] == "set -eu"
    assert seen.cmd == 'exec "$@"'
    steps = [line for line in seen.install if line.startswith('echo "==> step')]
    assert [line.split()[-1] for line in steps][:2] == ['system"', 'framework"']
    assert len(steps) == int(steps[0].split("/")[1].split()[0])


def test_the_recorded_host_is_the_twins() -> None:
    assert not [note for note in PLANS["local"].notes if "twin" in note]
    assert PLANS["local"].recipe.base.release == HOST.release
    newer = shipped_plan("local", on=host(release="trixie"))
    assert newer.recipe.base.release == "trixie"
