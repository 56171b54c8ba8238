"""Rules of what is loaded: is each file and library there, and for this machine."""

from collections.abc import Iterator, Mapping

from dlcontainer.config.field_types import Arch
from dlcontainer.image.contents.elf_format import ElfForm
from dlcontainer.validate.static import host_brought
from dlcontainer.validate.static.finding import Level, RuleFinding, and_more, needing, worst
from dlcontainer.validate.static.loader import LoaderNeed
from dlcontainer.validate.static.questions import StartedFiles, StaticQuestions

# e_machine, byte order. Source: ELF headers, man page elf(5); EM_PPC64 with either order.
_FORMS: Mapping[Arch, ElfForm] = {
    "x86_64": ElfForm(wide=True, order="<", machine=62),
    "aarch64": ElfForm(wide=True, order="<", machine=183),
    "ppc64le": ElfForm(wide=True, order="<", machine=21),
}
_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 22: "s390x"}
_PPC64 = 21
_LOADER_WHY = "the loader looks in RPATH, LD_LIBRARY_PATH, RUNPATH, ld.so.cache, default folders"


def architecture(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Compare the architecture that the image's file states with the site's."""
    arch = image.source.arch
    if arch is not None and arch != image.site.arch:
        yield RuleFinding(
            level="error",
            what=f"the image is for {arch}, the site's nodes are {image.site.arch}",
            why="no program of the image starts there",
            fix=f"take or build an image for {image.site.arch}",
        )


def machine(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Compare the machine of what starts with the site's."""
    expected = _FORMS[image.site.arch]
    groups: dict[str, list[StartedFiles]] = {}
    for started in image.started:
        described = image.files[started.path].described
        if described is not None and described.form != expected:
            groups.setdefault(_named(described.form), []).append(started)
    for name, those in groups.items():
        level: Level = "error" if any(started.start.required for started in those) else "warning"
        those.sort(key=lambda started: not started.start.required)
        yield RuleFinding(
            level=level,
            file=those[0].start.path,
            what=f"{and_more([started.start.path for started in those])}: made for {name}",
            why=f"the site's nodes are {image.site.arch}: it does not start, or can't be imported",
            fix=f"install the build for {image.site.arch}",
        )


def _named(form: ElfForm) -> str:
    if form.machine == _PPC64:
        return "ppc64le" if form.order == "<" else "ppc64, big-endian"
    return _MACHINES.get(form.machine, f"machine {form.machine} (e_machine)")


def damaged(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name ELF files that can't be read: cut, or made to mislead."""
    for path, file in sorted(image.files.items()):
        if file.damage:
            yield RuleFinding(
                level="error" if path in image.required else "warning",
                file=path,
                what=f"{path}: {file.damage}",
                why="the loader refuses it, or the program crashes",
                fix="copy the image again; if the file is the same then, install its package again",
            )


def missing_library(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name each library that the loader would not find, once."""
    groups: dict[str, dict[LoaderNeed, list[StartedFiles]]] = {}
    mismatches: dict[str, str] = {}
    for started in image.started:
        for missing in started.loaded.missing:
            name = missing.need.library
            if not image.is_brought(name):
                groups.setdefault(name, {}).setdefault(missing.need, []).append(started)
                if missing.other_machine:
                    mismatches[name] = missing.other_machine
    for name, needs in sorted(groups.items()):
        yield _missing(image, name, needs, mismatches.get(name, ""))


def _missing(
    image: StaticQuestions,
    name: str,
    needs: Mapping[LoaderNeed, list[StartedFiles]],
    other_machine: str,
) -> RuleFinding:
    places = _places(image, name)
    levels = {
        _level(started, is_elsewhere=bool(places)) for those in needs.values() for started in those
    }
    level = worst(levels)
    # The one named first is one that made the level.
    requesters = sorted(
        needs,
        key=lambda need: (
            all(_level(started, is_elsewhere=bool(places)) != level for started in needs[need]),
            need.requester,
        ),
    )
    files = list(dict.fromkeys(need.requester for need in requesters))
    what = f"{needing(files)} {name}, which the loader does not find"
    why, fix = _LOADER_WHY, f"install the package that has {name}"
    vendor = host_brought.OF_DRIVERS.get(host_brought.stem(name))
    if other_machine:
        what += f"; {other_machine} is of another machine"
        fix = f"install the build for {image.site.arch}"
    elif places:
        what += f"; {places[0]} is in none of its folders"
        if level == "note":
            why = "it works where the program has loaded that file before (as `import` of its own)"
        fix = f"add {places[0].rpartition('/')[0]} to LD_LIBRARY_PATH in the image, or run ldconfig"
    elif vendor is not None:
        why = f"it is the driver's, which the host brings; the site has no {vendor} GPU"
        fix = "take a build without GPU code, or write `accelerator` into the site's file"
    return RuleFinding(level=level, file=files[0], what=what, why=why, fix=fix)


def _level(started: StartedFiles, *, is_elsewhere: bool) -> Level:
    """Weigh a missing library: a module's may be loaded by its package before."""
    if started.start.kind == "module" and is_elsewhere:
        return "warning" if started.start.required else "note"
    return "error" if started.start.required else "warning"


def _places(image: StaticQuestions, name: str) -> list[str]:
    expected = _FORMS[image.site.arch]
    return sorted(
        path
        for path, file in image.files.items()
        if file.described
        and file.described.form == expected
        and name in (path.rpartition("/")[2], file.described.soname)
    )
