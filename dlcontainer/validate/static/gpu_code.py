"""The rule of GPU code: does the code in the image's files run on the site's GPUs."""

import re
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.image.gpu_binaries.code_counts import DeviceCode
from dlcontainer.planning import device_code
from dlcontainer.planning.compatibility import CUDA_DRIVERS
from dlcontainer.planning.conflicts.toolkits import line_of
from dlcontainer.planning.device_code import GFX_SOURCE, PTX_SOURCE, SASS_SOURCE, CodeFit
from dlcontainer.planning.versions import Numbers, compare, numbers, written
from dlcontainer.validate.static.finding import Level, RuleFinding, and_more
from dlcontainer.validate.static.gpu_driver import driver_of
from dlcontainer.validate.static.questions import StaticQuestions

_MOST_CODES = 12
# The CUDA release that brought a PTX ISA; one that is not listed stays open.
# Source: cuda-python, cuda/bindings/utils/_ptx_utils.py, after NVIDIA's PTX ISA, "Release Notes".
_CUDA_OF_ISA: Mapping[Numbers, Numbers] = {
    (6, 0): (9, 0),
    (6, 1): (9, 1),
    (6, 2): (9, 2),
    (6, 3): (10, 0),
    (6, 4): (10, 1),
    (6, 5): (10, 2),
    **{(7, minor): (11, minor) for minor in range(9)},
    **{(8, minor): (12, minor) for minor in range(6)},
    (8, 6): (12, 7),
    (8, 7): (12, 8),
    (8, 8): (12, 9),
    (9, 0): (13, 0),
    (9, 1): (13, 1),
}


def gpu_code(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Group the files with GPU code by how it runs on the site's GPUs."""
    gpu = image.site.accelerator
    vendor = gpu.vendor if gpu else None
    files = {
        path: file.code for path, file in sorted(image.files.items()) if not file.code.is_empty
    }
    yield from _unread(image)
    if gpu is None or not files:
        if gpu is not None:
            yield RuleFinding(
                level="note",
                what="no file of the image has GPU code that this tool reads",
                why=f"programs of the image leave the site's {gpu.model} alone, or compile code "
                "when they start",
            )
        return
    if gpu.target is None:
        yield RuleFinding(
            level="not decided",
            what=f"the site's file states no target of its {gpu.model} (accelerator.target)",
            why="whether the image's GPU code runs there follows from it",
            fix="write accelerator.target: sm_90, gfx90a …",
        )
        return
    fits = {path: device_code.best(list(file), gpu.target) for path, file in _of(vendor, files)}
    yield from _without(image, gpu.target, [path for path, match in fits.items() if match is None])
    for fit in CodeFit:
        of_fit = {path: match.code for path, match in fits.items() if match and match.fit is fit}
        if fit is CodeFit.COMPILED:
            for code in sorted(set(of_fit.values())):
                paths = [path for path, name in of_fit.items() if name == code]
                yield from _compiled(image, gpu.target, code, paths)
        elif of_fit:
            how = "native code" if fit is CodeFit.NATIVE else "code of a related GPU"
            names = ", ".join(sorted(set(of_fit.values())))
            yield RuleFinding(
                level="note",
                file=min(of_fit),
                what=f"{and_more(list(of_fit))}: {how} for {gpu.target} ({names})",
                why="it runs without a compiler",
            )


def _of(vendor: str | None, files: Mapping[str, DeviceCode]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the files that have code, with that for a vendor's GPUs."""
    for path, code in files.items():
        if code.codes:
            yield path, [name for name in code.codes if device_code.vendor_of(name) == vendor]


def _unread(image: StaticQuestions) -> Iterator[RuleFinding]:
    for path, file in sorted(image.files.items()):
        for note in file.code.notes:
            yield RuleFinding(
                level="not decided",
                file=path,
                what=f"its GPU code was not read whole: {note}",
                why="whether it runs on the site's GPUs is open",
                fix="if it names zstd, install that; else install the file's package again",
            )


def _without(image: StaticQuestions, target: str, paths: Sequence[str]) -> Iterator[RuleFinding]:
    """Weigh files without code for the GPU.

    A framework's own must have some. Where others run, these may be for other GPUs: cuSPARSELt has
    none for older ones, and a PyTorch beside it works.
    """
    of_core = [path for path in paths if path in image.core]
    optional = [path for path in paths if path not in image.core]
    with_code = sum(bool(file.code.codes) for file in image.files.values())
    groups: list[tuple[Level, list[str]]] = [("error", of_core), ("warning", optional)]
    if len(paths) == with_code:
        groups = [("error", [*of_core, *optional])]
    source = GFX_SOURCE if target.startswith("gfx") else SASS_SOURCE
    for level, names in groups:
        if names:
            yield RuleFinding(
                level=level,
                file=names[0],
                what=f"{and_more(names)}: no GPU code for {target}, "
                f"only {_listed(image.files[names[0]].code.codes)}",
                why=f"the first kernel fails with 'no kernel image' or a similar error ({source})",
                fix=f"take a build for {target}",
            )


def _compiled(
    image: StaticQuestions, target: str, code: str, paths: list[str]
) -> Iterator[RuleFinding]:
    """Weigh PTX: the driver compiles it when the program starts, if it is new enough."""
    isa = max(image.files[path].code.ptx_isa.get(code, (0, 0)) for path in paths)
    cuda = _CUDA_OF_ISA.get(isa)
    text = f"PTX of CUDA {written(cuda)}" if cuda else f"PTX ISA {written(isa)}"
    level: Level
    match _compiles(image, cuda):
        case True:
            level = "warning"
            why = f"{text}: the first start takes minutes more, and fills ~/.nv in the user's HOME"
        case False:
            level, why = "error", f"{text} is newer than the site's driver: {PTX_SOURCE}"
        case _:
            level, why = "not decided", f"{text}, the site's newest CUDA is open: {PTX_SOURCE}"
    yield RuleFinding(
        level=level,
        file=paths[0],
        what=f"{and_more(paths)}: for {target} only {code}, compiled when a program starts",
        why=why,
        fix=f"take a build with native code for {target}",
    )


def _compiles(image: StaticQuestions, cuda: Numbers | None) -> bool | None:
    """Return whether the site's driver compiles PTX of a CUDA release; None where that is open.

    Within a major line every driver runs programs, and only one as new as the release compiles.
    """
    gpu, driver = image.site.accelerator, driver_of(image.site)
    line = line_of(cuda) if cuda else None
    if cuda is None or line is None:
        return None
    if driver is not None:
        if compare(driver, line.driver) == -1:
            return False
        newer = [toolkit for toolkit in CUDA_DRIVERS if toolkit.line > cuda]
        if any(compare(driver, toolkit.driver) in (0, 1) for toolkit in newer):
            return True
    toolkit = numbers((gpu and gpu.toolkit) or "")
    order = compare(cuda, toolkit[:2]) if toolkit else None
    return None if order is None else order != 1


def _listed(codes: Mapping[str, int]) -> str:
    names = sorted(codes, key=_order)
    more = f" and {len(names) - _MOST_CODES} more" if len(names) > _MOST_CODES else ""
    return ", ".join(names[:_MOST_CODES]) + more


def _order(code: str) -> tuple[str, int, str]:
    """Sort sm_75 before sm_100a."""
    kind, _, number = code.partition("_")
    digits = re.match(r"\d*", number)
    return kind, int(digits[0] or 0) if digits else 0, code
