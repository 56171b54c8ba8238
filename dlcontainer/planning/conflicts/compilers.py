"""Compilers that no longer know the site's processor."""

import re
from collections.abc import Iterator

from dlcontainer.config import KeyPath
from dlcontainer.planning.compatibility import LAST_GCC_FOR_PHI, LAST_LLVM_FOR_PHI, PHI, LastRelease
from dlcontainer.planning.conflicts.model import (
    Contradiction,
    Finding,
    UnknownFact,
    base_path,
    distribution_of,
)
from dlcontainer.planning.versions import compare, numbers, written
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

# g++-14 and g++=4:14.2.0-1 say which; g++ and build-essential mean the distribution's own.
_GCC = re.compile(r"(?:gcc|g\+\+|gfortran)(?:-([0-9]+))?(?::[a-z0-9]+)?(?:=(?:[0-9]+:)?(.+))?")
_CLANG = re.compile(r"(?:clang|flang|llvm)(?:-([0-9]+))?(?::[a-z0-9]+)?(?:=(?:[0-9]+:)?(.+))?")


def without_phi(site: Site, recipe: Recipe) -> Iterator[Finding]:
    """Refuse GCC 15 and LLVM 19, which make no code for Xeon Phi, where the site is one.

    An image that is compiled for another target (`stack.cpu_target: x86-64-v3`) is free to use
    them: its code runs on Phi all the same, or `cpu_code` refuses it.
    """
    target = site.cpu.target if site.cpu else None
    if target not in PHI or recipe.stack.cpu_target not in (None, *PHI):
        return
    stack = recipe.stack
    if stack.gcc is not None:
        yield from _judge("GCC", stack.gcc, LAST_GCC_FOR_PHI, ("stack", "gcc"))
    else:
        yield from _installed(recipe)
    if stack.llvm is not None:
        yield from _judge("LLVM", stack.llvm, LAST_LLVM_FOR_PHI, ("stack", "llvm"))


def _installed(recipe: Recipe) -> Iterator[Finding]:
    distribution = distribution_of(recipe.base)
    packages = [
        (("steps", index, key), package)
        for index, step in enumerate(recipe.steps)
        for key in ("os_packages", "build_packages")
        for package in getattr(step, key)
    ]
    for where, package in packages:
        gcc, clang = _GCC.fullmatch(package), _CLANG.fullmatch(package)
        compiler = gcc or clang
        version = compiler[1] or compiler[2] if compiler else None
        if gcc and version:
            yield from _judge("GCC", version, LAST_GCC_FOR_PHI, where)
        elif gcc or package.partition("=")[0] == "build-essential":
            if distribution is None:
                yield UnknownFact(
                    text=f"the version of GCC in the base's {package} is unknown: 15 and "
                    "newer cannot compile for Xeon Phi"
                )
            else:
                yield from _judge("GCC", distribution.gcc, LAST_GCC_FOR_PHI, base_path(recipe.base))
        elif clang and version:
            yield from _judge("LLVM", version, LAST_LLVM_FOR_PHI, where)
        elif clang:
            yield UnknownFact(
                text=f"the version of LLVM in the base's {package} is unknown: 19 and newer "
                "cannot compile for Xeon Phi"
            )


def _judge(name: str, text: str, last: LastRelease, in_recipe: KeyPath) -> Iterator[Finding]:
    version = numbers(text)
    if version is None:
        yield UnknownFact(text=f"{name} {text!r} was not checked: its version cannot be compared")
    elif compare(version, last.release) == 1:
        from_base = in_recipe[0] == "base"
        yield Contradiction(
            what=f"{name} {text} cannot compile for Xeon Phi: {written(last.release)} is "
            "the last release that can",
            why=last.source,
            in_site=("cpu", "target"),
            in_recipe=in_recipe,
            pin=None if from_base else written(last.release),
            way_out=(
                "use a variant that is compiled for x86-64-v3 (stack.cpu_target), which Phi runs "
                "too"
            )
            + (", or an older base" if from_base else ""),
        )
