"""Releases that a run asks for: each package once, by halves where one is unknown; builds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from dlcontainer.authoring.releases import IndexReader, ReleaseLedger
from dlcontainer.errors import BuildError
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.index_access import IndexAccess
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.packages.resolve.resolve import Asker


@dataclass
class Shelf:
    """A resolver over a list of versions, which takes all that it is asked for or nothing."""

    versions: Mapping[str, Sequence[str]]
    questions: list[tuple[str, ...]] = field(default_factory=list)
    fault: str = "Because lost was not found in the package registry"
    title = "shelf"

    def ask(self, question: Question) -> Answer:
        raise NoSolutionError(self.fault)

    def newest(self, requirements: Sequence[str], *, wheels: bool) -> Mapping[str, str]:
        self.questions.append(tuple(requirements))
        newest = {}
        for text in requirements:
            requirement = Requirement(text)
            there = requirement.specifier.filter(self.versions.get(requirement.name, ()))
            newest[requirement.name] = max(there, key=Version, default="")
        return newest if all(newest.values()) else {}


def reader(shelf: Shelf, *, python: str = "3.11") -> IndexReader:
    access = IndexAccess(settings=PipSettings(), environment={})
    asker = Asker(
        access=access,
        host=cast("object", None),  # type: ignore[arg-type]
        runner=cast("object", None),  # type: ignore[arg-type]
        folder=Path("nowhere"),
        cache=Path("nowhere"),
        note=print,
    )
    target = Target(python=python, arch="x86_64", glibc="2.36")
    return IndexReader(target=target, asker=asker, resolver=shelf)


def test_a_package_is_asked_for_once_a_run_and_target() -> None:
    shelf = Shelf({"a": ["1", "2"], "b": ["3"], "c": ["4"]})
    ledger = ReleaseLedger()
    assert ledger.newest(["a", "b"], reader(shelf)) == {"a": "2", "b": "3"}
    assert ledger.newest(["a", "b", "c"], reader(shelf)) == {"a": "2", "b": "3", "c": "4"}
    assert shelf.questions == [("a", "b"), ("c",)]
    ledger.newest(["a"], reader(shelf, python="3.12"))
    assert shelf.questions[2:] == [("a",)]


def test_one_unknown_name_costs_some_questions_and_not_one_a_package() -> None:
    names = [f"p{number}" for number in range(64)]
    shelf = Shelf({name: ["1"] for name in names if name != "p9"})
    assert sorted(ReleaseLedger().newest(names, reader(shelf))) == sorted(shelf.versions)
    assert len(shelf.questions) <= 13


def test_an_index_that_fails_is_asked_once() -> None:
    shelf = Shelf({}, fault="Failed to fetch: `https://index.example.org/simple/a/`\ncause: gone")
    ledger = ReleaseLedger()
    for _ in range(2):
        with pytest.raises(BuildError, match="cannot reach the package index"):
            ledger.newest(["a"], reader(shelf))
    assert len(shelf.questions) == 1


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (["2.13.0+cpu", "2.13.0"], "2.13.0+cpu"),
        (["2.13.0+cpu", "2.14.0+cpu", "2.15.0", "2.15.0+cu130"], "2.14.0+cpu"),
        (["2.13.0+cpu", "2.15.0+cpu", "2.15.0+cu130"], "2.15.0+cpu"),
        (["2.13.0", "2.15.0"], None),
    ],
)
def test_a_build_is_compared_with_builds_of_its_kind(
    versions: list[str], newest: str | None
) -> None:
    shelf = Shelf({"torch": versions})
    ledger = ReleaseLedger()
    for _ in range(2):
        assert ledger.newest_build("torch", Version("2.13.0+cpu"), reader(shelf)) == newest
    assert len(set(shelf.questions)) == len(shelf.questions)
