"""environment.yml of conda: its Python, the packages that the index has as well, its `pip:` part.

Source: conda's documentation, "Creating an environment file manually" and "Package match
specifications". A name is taken by a table alone (`conda_names.py`).
"""

import re
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers import conda_names
from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.requirement_lines import LinePiece, RequirementLine
from dlcontainer.authoring.readers.requirements_txt import RequirementsReader
from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.config.document import Document, KeyPath
from dlcontainer.config.suggestions import cut
from dlcontainer.config.yaml_text import yaml_files
from dlcontainer.errors import Mark
from dlcontainer.packages.resolve.wishes import Wish

# [CHANNEL::]NAME[ VERSION[ BUILD]], where a '=' may stand for a blank.
_SPEC = re.compile(
    r"(?:[A-Za-z0-9_./-]+::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)"
    r"(?:\s*(?P<bounds>[<>=!~].*)|\s+(?P<version>[0-9].*))?"
)
_ONE_EQUALS = re.compile(r"={1,2}\s*(?P<version>[0-9A-Za-z.!+_*]+)(?:[=\s]+(?P<build>\S+))?")
_BOUND = re.compile(
    r"(?P<operator>[<>]=?|[!=]=|~=|=)\s*(?P<version>\w[\w!+]*(?:\.[\w!+]+)*)(?P<any>\.?\*)?"
)
_MINOR = re.compile(r"[0-9]+\.[0-9]+")
_PYTHON_NEXT = "write python=3.12, or python>=3.11"
_SPEC_NEXT = "write NAME, NAME=VERSION or NAME>=VERSION,<VERSION"
_UNTAKEN = (
    "put it under `pip:` where the index has it; what is no Python package is a step's; "
    "of a full export give `conda env export --from-history`"
)


class CondaWords(NamedTuple):
    """A line of `dependencies`: a name and its bounds as PEP 440 has them."""

    name: str
    bounds: str


class CondaLine(NamedTuple):
    """A line of `dependencies`, and its place."""

    words: CondaWords
    place: Mark | str

    @property
    def origin(self) -> str:
        """The place as `file:line`."""
        place = self.place
        return f"{place.file}:{place.line}" if isinstance(place, Mark) else place


class EnvironmentReader:
    """Reads one environment into a draft."""

    def __init__(self, source: SourceText, document: Document, draft: WishDraft) -> None:
        self.source = source
        self.document = document
        self.draft = draft
        self.pip = RequirementsReader(draft=draft)
        self.variants: list[str] = []
        self.pythons: list[str] = []
        self.unknown: list[CondaLine] = []

    def read(self) -> None:
        """Take all of the environment; note what is refused and what is left out."""
        dependencies = self.document.data.get("dependencies")
        if not isinstance(dependencies, list):
            self.draft.faults.add(
                self._place(("dependencies",)),
                "no conda environment: it has no list `dependencies`",
                "give requirements.txt, pyproject.toml, pylock.toml, uv.lock or environment.yml",
            )
            return
        for index, entry in enumerate(dependencies):
            self._entry(entry, ("dependencies", index))
        self._refuse_unknown()
        if self.document.data.get("variables"):
            self.draft.notes.append(
                f"{self._place(('variables',))}: the environment's variables are not taken"
            )
        self._note(
            "libraries of devices and linear algebra: the variant brings its own", self.variants
        )
        self._note("parts of conda's Python: the base brings its own", self.pythons)
        self.pip.require_all_hashes()

    def _entry(self, entry: object, path: KeyPath) -> None:
        place = self._place(path)
        if isinstance(entry, dict) and list(entry) == ["pip"]:
            self._pip_lines(entry["pip"], (*path, "pip"))
        elif isinstance(entry, str):
            words = _spec(entry)
            if words is None:
                what = f"not a line of conda: '{cut(entry, 80)}'"
                self.draft.faults.add(place, what, _SPEC_NEXT)
            else:
                self._conda(CondaLine(words=words, place=place))
        else:
            what = "expected a package's name, or `pip:` with a list"
            self.draft.faults.add(place, what, _SPEC_NEXT)

    def _pip_lines(self, entries: object, path: KeyPath) -> None:
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            what = "expected a list of requirements"
            self.draft.faults.add(self._place(path), what, "write `- NAME==VERSION` lines")
            return
        for index, text in enumerate(entries):
            line = self._pip_line(text, self._place((*path, index)))
            if line is not None:
                self.pip.line(line)

    def _pip_line(self, text: str, place: Mark | str) -> RequirementLine | None:
        """Return a line of the `pip:` part, with its place in the YAML."""
        if "\n" in text or not text.strip():
            self.draft.faults.add(place, "a requirement is one line", "split it")
            return None
        offset = 0
        if isinstance(place, Mark):
            offset = self.source.starts[place.line - 1] + place.column - 1
        return RequirementLine(
            source=self.source, text=text.strip(), pieces=(LinePiece(start=0, offset=offset),)
        )

    def _conda(self, line: CondaLine) -> None:
        name = line.words.name
        if name == "python":
            self._python(line)
        elif name in conda_names.VARIANT_BRINGS or name.startswith(conda_names.VARIANT_PREFIXES):
            self.variants.append(name)
        elif name in conda_names.PYTHON_BRINGS:
            self.pythons.append(name)
        elif name in conda_names.INDEX_NAMES:
            self._wish(line)
        else:
            self.unknown.append(line)

    def _wish(self, line: CondaLine) -> None:
        name, bounds = line.words
        if name in conda_names.MORE_NUMBERS:
            bounds = re.sub(r"^==([0-9.]+)$", r"==\1.*", bounds)
        index_name = conda_names.INDEX_NAMES[name]
        try:
            requirement = Requirement(index_name + bounds)
        except InvalidRequirement:
            what = f"the version of {name} has no form that the index knows: '{cut(bounds, 60)}'"
            self.draft.faults.add(line.place, what, _SPEC_NEXT)
            return
        if canonicalize_name(index_name) != canonicalize_name(name):
            note = f"{line.origin}: conda's '{name}' is '{index_name}' on the index"
            self.draft.notes.append(note)
        self.draft.wishes.append(Wish(requirement=requirement, origin=line.origin))

    def _python(self, line: CondaLine) -> None:
        """Keep the bound on Python; the base decides its last number."""
        bounds = line.words.bounds
        exact = re.fullmatch(r"==([0-9.]+?)(?:\.\*)?", bounds)
        if exact and _MINOR.match(exact[1]):
            minor = _MINOR.match(exact[1])
            bounds = f"=={minor[0] if minor else ''}.*"
            if exact[1].count(".") > 1:
                note = f"{line.origin}: python {exact[1]} is taken as {bounds[2:-2]}"
                self.draft.notes.append(f"{note}: the base decides the last number")
        try:
            Requirement(f"python{bounds}")
        except InvalidRequirement:
            what = f"not a version of Python: '{cut(bounds, 60)}'"
            self.draft.faults.add(line.place, what, _PYTHON_NEXT)
            return
        before = self.draft.python
        self.draft.python = ",".join(filter(None, [before, bounds])) or None
        self.draft.python_at = line.origin

    def _refuse_unknown(self) -> None:
        if not self.unknown:
            return
        names = ", ".join(
            f"{line.words.name} ({line.origin.rpartition(':')[2]})" for line in self.unknown
        )
        what = f"not known as Python packages of the index (with their lines): {names}"
        self.draft.faults.add(self.unknown[0].place, what, _UNTAKEN)

    def _note(self, why: str, names: list[str]) -> None:
        if names:
            self.draft.notes.append(f"left out: {', '.join(dict.fromkeys(names))} ({why})")

    def _place(self, path: KeyPath) -> Mark | str:
        return self.document.origin(path).where


def read(source: SourceText, draft: WishDraft) -> None:
    """Read an environment into a draft; raises ConfigError for what is no YAML."""
    document = yaml_files.parse(source.text, layer="environment", display=source.display)
    EnvironmentReader(source, document, draft).read()


def _spec(text: str) -> CondaWords | None:
    """Return the words of conda's line; None for what has no like on the index."""
    spec = _SPEC.fullmatch(text.strip())
    if spec is None:
        return None
    bounds = spec["bounds"] or (f"=={spec['version']}" if spec["version"] else "")
    converted = _bounds(bounds.strip())
    return None if converted is None else CondaWords(spec["name"].lower(), converted)


def _bounds(text: str) -> str | None:
    """Return conda's bounds as PEP 440 has them: 1.26 is 1.26.*, a build is left out."""
    if not text or text in ("=*", "==*"):
        return ""
    single = _ONE_EQUALS.fullmatch(text)
    if single:
        version, is_any = single["version"].removesuffix("*"), single["version"].endswith("*")
        is_exact = text.startswith("==") or single["build"] is not None
        return f"=={version.rstrip('.')}" + (".*" if is_any or not is_exact else "")
    bounds = []
    for part in text.split(","):
        bound = _BOUND.fullmatch(part.strip())
        if bound is None:
            return None
        is_any = bound["any"] is not None or bound["operator"] == "="
        operator = bound["operator"] if bound["operator"] != "=" else "=="
        ends = ".*" if is_any and operator in ("==", "!=") else ""
        bounds.append(f"{operator}{bound['version']}{ends}")
    return ",".join(bounds)
