"""A Dockerfile's instructions and a definition's sections: lines joined, comments gone, checked.

Sources: Docker's documentation, "Dockerfile reference"; Apptainer's, "Definition Files". All that
spython's parsers read otherwise than Docker and Apptainer do is refused here, with its line.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlcontainer.authoring.readers.requirement_lines import LinePiece, RequirementLine
from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.config.suggestions import cut
from dlcontainer.errors import ConfigError, Mark

_INSTRUCTIONS = """
    ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL
    STOPSIGNAL USER VOLUME WORKDIR
"""
INSTRUCTIONS = frozenset(_INSTRUCTIONS.split())
_SECTIONS = """
    appenv appfiles apphelp appinstall applabels apprun appstart apptest arguments environment
    files help labels post pre runscript setup startscript test
"""
SECTIONS = frozenset(_SECTIONS.split())
# Beyond what anybody writes by hand.
_LONGEST = 64 << 10
ONE_STAGE_NEXT = "write the stage that you run into a file of its own"
HEREDOC_NEXT = "write the lines into a file and COPY it, or write each command by itself"
_DIRECTIVE = re.compile(r"#\s*(?P<key>[A-Za-z]+)\s*=\s*(?P<value>\S+)\s*")
_CONTINUED = re.compile(r"(?<!\\)\\[ \t]*$")
_WORD = re.compile(r"\s*(?P<word>\S+)\s*")
_FLAG = re.compile(r"(--[a-z][a-z-]*)(?:=(\S*))?\s*")
_HEREDOC = re.compile(r"<<-?\s*[\"']?\w")
_HEADER = re.compile(r"\s*(?P<key>[A-Za-z]+)\s*:(?P<value>.*)")
_SECTION = re.compile(r"\s*%(?P<word>\w+)(?P<rest>(?:\s.*)?)")
# The rest of a section's head that says which shell runs it, not what it is.
_SHELLS = re.compile(r"-c\s+(?:/usr)?(?:/bin/)?(?:ba|da)?sh(?:\s+-[a-z]+)*|")


@dataclass(frozen=True, kw_only=True, slots=True)
class DockerInstruction:
    """One instruction of a Dockerfile: its word in capitals, its flags, and where its rest is."""

    word: str
    line: RequirementLine
    at: int
    flags: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """What stands behind the word and the flags."""
        return self.line.text[self.at :].strip()

    @property
    def mark(self) -> Mark:
        """Its place."""
        return self.line.mark(self.line.first)


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section of a definition: its word without the '%', its head's place, its lines."""

    word: str
    mark: Mark
    lines: list[RequirementLine] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class DefinitionText:
    """A definition of one stage: header keys in small letters with their places, sections."""

    header: dict[str, tuple[str, Mark]]
    sections: tuple[Section, ...]


def dockerfile(source: SourceText) -> list[DockerInstruction]:
    """Return the instructions of a Dockerfile of one stage.

    Raises ConfigError with the line of the first that spython's parser reads otherwise.
    """
    _require_directives(source)
    steps: list[DockerInstruction] = []
    has_from = False
    for line in _docker_lines(source):
        instruction = _instruction(line)
        _require_readable(instruction)
        if instruction.word == "FROM" and has_from:
            raise ConfigError(
                "a second stage (FROM) is not read",
                where=instruction.mark,
                next_step=ONE_STAGE_NEXT,
            )
        has_from = has_from or instruction.word == "FROM"
        if not has_from and instruction.word != "ARG":
            raise ConfigError(
                f"{instruction.word} stands before FROM",
                where=instruction.mark,
                next_step="begin with FROM; only ARG may stand before it",
            )
        steps.append(instruction)
    if not has_from:
        raise ConfigError(
            "no Dockerfile: it has no FROM",
            where=str(source.path),
            next_step="give a Dockerfile, or a definition file (*.def)",
        )
    return steps


def _require_directives(source: SourceText) -> None:
    """Refuse directives of the first lines that change how a Dockerfile is read."""
    offset = 0
    for written in source.text.split("\n"):
        directive = _DIRECTIVE.fullmatch(written)
        if directive is None:
            return
        key, value = directive["key"].lower(), directive["value"]
        is_usual = value == "\\" if key == "escape" else value.startswith("docker/dockerfile")
        if key in ("escape", "syntax") and not is_usual:
            raise ConfigError(
                f"# {key}={cut(value, 80)} is not read",
                where=source.mark(offset),
                next_step="remove the line, and write the file as Docker reads it without it",
            )
        offset += len(written) + 1


def _docker_lines(source: SourceText) -> Iterator[RequirementLine]:
    """Join continued lines; comments and empty lines between them are none of theirs."""
    text, pieces, offset = "", list[LinePiece](), 0
    for written in source.text.split("\n"):
        continued = _CONTINUED.search(written)
        if written.strip() and not written.lstrip().startswith("#"):
            pieces.append(LinePiece(start=len(text), offset=offset))
            text += written[: continued.start()] if continued else written
            if not continued:
                yield _line(source, text, pieces)
                text, pieces = "", []
        offset += len(written) + 1
    if text.strip():
        yield _line(source, text, pieces)


def _line(source: SourceText, text: str, pieces: Sequence[LinePiece]) -> RequirementLine:
    line = RequirementLine(source=source, text=text, pieces=tuple(pieces))
    if len(text) > _LONGEST:
        raise ConfigError(
            f"a line of more than {_LONGEST} characters",
            where=line.mark(),
            next_step="write it as several lines",
        )
    return line


def _instruction(line: RequirementLine) -> DockerInstruction:
    match = _WORD.match(line.text)
    word, at = (match["word"], match.end()) if match else ("", 0)
    if word.upper() not in INSTRUCTIONS:
        raise ConfigError(
            f"'{cut(word, 40)}' is no instruction of a Dockerfile",
            where=line.mark(line.first),
            next_step=f"write one of {', '.join(sorted(INSTRUCTIONS))}",
        )
    flags = []
    while flag := _FLAG.match(line.text, at):
        flags.append(flag[0].strip())
        at = flag.end()
    return DockerInstruction(word=word.upper(), line=line, at=at, flags=tuple(flags))


def _require_readable(instruction: DockerInstruction) -> None:
    """Refuse an instruction that spython's parser takes for another thing."""
    word, where = instruction.word, instruction.mark
    if word == "SHELL":
        raise ConfigError(
            "SHELL is not read: it changes what each RUN behind it means",
            where=where,
            next_step="remove it, and write RUN lines for /bin/sh",
        )
    for flag in instruction.flags:
        name = flag.partition("=")[0]
        if name in ("--mount", "--network", "--security", "--from", "--device"):
            raise ConfigError(
                f"{word} {name} is not read",
                where=where,
                next_step=ONE_STAGE_NEXT
                if name == "--from"
                else f"write the line without {name}; pip's own cache is dlcontainer's",
            )
    if word in ("RUN", "COPY", "ADD") and (heredoc := _HEREDOC.search(instruction.line.text)):
        raise _no_heredoc(instruction.line.mark(heredoc.start()))


def _no_heredoc(where: Mark) -> ConfigError:
    return ConfigError("a here-document (<<) is not read", where=where, next_step=HEREDOC_NEXT)


def definition(source: SourceText) -> DefinitionText:
    """Return header and sections of a definition of one stage.

    Raises ConfigError with the line of the first thing that spython's parser reads otherwise.
    """
    header: dict[str, tuple[str, Mark]] = {}
    sections: list[Section] = []
    for line in _definition_lines(source):
        text, where = line.text, line.mark(line.first)
        head = _SECTION.fullmatch(text)
        key = _HEADER.fullmatch(text)
        name = key["key"].lower() if key else ""
        if head is not None:
            sections.append(Section(word=_section_word(head, where), mark=where))
        elif key is not None and (not sections or name == "bootstrap"):
            if name in header:
                raise ConfigError(
                    f"a second stage ({key['key']}) is not read",
                    where=where,
                    next_step=ONE_STAGE_NEXT,
                )
            header[name] = (key["value"].partition("#")[0].strip(), where)
        elif sections:
            _require_line(sections[-1], line)
            sections[-1].lines.append(line)
        else:
            raise ConfigError(
                f"'{cut(text.strip(), 80)}' is no line of a definition's header",
                where=where,
                next_step="begin with `Bootstrap: docker` and `From: IMAGE`",
            )
    return DefinitionText(header=header, sections=tuple(sections))


def _section_word(head: re.Match[str], where: Mark) -> str:
    word, rest = head["word"].lower(), head["rest"].partition("#")[0].strip()
    if word not in SECTIONS:
        raise ConfigError(
            f"%{cut(word, 40)} is no section of a definition",
            where=where,
            next_step=f"write one of {', '.join(f'%{name}' for name in sorted(SECTIONS))}",
        )
    if word == "files" and rest:
        raise ConfigError(
            "%files from another stage is not read", where=where, next_step=ONE_STAGE_NEXT
        )
    if word == "post" and not _SHELLS.fullmatch(rest):
        raise ConfigError(
            f"%post {cut(rest, 60)} is not read: another program than a shell runs it",
            where=where,
            next_step="write %post for /bin/sh",
        )
    return word


def _require_line(section: Section, line: RequirementLine) -> None:
    if section.word == "post" and (heredoc := _HEREDOC.search(line.text)):
        raise _no_heredoc(line.mark(heredoc.start()))


def _definition_lines(source: SourceText) -> Iterator[RequirementLine]:
    """Join continued lines as a shell does; lines of a comment alone are left out."""
    text, pieces, offset = "", list[LinePiece](), 0
    for written in source.text.split("\n"):
        is_comment = not pieces and written.lstrip().startswith("#")
        continues = written.endswith("\\") and not written.endswith("\\\\") and not is_comment
        if not is_comment:
            pieces.append(LinePiece(start=len(text), offset=offset))
            text += written[:-1] if continues else written
        if not continues:
            if text.strip():
                yield _line(source, text, pieces)
            text, pieces = "", []
        offset += len(written) + 1
    if text.strip():
        yield _line(source, text, pieces)


def substituted(text: str, values: dict[str, str]) -> str | None:
    """Fill in `$NAME` and `${NAME}` of a FROM; None where a name has no value, or for others."""
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        name = match[1] or match[2]
        missing = missing or name not in values
        return values.get(name, "")

    filled = re.sub(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", value, text)
    return None if missing or "$" in filled else filled
