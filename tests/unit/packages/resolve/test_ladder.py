"""The rungs: which pins are asked with, in which order, and what a change comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.packages.resolve import ladder
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.resolution import ParentPin, ResolveRequest, Strength, Target
from dlcontainer.packages.resolve.wishes import WishList
from dlcontainer.packages.resolve.words import Place


def pin(text: str, strength: Strength) -> ParentPin:
    return ParentPin(requirement=Requirement(text), origin=f"r.yaml:{len(text)}", strength=strength)


PINS = (
    pin("triton==3.5", "hard"),
    pin("numpy==2.3.5", "soft"),
    pin("filelock==3.20", "soft"),
)
NUMPY = NoSolutionError("Because you require numpy<2 and numpy==2.3.5, …")


@dataclass
class Scripted:
    """A resolver that notes the questions and answers in order."""

    answers: list[Answer | NoSolutionError]
    questions: list[Question] = field(default_factory=list)
    title: str = "scripted 1"

    def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, NoSolutionError):
            raise answer
        return answer

    def newest(self, requirements: Sequence[str], *, wheels: bool) -> Mapping[str, str]:
        return {}


def climb(
    resolver: Scripted,
    caps: Sequence[str] = (),
    names: tuple[str, ...] = ("alpha",),
    **changes: Any,
) -> ladder.LadderAnswer:
    listed = WishList(path=Path("req.txt"), format="requirements", wishes=())
    target = Target(python="3.12", arch="x86_64", glibc="2.39")
    request = ResolveRequest(wishes=listed, target=target, **{"pins": PINS, **changes})
    climbed = ladder.Climb(
        request=request,
        resolver=resolver,
        caps=tuple(map(Requirement, caps)),
        places=tuple(
            Place(requirement=Requirement(name), origin=f"req.txt:{number}")
            for number, name in enumerate(names, 1)
        ),
        note=lambda _: None,
    )
    return ladder.climb(Question(requirements=names, constraints=("beta<2",)), climbed)


def answer(**versions: str) -> Answer:
    return Answer(versions=versions)


def not_there(name: str) -> NoSolutionError:
    return NoSolutionError(f"Because {name} was not found in the package registry and you …")


def test_all_unknown_names_are_told_at_once() -> None:
    resolver = Scripted([not_there("a-b"), not_there("c"), NUMPY])
    names = ("A_b>=1", "c", "d")
    with pytest.raises(ConfigError, match=r"has no a-b, c \(req.txt:2\)\n"):
        climb(resolver, names=names)
    assert [one.requirements for one in resolver.questions] == [names, ("c", "d"), ("d",)]


def test_one_that_a_package_needs_ends_the_search() -> None:
    resolver = Scripted([not_there("a"), not_there("deep"), NUMPY])
    with pytest.raises(ConfigError, match=r"has no a\n"):
        climb(resolver, names=("a", "b"))
    assert len(resolver.answers) == 1


def test_the_first_rung_has_all_pins() -> None:
    resolver = Scripted([answer(alpha="1", numpy="2.3.5")])
    reached = climb(resolver, caps=["numpy<2", "gamma<5"])
    assert reached.changes == ()
    (question,) = resolver.questions
    # A cap of the host's is no reason to change what the parent recipe has.
    assert question.constraints == (
        "beta<2", "gamma<5", "triton==3.5", "numpy==2.3.5", "filelock==3.20"
    )  # fmt: skip
    assert question.preferences == ()


def test_the_second_rung_prefers_what_it_lets_go() -> None:
    resolver = Scripted([NUMPY, answer(alpha="1", numpy="1.26", filelock="3.20")])
    reached = climb(resolver, caps=["numpy<2"])
    assert [(c.name, c.before, c.after) for c in reached.changes] == [("numpy", "2.3.5", "1.26")]
    assert resolver.questions[1].constraints == ("beta<2", "numpy<2", "triton==3.5")
    assert resolver.questions[1].preferences == ("numpy==2.3.5", "filelock==3.20")


def test_verified_pins_are_let_go_last() -> None:
    resolver = Scripted([NUMPY, answer(alpha="0.9", filelock="3.19")])
    reached = climb(resolver, verified=frozenset({"NumPy"}))
    assert "numpy==2.3.5" in resolver.questions[1].constraints
    assert [change.name for change in reached.changes] == ["filelock"]
    resolver = Scripted([NUMPY, NUMPY, answer(alpha="1", numpy="1.26")])
    with pytest.raises(MisfitError, match=r"numpy 2\.3\.5 → 1\.26"):
        climb(resolver, verified=frozenset({"numpy"}))
    resolver = Scripted([NUMPY, answer(alpha="1", numpy="1.26")])
    climb(resolver, verified=frozenset({"numpy"}), may_change=frozenset({"NumPy"}))


def test_what_names_no_soft_pin_is_asked_once() -> None:
    resolver = Scripted([NoSolutionError("Because beta has no wheels")])
    with pytest.raises(MisfitError):
        climb(resolver)
    assert len(resolver.questions) == 1


def test_without_soft_pins_there_is_one_rung() -> None:
    resolver = Scripted([NoSolutionError("Because you require triton<3 and triton==3.5, …")])
    with pytest.raises(MisfitError):
        climb(resolver, pins=PINS[:1])
    assert len(resolver.questions) == 1


def test_a_changed_pin_is_held_against_what_was_stood_in_for() -> None:
    pins = (pin("torch==2.9+cu128", "hard"), *PINS)
    changed = answer(alpha="1", numpy="1.26")
    resolver = Scripted([NUMPY, changed, NoSolutionError("Because torch==2.9 needs numpy>=2 …")])
    with pytest.raises(MisfitError, match=r"numpy 1\.26, which torch==2\.9\+cu128 does not take"):
        climb(resolver, pins=pins)
    assert resolver.questions[2].requirements == ("torch==2.9",)
    assert resolver.questions[2].constraints == ("numpy==1.26",)
    # A version that no public index has: the build's own check is left.
    nowhere = NoSolutionError("Because there is no version of torch==2.9, …")
    reached = climb(Scripted([NUMPY, changed, nowhere]), pins=pins)
    assert [change.name for change in reached.changes] == ["numpy"]
