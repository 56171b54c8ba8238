"""Rules of symbol versions: has each library what others need of it, the host's among them."""

from collections.abc import Iterable, Iterator

from dlcontainer.image.contents import elf
from dlcontainer.planning.launch import host_files
from dlcontainer.planning.versions import is_newer, numbers
from dlcontainer.sites import gpu_flags
from dlcontainer.validate.static.finding import Level, RuleFinding, needing
from dlcontainer.validate.static.loader import LoaderNeed
from dlcontainer.validate.static.questions import StaticQuestions

_LIBC, _LIBSTDCXX = "libc.so.6", "libstdc++.so.6"
_FAMILIES = {"GLIBC": _LIBC, "GLIBCXX": _LIBSTDCXX, "CXXABI": _LIBSTDCXX}


def symbol_version(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name each version that a loaded file needs and the library that it would get has not."""
    groups: dict[tuple[str, str], dict[str, bool]] = {}
    for started in image.started:
        for need, target in started.loaded.edges.items():
            for version in unmet(image, need, target):
                requesters = groups.setdefault((target, version), {})
                is_required = started.start.required or requesters.get(need.requester, False)
                requesters[need.requester] = is_required
    for (target, version), requesters in sorted(groups.items()):
        yield _lacking(image, target, version, requesters)


def unmet(image: StaticQuestions, need: LoaderNeed, target: str) -> Iterator[str]:
    """Yield the versions that a file needs and its library has not; one without any has all."""
    requester, library = image.files[need.requester].described, image.files.get(target)
    if requester is None or library is None or library.described is None:
        return
    versions = library.described.versions
    for needed in requester.needs:
        unmet = needed.version not in versions and not needed.weak
        if versions and unmet and needed.library == need.library:
            yield needed.version


def _lacking(
    image: StaticQuestions, target: str, version: str, requesters: dict[str, bool]
) -> RuleFinding:
    family = version.rpartition("_")[0]
    described = image.files[target].described
    newest = host_files.newest(family, described.versions) if described else None
    names = sorted(requesters, key=lambda path: (not requesters[path], path))
    level: Level = "error" if any(requesters.values()) else "warning"
    has = f" (it has up to {family}_{newest})" if newest else ""
    return RuleFinding(
        level=level,
        file=names[0],
        what=f"{needing(names)} {version}, and {target} has no such version{has}",
        why=f"it fails with \"version '{version}' not found\" when it is loaded",
        fix="build it on the image's own distribution, or start from a newer base",
    )


def host_library(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Hold what the host puts into the image against the image's C and C++ libraries."""
    mpi = image.site.mpi
    brings_mpi = mpi is not None and mpi.mode != "container"
    flags = gpu_flags.flags(image.site) if image.site.accelerator else ()
    if not brings_mpi and not flags:
        return
    if _newest(image, "GLIBC") is None:
        yield RuleFinding(
            level="not decided",
            what="the image has no glibc that can be read",
            why="the host's libraries are made for glibc and load with that of the image",
            fix="use an image of a distribution with glibc",
        )
        return
    looked_at = True
    for name in host_files.named(mpi) if mpi and brings_mpi else ():
        try:
            needs = elf.version_needs(host_files.located(name, image.environ))
        except (LookupError, OSError, ValueError):
            looked_at = False
            continue
        yield from _too_new(image, name, needs)
    if flags or not looked_at:
        brought = " and ".join((*(["its MPI"] if brings_mpi and not looked_at else []), *flags))
        yield from _by_release(image, brought)


def _too_new(image: StaticQuestions, name: str, needs: Iterable[str]) -> Iterator[RuleFinding]:
    versions = list(needs)
    for family, library in _FAMILIES.items():
        needed, has = host_files.newest(family, versions), _newest(image, family)
        if is_newer(needed, has):
            yield RuleFinding(
                level="error",
                file=name,
                what=f"the host's {name} needs {family}_{needed}; the image's {library} has up to "
                f"{family}_{has}",
                why="the site binds this library into the image, where it would not load",
                fix="build the image on a newer base",
            )


def _by_release(image: StaticQuestions, brought: str) -> Iterator[RuleFinding]:
    """Compare the two glibc: what the host has built needs no newer one than the host's own."""
    has = _newest(image, "GLIBC")
    host = image.site.os.glibc if image.site.os else None
    if host is None or numbers(host) is None:
        what = f"the site's file states no glibc (os.glibc); the image has {has}"
        fix = "write os.glibc into the site's file (`ldd --version` on a compute node)"
    elif is_newer(host, has):
        what = f"the host's glibc is {host}, the image's {has}"
        fix = "validate on a node of the site, where these libraries are; or use a newer base"
    else:
        return
    yield RuleFinding(
        level="not decided",
        what=f"{what}: libraries that the host brings ({brought}) may need a newer one",
        why="they load with the image's C library",
        fix=fix,
    )


def _newest(image: StaticQuestions, family: str) -> str | None:
    """Return the newest version of a family that the image's own library has."""
    name = _FAMILIES[family]
    versions = [
        file.described.versions
        for path, file in sorted(image.files.items())
        if file.described and file.described.soname == name and _is_main(image, name, path)
    ]
    return host_files.newest(family, versions[0]) if versions else None


def _is_main(image: StaticQuestions, name: str, path: str) -> bool:
    """Return whether the loader takes this file for the name, without a program's own folders."""
    folders = image.search.folders
    every = (*folders.library_path, *folders.configured, *folders.defaults)
    paths = (image.search.real(f"{folder}/{name}") for folder in every)
    return path == next((real for real in paths if real is not None), None)
