"""Lines of a foreign file into an image's words: taken, nothing to do, or listed with a reason."""

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from packaging.requirements import Requirement

from dlcontainer.authoring.foreign import package_lines, shell_text, spython_reading
from dlcontainer.authoring.foreign.copied_files import CopiedFiles
from dlcontainer.authoring.foreign.image_words import (
    ImageFormat,
    ImageWords,
    StatedBase,
    UntakenLine,
)
from dlcontainer.authoring.foreign.instructions import DockerInstruction, Section
from dlcontainer.authoring.foreign.package_lines import Meaning, PipWord
from dlcontainer.authoring.foreign.shell_text import ShellCommand
from dlcontainer.authoring.readers.draft import WishDraft
from dlcontainer.authoring.readers.faults import INDEX_NEXT
from dlcontainer.authoring.readers.requirement_lines import LinePiece, RequirementLine
from dlcontainer.authoring.readers.requirement_words import name_of
from dlcontainer.authoring.readers.requirements_txt import RequirementsReader
from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.config.suggestions import cut
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.packages import credentials
from dlcontainer.packages.resolve.wishes import Wish
from dlcontainer.planning import image_variables

_SHOWN, _READ = 100, 4000
# A value that needs no quoting, and that no template and no shell reads otherwise.
_VALUE = re.compile(r"[A-Za-z0-9_./:,+@%=~ -]+")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,254})=(.*)", re.DOTALL)
# Variables by which pip and uv would take other packages.
_INDEX = re.compile(r"(?:PIP|UV)_(?:.*INDEX.*|FIND_LINKS|CONSTRAINT.*|REQUIREMENT.*|TRUSTED_HOST)")
# Variables of a person, a site or an engine, and paths by which programs find others.
_NOT_AN_IMAGE_S = re.compile(
    r"LD_.*|PYTHON(?:PATH|HOME|USERBASE|STARTUP)|CUDA_(?:HOME|VISIBLE_DEVICES)|CONDA_.*|VIRTUAL_ENV"
    r"|HOME|USER|LOGNAME|SHELL|TMPDIR|TMP|TEMP|XDG_.*|.*_proxy|.*_PROXY|NVIDIA_.*|SLURM_.*"
    r"|APPTAINER.*|SINGULARITY.*"
)
_BUILD_ALONE = re.compile(r"DEBIAN_FRONTEND|PIP_.*|UV_.*|DEBCONF_.*")
# What may lead to another folder; behind it, only absolute paths are known.
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
_NOWHERE = "/…"
_TEMPLATE = ("{{", "{%", "{#")
_WHY = {
    "ADD": "files: bind them, or write a step with `files`",
    "ARG": "a variable of the build",
    "CMD": "images run what a job names",
    "COPY": "files: bind them, or write a step with `files`",
    "ENTRYPOINT": "images run what a job names",
    "EXPOSE": "images open no port",
    "HEALTHCHECK": "`validate` checks an image",
    "LABEL": "the recipe has its own facts",
    "MAINTAINER": "the recipe has its own facts",
    "ONBUILD": "nothing is built on the image",
    "STOPSIGNAL": "images run what a job names",
    "USER": "images run as the user of a job",
    "VOLUME": "sites say what is bound",
    "WORKDIR": "jobs start in their own folder",
    "arguments": "a template's values",
    "environment": "more than NAME=VALUE",
    "files": "files: bind them, or write a step with `files`",
    "help": "the recipe has its own facts",
    "labels": "the recipe has its own facts",
    "pre": "it runs on the host",
    "runscript": "images run what a job names",
    "setup": "it runs on the host",
    "startscript": "images run what a job names",
    "test": "`validate` checks an image: write it into verify.py",
}


@dataclass(kw_only=True, slots=True)
class ForeignReader:
    """Reads instructions or sections in their order."""

    source: SourceText
    format: ImageFormat
    keeps_shell: bool
    current: str = "/"
    os_packages: dict[str, None] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    untaken: list[UntakenLine] = field(default_factory=list)
    shell: list[str] = field(default_factory=list)
    draft: WishDraft = field(init=False)
    pip: RequirementsReader = field(init=False)
    copied: CopiedFiles = field(init=False)
    takes_recommends: bool = False

    def __post_init__(self) -> None:
        folder = self.source.path.parent
        self.draft = WishDraft(path=self.source.path, format=self.format)
        self.pip = RequirementsReader(draft=self.draft, root=folder)
        self.copied = CopiedFiles(folder=folder)

    def instruction(self, instruction: DockerInstruction) -> None:
        """Take one instruction of a Dockerfile."""
        word = instruction.word
        if word == "RUN":
            self._run(instruction)
        elif word == "ENV":
            self._env(instruction)
        elif word != "FROM":
            shown = instruction.body
            if word == "ARG":  # a value may be a secret
                shown = shown.partition("=")[0]
            self._list(instruction.mark, f"{word} {shown}", _WHY[word])
            if word == "WORKDIR":
                self.current = posixpath.join(self.current, instruction.body.strip("\"'"))
            elif word in ("COPY", "ADD"):
                self._copy(instruction)

    def section(self, section: Section) -> None:
        """Take one section of a definition."""
        if section.word == "post":
            self._post(section)
        elif section.word == "environment":
            for line in section.lines:
                text, where = line.text.strip(), line.mark(line.first)
                variables = spython_reading.section_of("environment", [text], [where])
                name, equals, _ = text.removeprefix("export").strip().partition("=")
                if equals and len(variables) == 1 and len(shlex_words(text)) <= 2:
                    self._variable(where, variables[0])
                elif not (equals == "" and name in self.environment):  # `export NAME` after it
                    self._list_variable(where, text.partition("=")[0], _WHY["environment"])
        elif section.word == "files":
            self._files(section)
        elif section.lines:
            why = _WHY.get(section.word, "an app of its own: write a recipe for it")
            first, last = (
                line.mark(line.first).line for line in (section.lines[0], section.lines[-1])
            )
            lines = f" (lines {first} to {last})" if last > first else f" (line {first})"
            self._list(section.mark, f"%{section.word}{lines}", why)

    def finished(self, base: StatedBase, *, implies: bool) -> ImageWords:
        """Return all words; raises ConfigError for what was refused, and for a file of nothing."""
        self.pip.require_all_hashes()
        if base.wish is not None and implies:
            wish = Wish(requirement=Requirement(base.wish), origin=base.origin)
            self.draft.wishes.insert(0, wish)
        self.draft.python = base.python if implies else None
        if self.takes_recommends:
            self.draft.notes.append(
                "apt's recommended packages are not installed: name those wanted"
            )
        if not (self.draft.wishes or self.draft.faults.faults or self.os_packages or self.shell):
            raise self._nothing()
        wishes = self.draft.finished(None)
        # A list of packages that was read is taken, and so is the line that copies it.
        read = self.copied.used_up
        untaken = [
            line for line in self.untaken if line.line not in read or line.why != _WHY["COPY"]
        ]
        return ImageWords(
            format=self.format,
            wishes=wishes,
            base=base,
            os_packages=tuple(self.os_packages),
            environment=self.environment,
            shell="\n".join(self.shell) + "\n" if self.shell else "",
            untaken=tuple(sorted(untaken, key=lambda untaken: untaken.line)),
        )

    def _nothing(self) -> ConfigError:
        meant = [
            line for line in self.untaken if re.search(r"\b(?:pip3?|apt(?:-get)?)\b", line.text)
        ]
        return ConfigError(
            "no pip line and no apt line of the file is taken",
            where=self.source.display,
            why="; ".join(map(str, meant[:3])) or None,
            next_step="write plain lines: pip install NAME, apt-get install NAME",
        )

    def _list(self, where: Mark, text: str, why: str, *, kept: bool = False) -> None:
        shown = cut(credentials.shown(" ".join(text[:_READ].split())), _SHOWN)
        self.untaken.append(UntakenLine(line=where.line, text=shown, why=why, kept=kept))

    def _run(self, instruction: DockerInstruction) -> None:
        line, at, body = instruction.line, instruction.at, instruction.body
        if body.startswith("["):
            self._list(instruction.mark, f"RUN {body}", "a list of words (exec form)")
            return
        spython_reading.run_of(body, instruction.mark)
        before = self.current
        kept = self._commands(list(shell_text.commands([line], [at])))
        self.current = before
        if kept:
            # Each RUN is a shell of its own, and starts in the folder of WORKDIR.
            folder = shlex.quote(before)
            enter = [] if before == "/" else [f"mkdir -p {folder}", f"cd {folder}"]
            self.shell += ["(", *enter, *kept, ")"]

    def _post(self, section: Section) -> None:
        texts = [line.text.strip() for line in section.lines]
        marks = [line.mark(line.first) for line in section.lines]
        spython_reading.section_of("post", texts, marks)
        starts = [line.first for line in section.lines]
        self.shell += self._commands(list(shell_text.commands(section.lines, starts)))

    def _commands(self, commands: Sequence[ShellCommand]) -> list[str]:
        """Take commands; return the texts of those that are kept."""
        kept: list[str] = []
        was_kept = False
        for command in commands:
            meaning = Meaning(kind="other", why=command.why or "")
            if command.why is None:
                meaning = package_lines.meaning(command.words)
            if meaning.kind == "folder":
                self.current = posixpath.join(self.current, meaning.folder)
            elif _MOVES.search(command.text):
                self.current = _NOWHERE
            elif meaning.kind == "apt":
                self.os_packages |= dict.fromkeys(meaning.os_packages)
                self.takes_recommends |= meaning.recommends
            elif meaning.kind == "pip":
                meaning = self._pip(command, meaning)
            texts = self._other(command, meaning.why) if meaning.why else []
            if texts and was_kept and command.follows:
                kept[-1] += " &&"
            was_kept = bool(texts)
            kept += texts
        return kept

    def _other(self, command: ShellCommand, why: str) -> list[str]:
        """List a command that is not taken; return its text where it is kept."""
        if self.keeps_shell and not any(mark in command.text for mark in _TEMPLATE):
            self._list(command.mark, command.text, why, kept=True)
            return [command.text]
        if self.keeps_shell:
            why = "marks of a template ({{, {% or {#)"
        self._list(command.mark, command.text, why)
        return []

    def _pip(self, command: ShellCommand, meaning: Meaning) -> Meaning:
        """Take what a `pip install` names; return another meaning where a file of it is unknown."""
        files = {}
        for word in meaning.pip:
            is_address = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", word.text)
            if word.option in _INCLUDES and not is_address:
                is_lost = self.current.startswith(_NOWHERE) and not word.text.startswith("/")
                path = None if is_lost else self.copied.find(word.text, self.current)
                if path is None:
                    return Meaning(
                        kind="other", why=f"no line before it copies {cut(word.text, 60)}"
                    )
                files[word] = path
        for word in meaning.pip:
            line = self._requirement_line(command, word)
            if word in files:
                is_bounds = word.option in ("-c", "--constraint")
                self.pip.included(line, str(word.option), files[word], bounds=is_bounds)
            elif line.text.strip():
                before = len(self.draft.wishes)
                self.pip.line(line)
                self._without_pip(before, line)
        for project in meaning.projects:
            self._list(command.mark, f"pip install {project}", package_lines.OWN)
        return meaning

    def _without_pip(self, before: int, line: RequirementLine) -> None:
        """Leave pip itself out: the image's Python brings it."""
        added = self.draft.wishes[before:]
        if added and name_of(added[0].requirement) == "pip":
            self.draft.wishes.pop()
            self._list(line.mark(), str(added[0].requirement), "the image's Python brings pip")

    def _requirement_line(self, command: ShellCommand, word: PipWord) -> RequirementLine:
        mark = command.line.mark(word.at)
        offset = self.source.starts[mark.line - 1] + mark.column - 1
        text = word.text
        if word.option is not None:
            text = f"{word.option} {shlex.quote(text)}" if text else word.option
        return RequirementLine(
            source=self.source, text=text, pieces=(LinePiece(start=0, offset=offset),)
        )

    def _env(self, instruction: DockerInstruction) -> None:
        where = instruction.mark
        words = shlex_words(instruction.body)
        if words and "=" not in words[0]:
            # The old form: one name, and the rest of the line as its value.
            name, _, value = instruction.body.partition(" ")
            self._variable(where, f"{name}={value.strip()}")
            return
        read = spython_reading.variables_of(instruction.body, where)
        if len(read) != len(words):
            self._list(where, "ENV " + " ".join(w.partition("=")[0] for w in words), _NO_PLAIN)
            return
        for variable in read:
            self._variable(where, variable)

    def _list_variable(self, where: Mark, name: str, why: str) -> None:
        """List a variable by its name: its value may be a secret."""
        head = "ENV" if self.format == "Dockerfile" else "%environment"
        self._list(where, f"{head} {name}", why)

    def _variable(self, where: Mark, text: str) -> None:
        """Take a variable whose value means the same everywhere."""
        match = _VARIABLE.fullmatch(text.strip())
        name, value = (match[1], match[2].strip()) if match else (text.partition("=")[0], "")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if _INDEX.fullmatch(name):
            self.draft.faults.add(where, f"{name} is not taken", INDEX_NEXT)
        elif _BUILD_ALONE.fullmatch(name):
            pass  # says how apt and pip talk while an image is built
        elif credentials.SECRET_VARIABLE.search(name):
            self._list_variable(where, name, "by its name a secret: no image should have it")
        elif match is None or not image_variables.is_free(name) or _NOT_AN_IMAGE_S.fullmatch(name):
            self._list_variable(where, name, "dlcontainer, a site or a shell sets it")
        elif not _VALUE.fullmatch(value):
            self._list_variable(where, name, _NO_PLAIN)
        else:
            self.environment[name] = value

    def _copy(self, instruction: DockerInstruction) -> None:
        if instruction.body.startswith("["):
            return
        for source, target in spython_reading.copies_of(instruction.body, instruction.mark):
            line = instruction.mark.line
            self.copied.add(source, target, self.current, line)

    def _files(self, section: Section) -> None:
        texts = [line.text.strip() for line in section.lines]
        marks = [line.mark(line.first) for line in section.lines]
        for text, where in zip(
            spython_reading.section_of("files", texts, marks), marks, strict=True
        ):
            words = shlex_words(text)
            if 1 <= len(words) <= 2:
                self.copied.add(words[0], words[-1], "/", where.line)
            self._list(where, f"%files {text}", _WHY["files"])


_INCLUDES = ("-r", "--requirement", "-c", "--constraint")
_NO_PLAIN = "a value that is no plain text"


def shlex_words(text: str) -> list[str]:
    """Part a text at blanks outside of quotes; at all blanks where a quote is open."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
