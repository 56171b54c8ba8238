"""The rule of what an image should not have: rights, credentials, caches, folders of all users."""

import re
from collections.abc import Callable, Iterator

from dlcontainer.image.contents import TreeEntry
from dlcontainer.packages import credentials
from dlcontainer.validate.static import secret_places
from dlcontainer.validate.static.finding import RuleFinding, and_more
from dlcontainer.validate.static.questions import StaticQuestions

# Runtimes that mount images `nosuid`, or start programs without new privileges. Sources:
# apptainer.org and sylabs.io, user guides, "Security"; shifter.readthedocs.io, "Security".
_NO_SETUID = frozenset({"apptainer", "singularity", "shifter"})
_OF_ALL = re.compile(r"/(?:tmp|var/tmp|dev)(?:/.*)?", re.DOTALL)
_SHARED = re.compile(r"/(?:var/)?tmp(?:/[^$]*)?")
# As it is anywhere: programs make names of their own there.
_USUAL = re.compile(r"(?:TMP|TEMP)(?:DIR)?=/(?:var/)?tmp/?")
_CACHE = re.compile(
    r"(/var/lib/apt/lists|/var/cache/(?:apt|dnf|libdnf5|yum|zypp|apk)|.*/\.cache/(?:pip|uv))/.*",
    re.DOTALL,
)
# conda knows a cache by this file.
_CONDA, _CONDA_MARK = "/pkgs/", "/pkgs/urls.txt"
# A build argument or variable of a line: NAME=text.
_SETTING = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]{2,60})=([^\s'\"]+)")
_MOST_LINE = 100_000
# Below, nobody gains by its removal.
_LEAST_CACHE = 1_000_000


def leftovers(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Name what is left in an image, a kind of it once."""
    yield from _setuid(image)
    yield from _writable(image)
    yield from _secret_files(image)
    yield from _deleted_secrets(image)
    yield from _secret_variables(image)
    yield from _secret_history(image)
    yield from _caches(image)
    yield from _shared_folders(image)


def _setuid(image: StaticQuestions) -> Iterator[RuleFinding]:
    paths = _paths(image, lambda entry: entry.kind == "-" and "s" in entry.mode[2:6:3])
    if not paths:
        return
    runtime = image.site.engine.runtime
    ignored = runtime in _NO_SETUID
    yield RuleFinding(
        level="note" if ignored else "warning",
        file=paths[0],
        what=f"{and_more(paths)}: setuid or setgid",
        why=f"{runtime} ignores it: such a program runs as the user"
        if ignored
        else f"{runtime} may heed it: as root of a user namespace such a program writes files that "
        "the user can't remove",
        fix="" if ignored else "chmod a-s in a step of the recipe",
    )


def _writable(image: StaticQuestions) -> Iterator[RuleFinding]:
    def is_open(entry: TreeEntry) -> bool:
        writable = entry.kind in "-d" and entry.mode[7:8] == "w"
        sticky = entry.kind == "d" and entry.mode[8:9] in ("t", "T")
        return writable and not sticky and not _OF_ALL.fullmatch(entry.path)

    paths = _paths(image, is_open)
    if paths:
        yield RuleFinding(
            level="warning",
            file=paths[0],
            what=f"{and_more(paths)}: any user may write",
            why="where the image lies unpacked, another user changes what runs",
            fix="chmod o-w in a step of the recipe",
        )


def _secret_files(image: StaticQuestions) -> Iterator[RuleFinding]:
    paths = _paths(
        image,
        lambda entry: (
            entry.kind == "-"
            and entry.size > 0
            and (
                secret_places.is_private(entry.path)
                or (
                    secret_places.is_settings(entry.path)
                    and secret_places.has_secret_address(image.texts.get(entry.path, ""))
                )
            )
        ),
    )
    if paths:
        yield _secret(f"{and_more(paths)}: a key, or an address with a password or token", paths[0])


def _deleted_secrets(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Files of earlier layers, by their names: what a later layer deletes is in the image still."""
    paths = [
        entry.path
        for entry in image.source.deleted()
        if entry.size > 0 and secret_places.is_private(entry.path)
    ]
    if paths:
        yield _secret(f"{and_more(paths)}: a key in a layer below; a later one hides it", paths[0])


def _secret_variables(image: StaticQuestions) -> Iterator[RuleFinding]:
    names = sorted(name for name, text in image.variables.items() if _is_secret(name, text))
    if names:
        yield _secret(f"{and_more(names)}: a variable with a password or token")


def _secret_history(image: StaticQuestions) -> Iterator[RuleFinding]:
    """Lines that made the layers, with build arguments; no line is shown."""
    lines = [
        f"step {number}"
        for number, line in enumerate(image.source.history, start=1)
        if secret_places.has_secret_address(line)
        or any(_is_secret(*setting.groups()) for setting in _SETTING.finditer(line[:_MOST_LINE]))
    ]
    if lines:
        yield _secret(f"{and_more(lines)} of its history: a password or token in the line")


def _secret(what: str, file: str = "") -> RuleFinding:
    return RuleFinding(
        level="warning",
        file=file,
        what=what,
        why="whoever reads the image has it",
        fix="revoke it, and build the image again without it",
    )


def _is_secret(name: str, text: str) -> bool:
    """Return whether a variable tells a secret; a path or a name of another variable is none."""
    named = credentials.SECRET_VARIABLE.search(name) and credentials.is_telling(text)
    return bool(named and text[0] not in "/$") or secret_places.has_secret_address(text)


def _caches(image: StaticQuestions) -> Iterator[RuleFinding]:
    of_conda = {
        entry.path.removesuffix("/urls.txt")
        for entry in image.entries
        if entry.path.endswith(_CONDA_MARK)
    }
    sizes: dict[str, int] = {}
    for entry in image.entries:
        match = _CACHE.fullmatch(entry.path)
        at = entry.path.find(_CONDA)
        folder = match[1] if match else entry.path[: at + len(_CONDA) - 1] if at >= 0 else ""
        if match or folder in of_conda:
            sizes[folder] = sizes.get(folder, 0) + entry.size
    folders = sorted(filter(sizes.get, sizes), key=lambda folder: (-sizes[folder], folder))
    size = sum(sizes.values())
    if size >= _LEAST_CACHE:
        yield RuleFinding(
            level="note",
            file=folders[0],
            what=f"{and_more(folders)}: {size / 1e6:.0f} MB of a package manager's cache",
            why="no program needs it when it runs",
            fix="remove it in the step that fills it (pip: --no-cache-dir; conda clean --all)",
        )


def _shared_folders(image: StaticQuestions) -> Iterator[RuleFinding]:
    settings = [
        f"{name}={text}"
        for name, text in sorted(image.variables.items())
        if _leads_to_shared(name, text)
    ]
    if settings:
        yield RuleFinding(
            level="note",
            what=f"{and_more(settings)}: a folder that all users of a node share",
            why="who comes first owns it, and others get 'Permission denied', or files that are "
            "not theirs",
            fix="leave it unset in the image, or put $USER into it where jobs set it",
        )


def _leads_to_shared(name: str, text: str) -> bool:
    if _USUAL.fullmatch(f"{name}={text}"):
        return False
    return any(_SHARED.fullmatch(part) for part in text.split(":"))


def _paths(image: StaticQuestions, holds: Callable[[TreeEntry], bool]) -> list[str]:
    return [entry.path for entry in image.entries if holds(entry)]
