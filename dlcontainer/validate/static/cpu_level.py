"""The rule of CPUs: the level of x86-64 that files ask for, against the site's processor.

Code that a library chooses when it runs (dispatch) asks for nothing: it is noted, not judged.
"""

import re
from collections.abc import Iterator

from dlcontainer.planning.compatibility import CPU_FEATURES
from dlcontainer.validate.static.fabric import fabric_signs
from dlcontainer.validate.static.finding import RuleFinding, and_more, needing
from dlcontainer.validate.static.questions import StaticQuestions

_BASELINE = 1
# Loaded only where the CPU has what they need: by glibc from these folders (man page ld.so(8),
# "glibc-hwcaps"), by oneMKL ("Instruction Set Specific Dispatching") and ggml by their names.
_CHOSEN = re.compile(
    r".*/glibc-hwcaps/.*|.*/libmkl_(?:vml_)?(?:avx\w*|mc\d?|def|cmpt)\.so[\d.]*"
    r"|.*/libggml-cpu-\w+\.so[\d.]*",
    re.DOTALL,
)
# Libraries that have code for several levels inside, and ask the CPU. Source: their documentation.
_ASKING = re.compile(
    r".*/lib(?:mkl_core|mkl_rt|dnnl|torch_cpu|tensorflow_(?:cc|framework)"
    r"|onnxruntime|fbgemm)(?:-[\w.-]+)?\.so[\d.]*|.*/_multiarray_umath\.[\w-]+\.so",
    re.DOTALL,
)


def cpu_level(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold each level that files need against what the site's processor has."""
    if image.site.arch != "x86_64":
        return
    groups: dict[int, list[str]] = {}
    for path, file in sorted(image.files.items()):
        level = file.described.x86_level if file.described else 0
        if level > _BASELINE and not _CHOSEN.fullmatch(path):
            groups.setdefault(level, []).append(path)
    yield from _chosen(image)
    for level, paths in sorted(groups.items(), reverse=True):
        paths.sort(key=lambda path: (path not in image.required, path))
        yield from _held(image, f"x86-64-v{level}", paths)


def _chosen(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Note what chooses its code by the CPU when it runs: its files ask for nothing."""
    paths = [
        path
        for path in sorted(image.files)
        if _CHOSEN.fullmatch(path) or _ASKING.fullmatch(path) or _chooses(image, path)
    ]
    if paths:
        paths.sort(key=lambda path: (path not in image.required, path))
        verb = "chooses its" if len(paths) == 1 else "choose their"
        yield RuleFinding(
            level="note",
            file=paths[0],
            what=f"{and_more(paths)} {verb} code by the CPU when it runs",
            why="it starts on each x86-64, and newer instructions are used where the CPU has them",
        )


def _chooses(image: StaticQuestions, path: str) -> bool:
    """Return whether a file is an OpenBLAS with code for many CPUs; others are built for one."""
    return fabric_signs.CHOOSES in image.files[path].signs.words


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
