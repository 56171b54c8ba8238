"""A suite's folder: what is whole stays, what was cut goes on, others' sessions are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes import suite_folder as suite
from dlcontainer.bench.probes.probe import SuiteOptions
from dlcontainer.bench.probes.suite_folder import SuiteSubject
from dlcontainer.errors import BenchDataError, UsageError
from dlcontainer.system.process import CommandFailedError
from tests.benchrunner import Answer, Bench, ProbeRunner
from tests.fakes import completed

SUBJECT = SuiteSubject(image_sha256="ab" * 32, site="demo", quick=False)
IMPORT = PROBES["import"]


def interrupted(launch: int) -> Answer:
    def odd(number: int) -> None:
        if number == launch:
            raise KeyboardInterrupt

    return odd


def session(folder: Path, until: int | None = None) -> Path:
    """Measure a session, or a part of one that Ctrl-C ends before this launch."""
    bench = Bench(folder)
    if until is None:
        bench.run(ProbeRunner())
    else:
        with pytest.raises(KeyboardInterrupt):
            bench.run(ProbeRunner(odd=interrupted(until)))
    return folder / "samples.jsonl"


@pytest.mark.parametrize(
    ("until", "state"), [(None, "whole"), (4, "cut"), (3, "cut"), (1, "new"), (0, "new")]
)
def test_how_far_a_session_got(until: int | None, state: str, tmp_path: Path) -> None:
    path = session(tmp_path, until)
    assert suite.state(path, IMPORT, SUBJECT) == state


@pytest.mark.parametrize("lines", [0, 1, 2, 3])
def test_a_file_with_too_little_to_go_on_was_hardly_begun(lines: int, tmp_path: Path) -> None:
    path = session(tmp_path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    assert suite.state(path, IMPORT, SUBJECT) == "begun"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image_sha256": "cd" * 32}, "the image's SHA-256"),
        ({"site": "other"}, "the site: demo in the file, now other"),
    ],
)
def test_a_session_of_something_else_is_refused(
    changes: dict[str, str], says: str, tmp_path: Path
) -> None:
    path = session(tmp_path)
    with pytest.raises(BenchDataError, match="does not belong to this suite") as refused:
        suite.state(path, IMPORT, replace(SUBJECT, **changes))  # type: ignore[arg-type]
    assert says in (refused.value.why or "")


def test_a_session_of_another_probe_is_refused(tmp_path: Path) -> None:
    path = session(tmp_path)
    with pytest.raises(BenchDataError) as refused:
        suite.state(path, PROBES["train"], SUBJECT)
    assert "the probe: import in the file, now train" in (refused.value.why or "")


def test_a_lost_session_is_not_begun_again(tmp_path: Path) -> None:
    # It has samples: to measure until one likes the result is not for a suite to do.
    dead = CommandFailedError(completed("probe", code=1))
    with pytest.raises(BenchDataError):
        Bench(tmp_path).run(ProbeRunner(odd=lambda number: dead if number > 4 else None))
    with pytest.raises(BenchDataError, match="the session lost"):
        suite.state(tmp_path / "samples.jsonl", IMPORT, SUBJECT)


def test_an_edited_session_is_no_part_of_a_suite(tmp_path: Path) -> None:
    path = session(tmp_path, 5)
    path.write_text(path.read_text().replace("overhead", "deployment", 1))
    with pytest.raises(BenchDataError, match="edited"):
        suite.state(path, IMPORT, SUBJECT)


def test_what_is_set_aside_replaces_nothing(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / "x.jsonl"
        path.write_text(f"{number}")
        assert suite.set_aside(path) == tmp_path / f"x.jsonl.begun-{number}"
        assert not path.exists()
    assert (tmp_path / "x.jsonl.begun-1").read_text() == "1"


def test_the_probes_of_a_suite() -> None:
    probes = list(PROBES.values())
    assert suite.chosen(probes, None, quick=False) == tuple(probes)
    assert [one.name for one in suite.chosen(probes, "train, import", quick=True)] == [
        "import",
        "train",
    ]


def test_a_long_probe_is_in_no_quick_suite() -> None:
    long = replace(PROBES["train"], in_suite=SuiteOptions(quick=False))
    probes = [PROBES["import"], long]
    assert suite.chosen(probes, None, quick=True) == (PROBES["import"],)
    assert suite.chosen(probes, None, quick=False) == tuple(probes)
    with pytest.raises(UsageError, match="'train' takes too long for a quick suite"):
        suite.chosen(probes, "train", quick=True)


def test_a_probe_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"unknown probe 'kernel'.*'kernels'"):
        suite.chosen(list(PROBES.values()), "kernel", quick=False)
