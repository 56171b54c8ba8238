"""One requirement (PEP 508) in words: parsed, or refused for the true reason, column and all.

Source: packaging.python.org, "Dependency specifiers". Addresses are never repeated in a message:
a password may stand in them.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from dlcontainer.authoring.readers.faults import RELEASE_NEXT, FaultList
from dlcontainer.config.suggestions import cut
from dlcontainer.errors import Mark

# Beyond what anybody writes by hand, and far from where a parser gives up.
_LONGEST, _MOST_PARENTHESES = 4096, 20
_SHOWN = 80
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_VCS = re.compile(r"(?:^|@|\s)\s*(git|hg|svn|bzr)\+", re.IGNORECASE)
_FILE_OF = re.compile(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*@\s*file:", re.IGNORECASE)
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://|^file:|@\s*[A-Za-z][A-Za-z0-9+.-]*:", re.IGNORECASE)
_PATH = re.compile(r"^[./~\\]|^[A-Za-z]:[\\/]|^[^;\[<>=!]*[/\\]")
_ARCHIVE = re.compile(
    r"^\S+\.(?:whl|zip|tar|tgz|tbz|tar\.(?:gz|bz2|xz|lzma))(?:\[[^\]]*\])?(?=\s|;|$)", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_CONDA = re.compile(rf"({_NAME}(?:\[[^\]]*\])?)\s*=\s*([^=\s;,]+)(?:=\S*)?")
_MARKER_NEXT = (
    "markers are python_version, python_full_version, sys_platform, platform_machine, "
    "platform_system, implementation_name and the like"
)

Place = Callable[[int], Mark | str]


class RequirementRefusal(NamedTuple):
    """Where in the text, what, and what to write instead."""

    offset: int
    what: str
    next_step: str | None


def parse(text: str, place: Place, faults: FaultList) -> Requirement | None:
    """Return the requirement of a text; None where it was refused, with the reason noted.

    `place` maps an offset in the text to its place in the file.
    """
    refusal = _foreign(text) or _unreadable(text)
    requirement = None
    if refusal is None:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            refusal = _invalid(text, str(error))
        except (ValueError, RecursionError):
            refusal = RequirementRefusal(0, f"not a requirement: {_shown(text)}", None)
    if requirement is not None:
        refusal = _marker(requirement, text)
    if refusal is not None:
        faults.add(place(refusal.offset), refusal.what, refusal.next_step)
        return None
    return requirement


def name_of(requirement: Requirement) -> str:
    """Return the name as indexes have it (PEP 503)."""
    return canonicalize_name(requirement.name)


def _foreign(text: str) -> RequirementRefusal | None:
    """Refuse what would fetch a thing, or run the program of a foreign project."""
    if text.endswith("\\") or re.search(r"\\\s", text):
        return RequirementRefusal(
            text.rindex("\\"),
            "a backslash stands inside the line",
            "nothing may follow the backslash of a continued line",
        )
    if vcs := _VCS.search(text):
        what = f"an address of version control ({vcs[1].lower()}) is not taken"
        return RequirementRefusal(vcs.start(1), f"{_named(text)}{what}", RELEASE_NEXT)
    if file_of := _FILE_OF.match(text):
        what = f"'{file_of[1]} @ file:…' names a place of the host that wrote the list"
        return RequirementRefusal(0, what, f"write {file_of[1]}==VERSION")
    for pattern, what in ((_URL, "an address"), (_ARCHIVE, "a file"), (_PATH, "a path")):
        if match := pattern.search(text):
            shown = "" if pattern is _URL else f": {_shown(text)}"
            sentence = f"{_named(text)}{what} is not taken{shown}"
            return RequirementRefusal(match.start(), sentence, RELEASE_NEXT)
    return None


def _named(text: str) -> str:
    name = re.match(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*@", text)
    return f"'{name[1]}': " if name else ""


def _unreadable(text: str) -> RequirementRefusal | None:
    if len(text) > _LONGEST:
        what = f"a requirement of more than {_LONGEST} characters"
        return RequirementRefusal(0, what, None)
    if variable := _VARIABLE.search(text):
        what = "variables of the host (${…}) are not read"
        return RequirementRefusal(variable.start(), what, "write the value out")
    if text.count("(") > _MOST_PARENTHESES:
        return RequirementRefusal(0, "a marker with too many parentheses", None)
    if conda := _CONDA.fullmatch(text.partition(";")[0].rstrip()):
        what = f"not a requirement: {_shown(text)} has a single '='"
        return RequirementRefusal(conda.end(1), what, f"write {conda[1]}=={conda[2]}")
    return None


def _invalid(text: str, answer: str) -> RequirementRefusal:
    """Word what `packaging` says: its first line is the reason, the caret in its last the place."""
    lines = answer.split("\n")
    caret = re.search(r"[\^~]", lines[-1]) if len(lines) > 2 else None
    offset = min(max(caret.start() - 4, 0), len(text)) if caret else 0
    semicolon = text.find(";")
    word = re.match(r"[A-Za-z_][\w.]*", text[offset:])
    if 0 <= semicolon < offset and word and "marker variable" in lines[0]:
        what = f"unknown environment marker '{cut(word[0], _SHOWN)}'"
        return RequirementRefusal(offset, what, _MARKER_NEXT)
    reason = cut(lines[0].strip(), 200)
    what = f"not a requirement: {_shown(text)} ({reason[:1].lower()}{reason[1:]})"
    return RequirementRefusal(offset, what, "write NAME, NAME==VERSION or NAME>=VERSION,<VERSION")


def _marker(requirement: Requirement, text: str) -> RequirementRefusal | None:
    """Refuse a marker that no machine can evaluate; how it comes out here does not matter."""
    try:
        if requirement.marker is not None:
            requirement.marker.evaluate()
    except (UndefinedComparison, UndefinedEnvironmentName):
        what = f"the marker compares two things that have no order: {_shown(text)}"
        return RequirementRefusal(text.find(";") + 1, what, _MARKER_NEXT)
    except InvalidVersion:
        pass  # a word of this host's, no version: another machine may have one
    return None


def _shown(text: str) -> str:
    return f"'{cut(text.strip(), _SHOWN)}'"
