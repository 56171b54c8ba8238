"""A resolver's words, in ours: the last cause, with the place of each line, in six lines."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from dlcontainer.errors import BuildError, ConfigError, DlcontainerError, MisfitError
from dlcontainer.packages import credentials
from dlcontainer.packages.resolve.resolution import Target

_LONGEST = 320
_SPECIFIER = r"(?:===?|!=|<=|>=|~=|<|>)[A-Za-z0-9.*+!_-]*[A-Za-z0-9*]"
_TERM = re.compile(
    rf"(?<![A-Za-z0-9._/-])([A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]|[A-Za-z0-9])"
    rf"((?:\[[^\]]*\])?)((?:{_SPECIFIER}(?:,{_SPECIFIER})*)?)"
)
_UNKNOWN = re.compile(r"Because (\S+) was not found in the (?:package registry|provided package)")
_STATUS = re.compile(r"(?<![:\d.])\b([45]\d\d) (?=[A-Z]|error)")
_ADDRESS = re.compile(r"(?:https?|file)://[^\s()]+[^\s().,/]")
_REFUSED = re.compile(r"could not be queried|returned a 403 Forbidden")
_NO_WHEEL = re.compile(
    r"(?P<all>(?P<name>\S+?)(?:==\S+)?) (?:\(\S+\) )?(?:has|have) no usable wheels"
)
_NO_TAG = re.compile(r"(\S+?)(?:==\S+)? (?:has|have) no wheels with a matching (?:Python|platform)")
_PRE = re.compile(r"^hint: (?=.*[Pp]re-release).*?`([^`]+)`", re.MULTILINE)
_FOLLOWS = re.compile(r"And because (?:we know from \(|only the following versions)")
_PIP_CAUSE = re.compile(r"The conflict is caused by:\n(.*?)(?:\n\s*\n|\Z)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a requirement, a pin or a cap stands; `is_parents` for a pin of the parent recipe."""

    requirement: Requirement
    origin: str
    is_parents: bool = False

    @property
    def name(self) -> str:
        """The canonical name."""
        return canonicalize_name(self.requirement.name)


def index_fault(text: str) -> BuildError | None:
    """Return the error of an index that does not answer as one, None where it did.

    No password of an address is in it.
    """
    if "Failed to fetch" not in text and not _REFUSED.search(text):
        return None
    match, status = _ADDRESS.search(text), _STATUS.search(text)
    where = credentials.shown(match[0]) if match else None
    if status is None:
        causes = [line.partition("cause: ")[2] for line in text.splitlines() if "cause: " in line]
        why = causes[-1] if causes else text.splitlines()[-1]
        return BuildError(
            "cannot reach the package index",
            where=where,
            why=credentials.shown(why),
            next_step="check that the index is up, and check routing.pip and routing.proxy of "
            "the site",
        )
    next_step = "check that the index is up, or try again later"
    if status[1] in {"401", "403", "407"}:
        next_step = (
            "write user and password into the index's address (routing.pip of the site, "
            "or pip.conf), or into ~/.netrc"
        )
    return BuildError(
        f"the package index answers {status[1]} {_phrase(int(status[1]))}".rstrip(),
        where=where,
        next_step=next_step,
    )


def _phrase(status: int) -> str:
    return next((known.phrase for known in HTTPStatus if known == status), "")


def unknown_name(text: str) -> str | None:
    """Return the name that no index has, where a complaint is about one: no pin is to blame."""
    match = _UNKNOWN.search(text)
    return canonicalize_name(re.split(r"[\[<>=!~]", match[1])[0]) if match else None


def refusal(text: str, places: Sequence[Place], target: Target, file: str) -> DlcontainerError:
    """Return the error for a question without a solution: at most six lines."""
    if "Because" not in text and not _PIP_CAUSE.search(text):
        return BuildError(
            "the resolver failed",
            why=credentials.shown("\n    ".join(text.splitlines()[:3])),
            next_step="read its words; `dlcontainer doctor` says which resolver is here",
        )
    causes = because(text)
    reason = " ".join(causes)
    causes, used = annotate(causes, places)
    why = "\n    ".join(causes)
    where = next((place.origin for place in used if not place.is_parents), None)
    where = where or _place_named(reason, places) or file
    machine = f"Python {target.python} on {target.arch} (glibc {target.glibc})"
    if match := _NO_WHEEL.search(reason):
        return MisfitError(
            f"{match['name']}: source archives only, no wheel",
            where=where,
            why=why,
            next_step=wheel_advice(match["all"]),
        )
    if match := _NO_TAG.search(reason):
        hint = next((line[6:] for line in text.splitlines() if line.startswith("hint: ")), "")
        return MisfitError(
            f"{match[1]}: no wheel for {machine}",
            where=where,
            why=hint or why,
            next_step="choose versions that have such a wheel, or another base",
        )
    if (match := _PRE.search(text)) and match[1] in reason:
        return MisfitError(
            f"{match[1]}: nothing but pre-releases fits",
            where=where,
            why=why,
            next_step="name the pre-release in full if you want it: NAME==VERSION",
        )
    return MisfitError(
        f"no versions fit these wishes for {machine}",
        where=where,
        why=why,
        next_step=_advice(used, file),
    )


def without_wheel(text: str) -> str | None:
    """Return what a resolver's words say has source archives alone; None where they do not."""
    match = _NO_WHEEL.search(" ".join(because(text)))
    return match["all"] if match and "Because" in text else None


def wheel_advice(requirement: str) -> str:
    """Say how a package without a wheel comes into an image."""
    return (
        f"make a wheel where its code may run (`pip wheel --no-deps '{requirement}'`) and give its "
        "folder in routing.wheels of the site, or build it in a shell step of a recipe"
    )


def because(text: str) -> list[str]:
    """Return the sentences of the last cause: two at most, each cut to a line."""
    if match := _PIP_CAUSE.search(text):
        lines = [" ".join(line.split()) for line in match[1].splitlines()]
        lines = [line.replace("The user requested (constraint)", "required:") for line in lines]
        lines = [line.replace("The user requested", "you require") for line in lines]
        return [_cut(re.sub(r" \(from .*\)$", "", line)) for line in lines[-3:]]
    body = re.split(r"^hint:", text, maxsplit=1, flags=re.MULTILINE)[0]
    joined = " ".join(body[max(0, body.find("Because ")) :].split())
    sentences = re.split(r"(?<=\.)(?: \(\d+\))? (?=(?:And b|B)ecause )", joined)
    causes = [sentence for sentence in sentences if re.match(r"(?:And b|B)ecause ", sentence)]
    # Those that only say what follows from others of eighty.
    telling = [cause for cause in causes if not _FOLLOWS.match(cause)]
    return [_cut(_plain(sentence)) for sentence in telling[-2:]] or [_cut(joined)]


def annotate(sentences: Iterable[str], places: Sequence[Place]) -> tuple[list[str], list[Place]]:
    """Write behind each requirement its place; return the sentences, and the places in order."""
    used: list[Place] = []

    def with_place(match: re.Match[str]) -> str:
        place = _place_of(match[1], match[3], places)
        if place is None or place in used:
            return match[0]
        used.append(place)
        return f"{match[0]} ({place.origin})"

    return [_TERM.sub(with_place, sentence) for sentence in sentences], used


def _place_named(reason: str, places: Sequence[Place]) -> str | None:
    """Return the place of the first package in a reason that the user's file names."""
    own = {place.name: place.origin for place in reversed(places) if not place.is_parents}
    names = (canonicalize_name(match[1]) for match in _TERM.finditer(reason))
    return next((own[name] for name in names if name in own), None)


def _place_of(name: str, specifier: str, places: Sequence[Place]) -> Place | None:
    try:
        bound = SpecifierSet(specifier)
    except InvalidSpecifier:
        return None
    canonical = canonicalize_name(name)
    return next(
        (
            place
            for place in places
            if place.name == canonical and place.requirement.specifier == bound
        ),
        None,
    )


def _plain(sentence: str) -> str:
    end = r",? we can conclude that your requirements are unsatisfiable"
    return re.sub(r",? we can conclude that ", ", so ", re.sub(end, "", sentence))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _advice(used: Sequence[Place], file: str) -> str:
    origins = dict.fromkeys(place.origin for place in used if not place.is_parents)
    advice = f"change {' or '.join(origins) or file}"
    parents = [place for place in used if place.is_parents]
    if parents:
        advice += f", or {another(parents[0].requirement.name)}"
    return advice


def another(package: str) -> str:
    """Say how to get another version of what a recipe is made for."""
    return (
        f"take a recipe (--extends) or a variant (--variant) with another {package}: "
        "`dlcontainer plan RECIPE --site SITE -v` lists the variants"
    )


def unknown(texts: Sequence[str], places: Sequence[Place], file: str) -> DlcontainerError:
    """Return the error for names that no index has, from a complaint about each."""
    names = [name for text in texts if (name := unknown_name(text))]
    wished = {place.name: place for place in places if not place.is_parents}
    wishes = [wished[name] for name in names if name in wished]
    if not wishes:
        return MisfitError(
            f"the package index has no {names[0]}, which another package needs",
            where=file,
            why="\n    ".join(annotate(because(texts[0]), places)[0]),
            next_step="name another version of the package that needs it",
        )
    near = [line for place in wishes if (line := _near(place, places, names))]
    first, *more = wishes
    listed = "".join(f", {place.name} ({place.origin})" for place in more)
    return ConfigError(
        f"the package index has no {first.name}{listed}",
        where=first.origin,
        why="\n    ".join(near) or None,
        next_step=f"correct the name{'s' if more else ''}, or check that routing.pip of the "
        "site names the right index",
    )


def _near(place: Place, places: Sequence[Place], unknown_names: Sequence[str]) -> str | None:
    names = sorted({place.name for place in places} - {*unknown_names})
    near = difflib.get_close_matches(place.name, names, n=1, cutoff=0.8)
    origin = next((wish.origin for wish in places if wish.name in near), "")
    return f"a name near {place.name} is {near[0]} ({origin})" if near else None
