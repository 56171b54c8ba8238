"""The texts of every supported combination, compared with the golden files."""

from pathlib import Path
from typing import Any

import pytest
from spython.main.parse.parsers import SingularityParser

from dlcontainer.formats import standing_alone, texts
from dlcontainer.formats.texts import Format
from dlcontainer.planning.plan import Plan
from tests import goldens
from tests.values import GOLDEN, HOST, TEMPLATES, host, shipped_plan

LOCAL = "pytorch-2.13.0-local"


@pytest.fixture(scope="session", autouse=True)
def _update(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        goldens.update()


@pytest.fixture
def local() -> Plan:
    return goldens.plans()[LOCAL]


def test_no_shipped_file_is_wrong() -> None:
    assert [str(entry.error) for entry in goldens.matrix() if entry.error] == []


def test_names_are_unique() -> None:
    settled = [entry.plan.name for entry in goldens.matrix() if entry.plan is not None]
    assert len(goldens.plans()) == len(settled) + 1
    assert len(settled) == len(set(settled))


def test_all_combinations_are_known() -> None:
    assert sorted(goldens.plans()) == goldens.names(), "make golden"


@pytest.mark.parametrize("name", goldens.names())
def test_golden_texts(name: str) -> None:
    plan = goldens.plans()[name]
    for form in goldens.forms(plan):
        goldens.check(name, form, goldens.blanked(plan, form))


def test_digests() -> None:
    assert goldens.digests() == goldens.DIGESTS.read_text().splitlines(), "make golden"


def test_the_facts_of_every_site() -> None:
    assert goldens.sites() == goldens.SITES.read_text().splitlines(), "make golden"


def test_every_variant() -> None:
    assert goldens.variants() == goldens.VARIANTS.read_text().splitlines(), "make golden"


def test_the_table_of_variants_in_the_docs() -> None:
    assert goldens.variant_docs() == goldens.VARIANT_DOCS.read_text(), "make golden"


def test_the_matrix_and_unsupported_combinations() -> None:
    goldens.compare(goldens.table(), goldens.MATRIX)


def test_the_job_of_a_release() -> None:
    goldens.compare(goldens.released_job(), goldens.RELEASED_JOB)


def test_every_axis_has_a_whole_text() -> None:
    missing = goldens.covered(goldens.plans()) - goldens.covered(goldens.whole())
    assert not missing, "no whole golden text shows this: make golden"


def test_few_texts_are_whole() -> None:
    # A new site brings one or two; whoever must read a difference reads these.
    assert len(goldens.whole()) < len(goldens.plans()) / 4


@pytest.mark.parametrize("whole", [True, False])
def test_an_appended_line_fails(*, whole: bool) -> None:
    name = next(name for name in goldens.names() if (name in goldens.whole()) == whole)
    text = goldens.blanked(goldens.plans()[name], "apptainer")
    goldens.check(name, "apptainer", text)
    for other in (f"{text}one more\n", f"{text}\n", text[:-1]):
        with pytest.raises(AssertionError, match="make golden"):
            goldens.check(name, "apptainer", other)


def test_a_difference_is_shown_against_the_nearest_whole_text() -> None:
    name = next(name for name in goldens.names() if name not in goldens.whole())
    text = goldens.blanked(goldens.plans()[name], "apptainer")
    with pytest.raises(AssertionError) as caught:
        goldens.check(name, "apptainer", f"{text}one more line\n")
    assert "+one more line" in str(caught.value)


def test_a_difference_of_a_job_shows_what_differs() -> None:
    name = next(name for name in goldens.whole() if name not in goldens.whole_jobs(goldens.whole()))
    text = goldens.blanked(goldens.plans()[name], "job")
    goldens.check(name, "job", text)
    # What a difference without numbers can't tell, its checksum does.
    for other in (f"{text}one more\n", text.replace("\nrun() {\n", "\n\nrun() {\n")):
        with pytest.raises(AssertionError, match="make golden"):
            goldens.check(name, "job", other)


def test_there_are_no_other_golden_files() -> None:
    kept = {path for path in GOLDEN.rglob("*") if path.is_file()}
    whole = {
        goldens.path_of(name, form)
        for name in goldens.whole()
        for form in goldens.forms(goldens.plans()[name])
    }
    lists = {goldens.DIGESTS, goldens.CHECKSUMS, goldens.SITES, goldens.VARIANTS, goldens.MATRIX}
    lists.add(goldens.RELEASED_JOB)
    # ReFrame's are compared by test_reframe.py, forecasts by cli/bench/test_forecast.py.
    kept -= {*GOLDEN.glob("reframe-*.txt"), *GOLDEN.glob("forecast-*.txt")}
    assert kept == whole | lists | {GOLDEN / "README.md"}


@pytest.mark.parametrize("form", [form for form in texts.FORMATS if form != "route"])
def test_the_host_is_in_no_text(form: Format, local: Plan) -> None:
    environ = {
        "http_proxy": "http://user:secret@proxy.example:3128",
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "SSL_CERT_FILE": "/etc/secret-ca.pem",
        "HOME": "/home/hidden",
    }
    other = host(environ=environ, home=Path("/home/hidden"), user="hidden", kernel="9.9-hidden")
    text = goldens.render(shipped_plan("local", on=other), form)
    assert text == goldens.render(local, form)
    for trace in ("hidden", "secret", "proxy", "mirror.example"):
        assert trace not in text


class Reader(SingularityParser):  # type: ignore[misc]
    """spython's parser of definition files; it knows local images, but refuses them."""

    def _check_bootstrap(self, line: str) -> None:
        self.bootstrap = line


def read(path: Path) -> tuple[str, Any]:
    reader = Reader(str(path))
    return reader.bootstrap, reader.recipe[reader.active_layer]


def test_an_independent_reader_sees_what_is_meant(tmp_path: Path) -> None:
    read_again = [
        plan
        for plan in goldens.plans().values()
        if plan.site.name in goldens.WITH_TWIN and not plan.recipe.base.image
    ]
    assert read_again
    for plan in read_again:
        _check_reading(plan, tmp_path / plan.name / "it's a folder")


def _check_reading(plan: Plan, folder: Path) -> None:
    folder.parent.mkdir()
    written = {"apptainer.def": goldens.render(plan, "apptainer")}
    standing_alone.write(plan, written, folder, [TEMPLATES])
    bootstrap, seen = read(folder / "apptainer.def")
    assert (bootstrap, seen.fromHeader) == ("Bootstrap: localimage", "base.sqfs")
    below = (f"verify-{proof.recipe}" for proof in plan.recipe.verify.before)
    assert [line.split() for line in seen.files] == [
        ["files/manifest.json", "/opt/dlcontainer/manifest.json"],
        ["files/00-verify.py", "/opt/dlcontainer/verify.py"],
        *(
            [f"files/{at:02}-{name}.py", f"/opt/dlcontainer/{name}.py"]
            for at, name in enumerate(below, 1)
        ),
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


def test_the_recorded_host_is_the_twins(local: Plan) -> None:
    assert not [note for note in local.notes if "twin" in note]
    assert local.recipe.base.release == HOST.release
    # Of a variant that names no Pythons.
    newer = shipped_plan("local", "tensorflow", on=host(release="trixie"))
    assert newer.recipe.base.release == "trixie"
