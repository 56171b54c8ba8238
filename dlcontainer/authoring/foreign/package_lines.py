"""What a command of a foreign file asks for: packages of the OS or of Python, nothing, or else.

Sources: apt-get(8); pip's documentation, "pip install".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from dlcontainer.authoring.foreign.shell_text import ShellWord
from dlcontainer.config.field_types import OsPackage
from dlcontainer.config.suggestions import cut

Kind = Literal["apt", "pip", "folder", "nothing", "other"]
# Variables that say how a command talks, not what it installs.
_TALK = frozenset(
    {
        *("DEBIAN_FRONTEND", "DEBCONF_NONINTERACTIVE_SEEN", "LC_ALL", "LANG"),
        *("PIP_NO_CACHE_DIR", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_ROOT_USER_ACTION"),
        *("PIP_BREAK_SYSTEM_PACKAGES", "PIP_DEFAULT_TIMEOUT", "PYTHONDONTWRITEBYTECODE"),
    }
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PIP = re.compile(r"(?:[\w./-]*/)?pip(?:3(?:\.\d+)?)?")
_PYTHON = re.compile(r"(?:[\w./-]*/)?python(?:3(?:\.\d+)?)?")
_APT_TALK = re.compile(
    r"-[yqfm]+|-q=\d|--yes|--assume-yes|--quiet|--no-install-recommends|--no-install-suggests"
    r"|--fix-broken|--fix-missing|--no-show-upgraded|--allow-unauthenticated"
)
_APT_EMPTY = frozenset({"update", "clean", "autoclean", "autoremove"})
# Folders that hold nothing which a build leaves in an image.
_LEFTOVERS = re.compile(
    r"/var/(?:lib/apt/lists|cache/apt|log)(?:/.*)?|/(?:var/)?tmp/\*|(?:/root|~)/\.cache(?:/.*)?"
)
_TALK_OF_PIP = """
    --no-cache-dir --no-cache --upgrade -U --quiet -q -qq -qqq --verbose -v -vv --user
    --disable-pip-version-check --root-user-action=ignore --break-system-packages
    --no-warn-script-location --prefer-binary --ignore-installed -I --no-input --system
    --force-reinstall --no-compile --no-color --isolated --require-virtualenv -y
"""
_PIP_TALK = frozenset(_TALK_OF_PIP.split())
_TALK_WITH_VALUE = """
    --progress-bar --timeout --default-timeout --retries --root-user-action --cache-dir
    --upgrade-strategy --log --only-binary
"""
_PIP_TALK_VALUE = frozenset(_TALK_WITH_VALUE.split())
_LOCAL = re.compile(r"\.{0,2}/.*|\.{1,2}(?:\[.*\])?|~.*", re.DOTALL)
_OS_PACKAGE: TypeAdapter[str] = TypeAdapter(OsPackage)


@dataclass(frozen=True, kw_only=True, slots=True)
class PipWord:
    """One requirement of a `pip install`, or an option with its value; `at` is its place."""

    text: str
    at: int
    option: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What a command asks for; `projects`: those of the file's folder; `why` it is not taken."""

    kind: Kind
    os_packages: tuple[str, ...] = ()
    pip: tuple[PipWord, ...] = ()
    projects: tuple[str, ...] = ()
    folder: str = ""
    recommends: bool = False
    why: str = ""


_NOTHING = Meaning(kind="nothing")


def meaning(words: Sequence[ShellWord]) -> Meaning:
    """Return what a command's words ask for."""
    words = list(words)
    while words and (assigned := _ASSIGNMENT.fullmatch(words[0].text)):
        if assigned[1] not in _TALK:
            return _other(f"the variable {cut(assigned[1], 40)} may change what it does")
        words.pop(0)
    if words and words[0].text == "sudo":
        words.pop(0)
    if not words:
        return _NOTHING
    program, rest = words[0].text, words[1:]
    texts = [word.text for word in rest]
    if program in ("apt", "apt-get"):
        return _apt(texts)
    if _PYTHON.fullmatch(program) and texts[:2] == ["-m", "pip"]:
        return _pip(rest[2:])
    if program == "uv" and texts[:1] == ["pip"]:
        return _pip(rest[1:])
    return _pip(rest) if _PIP.fullmatch(program) else _plain(program, texts)


def _plain(program: str, texts: Sequence[str]) -> Meaning:
    if program == "cd" and len(texts) == 1:
        return Meaning(kind="folder", folder=texts[0], why=_NO_PACKAGES)
    if _does_nothing(program, texts):
        return _NOTHING
    if program.rpartition("/")[2] in ("conda", "mamba", "micromamba"):
        return _other("conda's packages: give its environment.yml as FILE")
    if program in ("yum", "dnf", "apk", "zypper", "microdnf"):
        return _other("another package manager than apt")
    return _other(_NO_PACKAGES)


def _does_nothing(program: str, texts: Sequence[str]) -> bool:
    """Return whether a command leaves nothing in an image that this one would not have."""
    if program == "set":
        return all(text[:1] in "-+" for text in texts)
    if program == "export":
        names = [_ASSIGNMENT.fullmatch(text) for text in texts]
        return bool(names) and all(name and name[1] in _TALK for name in names)
    if program == "rm":
        paths = [text for text in texts if not text.startswith("-")]
        return bool(paths) and all(_LEFTOVERS.fullmatch(path) for path in paths)
    return program in (":", "true")


_NO_PACKAGES = "neither pip nor apt"


def _apt(words: Sequence[str]) -> Meaning:
    options = [word for word in words if word.startswith("-")]
    names = [word for word in words if not word.startswith("-")]
    command, names = (names[0] if names else ""), names[1:]
    if command in _APT_EMPTY:
        return _NOTHING
    if command in ("upgrade", "dist-upgrade", "full-upgrade"):
        return _other("a build starts from today's packages of its base")
    if command != "install":
        return _other(f"apt's '{cut(command, 40)}'")
    for option in options:
        if not _APT_TALK.fullmatch(option):
            return _other(f"apt's option {cut(option, 40)}")
    for name in names:
        try:
            _OS_PACKAGE.validate_python(name)
        except ValidationError:
            return _other(f"'{cut(name, 60)}' is no OS package (NAME or NAME=VERSION)")
    recommends = "--no-install-recommends" not in options
    return Meaning(kind="apt", os_packages=tuple(names), recommends=recommends)


def _pip(words: Sequence[ShellWord]) -> Meaning:
    words = list(words)
    parts: list[PipWord] = []
    command = next((word for word in words if not word.text.startswith("-")), None)
    if command is None or command.text != "install":
        is_cache = [word.text for word in words[:2]] == ["cache", "purge"]
        return _NOTHING if is_cache else _other("another command of pip than install")
    words.remove(command)
    while words:
        word = words.pop(0)
        name, equals, value = word.text.partition("=")
        if word.text in _PIP_TALK or (name in _PIP_TALK_VALUE and equals):
            continue
        if name in _PIP_TALK_VALUE:
            words = words[1:]
        elif word.text.startswith("-") and word.text != "-":
            parts.append(_option(word, words, name, value if equals else None))
        else:
            parts.append(PipWord(text=word.text, at=word.at))
    return _without_own(parts)


def _option(word: ShellWord, words: list[ShellWord], name: str, value: str | None) -> PipWord:
    """Return an option of pip; `words` lose the value that stands by itself."""
    short = re.match(r"-[recfi]", word.text)
    if short and not word.text.startswith("--"):
        name, value = short[0], word.text[2:].removeprefix("=") or None
    has_value = name in _VALUED
    if has_value and value is None and words:
        value = words.pop(0).text
    return PipWord(text=value or "", at=word.at, option=name)


_OPTIONS_WITH_VALUE = """
    -r -c -e -f -i -t --requirement --constraint --editable --find-links --index-url --pypi-url
    --extra-index-url --trusted-host --target --prefix --root --no-binary --config-settings
    --platform --python-version --python --index --default-index --src --proxy --cert
"""
_VALUED = frozenset(_OPTIONS_WITH_VALUE.split())


def _without_own(parts: Sequence[PipWord]) -> Meaning:
    """Take a project of the file's own folder apart: it is no package of an index."""
    projects = [word for word in parts if _is_own(word)]
    taken = tuple(word for word in parts if word not in projects)
    if projects and not any(word.option in (None, *_FILES) for word in taken):
        return _other(OWN)
    return Meaning(kind="pip", pip=taken, projects=tuple(word.text for word in projects))


def _is_own(word: PipWord) -> bool:
    is_package = word.option in (None, "-e", "--editable")
    return is_package and _LOCAL.fullmatch(word.text) is not None


OWN = "your own project is not in the image: bind its folder"
_FILES = ("-r", "--requirement")


def _other(why: str) -> Meaning:
    return Meaning(kind="other", why=why)
