"""Slim: what a recipe may have removed from its Python packages. A small, closed set of names.

Each name stands for rules, and each rule for files that nothing of the packages themselves imports,
loads or links: what a recipe promises (its imports, `torch.compile`, C++ extensions) does not read
them. What would break a promise is not on offer, and NOT_OFFERED says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from dlcontainer.config.suggestions import suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class SlimRule:
    """Files by name, in folders below a root, whose path there begins and ends with '/'.

    Both are globs; in `folders` a `*` takes in further folders too.
    """

    folders: str
    files: str


# Below each of them, and nowhere else: what a package manager put in place stays.
ROOTS = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
# CUDA's compiler links with what NVIDIA's packages bring.
KEPT = "*/nvidia/*"

RULES: Mapping[str, tuple[SlimRule, ...]] = {
    # numpy.random's and npymath's, for code that compiles against them;
    # torch.utils.cpp_extension links shared libraries.
    "static-libraries": (SlimRule(folders="*", files="*.a"),),
    # PyTorch's own compiled tests, which its wheels bring along.
    "test-programs": (
        SlimRule(folders="/torch/test/*", files="*"),
        SlimRule(folders="/torch/bin/", files="test_*"),
        SlimRule(folders="/torch/bin/", files="*Test"),
    ),
    # Only what pytest collects: some packages import the rest of their folder `tests`.
    "test-suites": (
        SlimRule(folders="*/tests/*", files="test_*.py"),
        SlimRule(folders="*/tests/*", files="test_*.pyc"),
        SlimRule(folders="*/tests/*", files="*_test.py"),
        SlimRule(folders="*/tests/*", files="*_test.*.pyc"),
    ),
}

NOT_OFFERED: Mapping[str, str] = {
    "byte-code": "without it each rank would compile at each import",
    "headers": "C++ extensions need them to compile",
    "headers-of-cuda": "C++ extensions for GPUs need them to compile",
    "licenses": "licences must stay with their packages",
    "pip": "users add packages of their own with it",
    "setuptools": "torch.utils.cpp_extension builds with it",
    "sources": "torch.compile reads the source of what it compiles",
    "type-stubs": "packages that load lazily read them when they are imported",
}


def _known(name: str) -> str:
    if name in RULES:
        return name
    if name in NOT_OFFERED:
        raise ValueError(
            f"{name!r} cannot be removed: {NOT_OFFERED[name]}; known: {', '.join(RULES)}"
        )
    raise ValueError(f"unknown name {name!r}{suggest(name, RULES)}")


def _settled(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is listed twice")
    return tuple(sorted(names))


Choice = Annotated[str, AfterValidator(_known)]
# In the order of the alphabet: the same choice, the same plan.
Choices = Annotated[tuple[Choice, ...], AfterValidator(_settled)]
