"""No variable of an image or a job names a folder that all users of a node share."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import goldens
from tests.values import ROOT

FILES = sorted([*ROOT.glob("recipes/**/*.yaml"), *ROOT.glob("site-configs/**/*.yaml")])
SHARED = re.compile(r"(?:^|[:=,])(?:/tmp|/var/tmp|/dev/shm|/run/shm)(?:/|$)")
# Whose it is stands in the name: the first who comes does not keep others out.
OWN = re.compile(r"\$\{?(?:USER|LOGNAME|UID|SLURM_JOB_ID|PBS_JOBID)\b")


def is_shared(value: str) -> bool:
    return any(SHARED.search(part) and not OWN.search(part) for part in value.split(":"))


def variables(node: object, *, inside: bool = False) -> Iterator[tuple[str, str]]:
    """Find all variables that a file sets, in whatever variant, epoch or step."""
    if isinstance(node, dict):
        for key, value in node.items():
            if inside and isinstance(value, str):
                yield key, value
            yield from variables(value, inside=key in {"environment", "inside"})
    elif isinstance(node, list):
        for value in node:
            yield from variables(value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_sets_a_shared_folder(path: Path) -> None:
    found = dict(variables(yaml.safe_load(path.read_text())))
    assert {name: value for name, value in found.items() if is_shared(value)} == {}


def test_no_image_sets_a_shared_folder() -> None:
    plans = list(goldens.plans().values())
    assert len(plans) > 100
    found = {
        (plan.name, name): value
        for plan in plans
        for name, value in plan.environment.items()
        if SHARED.search(value)
    }
    assert found == {}


def test_what_counts_as_shared() -> None:
    for value in ("/tmp", "/tmp/torchinductor", "/x:/var/tmp/y", "/dev/shm/a", "--cache=/tmp/a"):
        assert is_shared(value), value
    for value in ("/opt/tmp/x", "/tmpfs", "/tmp/miopen-$USER", "/tmp/${USER}/x", "tmp"):
        assert not is_shared(value), value
    text = {
        "variants": {"a": {"changes": {"environment": {"A": "/tmp/a"}}}},
        "jobs": {"inside": {"B": "1"}},
    }
    assert list(variables(text)) == [("A", "/tmp/a"), ("B", "1")]
    assert len(FILES) > 50
