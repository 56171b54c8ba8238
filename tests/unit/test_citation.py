"""CITATION.cff says what the package says, and names nobody else."""

import re
import tomllib

import yaml

from dlcontainer import __version__
from tests.values import ROOT


def test_it_is_the_package_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (day,) = re.findall(rf"^## {re.escape(__version__)} \((.+)\)$", changelog, re.MULTILINE)
    # Keys and types are those of the Citation File Format, version 1.2.0.
    assert citation == {
        "cff-version": "1.2.0",
        "message": citation["message"],
        "type": "software",
        "title": project["name"],
        "abstract": f"{project['description']}.",
        "version": __version__,
        "date-released": day,
        "license": project["license"],
        "authors": project["authors"],
        "keywords": project["keywords"],
    }
    assert citation["message"]
