"""Where things stand in a job script: what a help desk reads first, over all shipped sites."""

import re

import pytest

from dlcontainer.config.templating import Text
from dlcontainer.formats import job_head, released_job, texts
from dlcontainer.planning.plan import Plan
from dlcontainer.publish import modulefiles
from tests import goldens
from tests.values import TEMPLATES

# The line that starts ranks, counted from the first of the file.
DEEPEST = 40
# Of a release's job.sh, beside comments and empty lines.
LONGEST = 100
# What each rank is started with, bytes.
ARGUMENT = 500

PUBLISHED = released_job.PublishedJob(
    release=Text("/r"), module=Text("'demo/1.0-1'"), image="image.sif", folder="job"
)


def jobs() -> list[Plan]:
    return [plan for plan in goldens.plans().values() if "job" in texts.formats_of(plan)]


def started(text: str) -> int:
    """Number the line that starts the ranks."""
    [number] = [n for n, line in enumerate(text.splitlines(), 1) if "    dlc_start " in line]
    return number


def statements(text: str) -> list[str]:
    """Leave out comments and empty lines."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def test_the_launchers_and_the_engines_line_come_first() -> None:
    deep = {plan.name: started(texts.text(plan, "job", [TEMPLATES])) for plan in jobs()}
    assert {name: at for name, at in deep.items() if at > DEEPEST} == {}
    assert len(deep) > 150


def test_the_order_of_a_job_script() -> None:
    for plan in jobs():
        text = texts.text(plan, "job", [TEMPLATES])
        head, _, rest = text.partition("\nset -eu\n")
        collectives = [line for line in head.splitlines() if "Collectives between nodes" in line]
        comments = [line for line in head.splitlines() if line.startswith("# ")]
        assert comments[: len(collectives)] == collectives
        # Sources, and what is not known, are none of a submitter's business.
        assert "# source: " not in head
        assert "# Not known" not in head
        assert rest.startswith("\nrun() {\n")
        assert text.endswith('\nrun "$@"\n')
        for line in job_head.sources(plan):
            assert f"\n# {line}\n" in rest


def test_a_rank_is_started_with_few_bytes() -> None:
    for plan in jobs():
        text = texts.text(plan, "job", [TEMPLATES])
        found = re.findall(r"dlc_rank=\(/bin/sh -c '([^']*)'", text)
        assert [len(words.encode()) < ARGUMENT for words in found] == [True] * len(found)


def test_the_job_of_a_release_is_short() -> None:
    longest = 0
    for plan in jobs():
        if plan.site.engine.runtime not in ("apptainer", "singularity"):
            continue
        files = released_job.texts(plan, PUBLISHED, [TEMPLATES])
        text = files[released_job.SCRIPT]
        assert started(text) <= DEEPEST, plan.name
        longest = max(longest, len(statements(text)))
        assert text.endswith('\nrun "$@"\n')
    assert 50 < longest <= LONGEST


@pytest.mark.parametrize("text", ["a b", "it's", "'", "a'b'c", "$x"])
def test_a_folder_is_one_word_of_a_shell(text: str) -> None:
    quoted = modulefiles.shell(text)
    assert quoted.replace("'\\''", "\0").count("'") == 2
    assert quoted[1:-1].replace("'\\''", "'") == text
