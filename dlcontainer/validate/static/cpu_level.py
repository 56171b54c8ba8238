"""The rule of CPUs: the level of x86-64 that files ask for, against the site's processor.

Code that a library chooses when it runs (dispatch) asks for nothing: it is not judged.
"""

from collections.abc import Iterator

from dlcontainer.planning.compatibility import CPU_FEATURES
from dlcontainer.validate.static.finding import RuleFinding, needing
from dlcontainer.validate.static.questions import StaticQuestions

_BASELINE = 1
# The loader takes a file from there only where the CPU has the level.
# Source: man page ld.so(8), "glibc-hwcaps".
_CHOSEN = "/glibc-hwcaps/"


def cpu_level(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold each level that files need against what the site's processor has."""
    if image.site.arch != "x86_64":
        return
    groups: dict[int, list[str]] = {}
    for path, file in sorted(image.files.items()):
        level = file.described.x86_level if file.described else 0
        if level > _BASELINE and _CHOSEN not in path:
            groups.setdefault(level, []).append(path)
    for level, paths in sorted(groups.items(), reverse=True):
        paths.sort(key=lambda path: (path not in image.required, path))
        yield from _held(image, f"x86-64-v{level}", paths)


def _held(image: StaticQuestions, level: str, paths: list[str]) -> Iterator[RuleFinding]:
    target = image.site.cpu.target if image.site.cpu else None
    has = CPU_FEATURES.get(target or "")
    why = "the loader of glibc refuses it with 'CPU ISA level is lower than required'"
    if has is None:
        yield RuleFinding(
            level="not decided",
            file=paths[0],
            what=f"{needing(paths)} {level}; the site's processor is {target or 'not known'} "
            "(cpu.target)",
            why=f"where the processor has less, {why}",
            fix="write cpu.target: znver3, skylake-avx512 …",
        )
    elif not CPU_FEATURES[level] <= has:
        yield RuleFinding(
            level="error" if paths[0] in image.required else "warning",
            file=paths[0],
            what=f"{needing(paths)} {level}; the site's processor is {target}",
            why=f"{why}; older ones run into an illegal instruction",
            fix="take or build it for x86-64 alone",
        )
