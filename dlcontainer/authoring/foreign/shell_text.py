"""The commands of a shell text: which run in any case, word for word, and which stay as written.

Source: POSIX, "Shell Command Language". Nothing is evaluated: where a command's words or whether it
runs depend on anything (a variable, a condition, another command), it is a text and has no words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlcontainer.authoring.readers.requirement_lines import RequirementLine
from dlcontainer.errors import ConfigError, Mark

_OPENERS = {
    "if": "fi",
    "for": "done",
    "while": "done",
    "until": "done",
    "select": "done",
    "case": "esac",
    "{": "}",
}
# Behind these words a command stands.
_LEADING = frozenset({"then", "do", "else", "elif", "!", "time", "if", "while", "until", "{"})
# Whether what follows them by && runs is their answer.
_PREDICATES = frozenset({"[", "[[", "test", "!", "command", "which", "type", "hash", "grep"})
_ENDS = frozenset({"exit", "exec", "return"})
_SILENT = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_BLANKS = " \t"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellWord:
    """One word without its quotes, and where it begins in its line."""

    text: str
    at: int
    is_quoted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellCommand:
    """A command, or several that can't be told apart; `why` it has no words, None where it has.

    It `follows` the one before it where && stands between them.
    """

    line: RequirementLine
    at: int
    text: str
    words: tuple[ShellWord, ...]
    why: str | None
    follows: bool = False

    @property
    def mark(self) -> Mark:
        """Its place."""
        return self.line.mark(self.at)


@dataclass(kw_only=True, slots=True)
class _Segment:
    """What stands between two operators; `joint` is the one before it."""

    row: int
    start: int
    joint: str
    end: int = 0
    words: list[ShellWord] = field(default_factory=list)
    why: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether an operator stands before nothing."""
        return not self.words and self.why is None and self.joint in ("&&", "||", "|")


def commands(lines: Sequence[RequirementLine], starts: Sequence[int]) -> Iterator[ShellCommand]:
    """Yield the commands of a text, each line from its start on.

    Raises ConfigError with the place of a quote or bracket without its other half.
    """
    segments: list[_Segment] = []
    for row, (line, start) in enumerate(zip(lines, starts, strict=True)):
        scanned = list(_Scanner(line=line, row=row, at=start).segments())
        if segments and scanned and segments[-1].is_open:
            # A line that ends in an operator goes on in the next one.
            scanned[0].joint = segments.pop().joint
        segments += scanned
    reason: str | None = None
    for parts in _apart(segments):
        first = parts[0]
        if first.joint not in ("&&",) and reason != _BEHIND_EXIT:
            reason = None
        yield _command(lines, parts, reason)
        word = first.words[0].text if first.words else ""
        if word in _ENDS and first.joint != "&&":
            reason = _BEHIND_EXIT
        elif word in _PREDICATES and reason is None:
            reason = "it runs on a condition"


_BEHIND_EXIT = "it stands behind the end of the script"


def _command(
    lines: Sequence[RequirementLine], parts: Sequence[_Segment], reason: str | None
) -> ShellCommand:
    first, last = parts[0], parts[-1]
    if first.row == last.row:
        text = lines[first.row].text[first.start : last.end]
    else:
        between = [line.text for line in lines[first.row + 1 : last.row]]
        texts = [lines[first.row].text[first.start :], *between, lines[last.row].text[: last.end]]
        text = "\n".join(texts)
    start = first.start + len(text) - len(text.lstrip())
    why = reason or (first.why if len(parts) == 1 else _why(parts))
    return ShellCommand(
        line=lines[first.row],
        at=min(start, max(len(lines[first.row].text) - 1, 0)),
        text=text.strip(),
        words=() if why else tuple(first.words),
        why=why,
        follows=first.joint == "&&",
    )


def _why(parts: Sequence[_Segment]) -> str:
    joints = {part.joint for part in parts[1:]}
    if "||" in joints:
        return "whether it runs depends on another command (||)"
    return "a pipe" if joints == {"|"} else "commands that depend on each other"


def _apart(segments: Sequence[_Segment]) -> Iterator[list[_Segment]]:
    """Part segments at `&&`, `;` and lines' ends, outside of blocks."""
    parts: list[_Segment] = []
    closers: list[str] = []
    for segment in segments:
        is_bracket = segment.joint in ("(", ")")
        if parts and not closers and not is_bracket and segment.joint in ("", "&&", ";"):
            yield parts
            parts = []
        parts.append(segment)
        _follow(segment, closers)
    if parts:
        yield parts


def _follow(segment: _Segment, closers: list[str]) -> None:
    """Note which blocks a segment opens and closes."""
    top = closers[-1] if closers else None
    if segment.joint == "(" and top != "esac":
        closers.append(")")
    elif segment.joint == ")" and top == ")":
        closers.pop()
    for word in segment.words:
        if word.is_quoted:
            return
        if closers and word.text == closers[-1]:
            closers.pop()
        elif word.text in _OPENERS:
            closers.append(_OPENERS[word.text])
        if word.text not in _LEADING:
            return


@dataclass(kw_only=True, slots=True)
class _Scanner:
    """Reads one line from `at` on."""

    line: RequirementLine
    row: int
    at: int
    _word: list[str] | None = None
    _word_at: int = 0
    _quoted: bool = False
    _is_target: bool = False

    def segments(self) -> Iterator[_Segment]:
        """Yield the line's segments; those of brackets have the bracket as their joint."""
        text = self.line.text
        segment = _Segment(row=self.row, start=self.at, joint="")
        while self.at < len(text):
            operator = self._operator()
            if operator is None:
                if text[self.at] == "#" and self._word is None:
                    break
                self._character(segment)
                continue
            self._end_word(segment)
            segment.end = self.at
            if segment.words or segment.why or segment.joint not in ("", ";"):
                yield segment
            self.at += len(operator)
            joint = ";" if operator == ";;" else operator
            segment = _Segment(row=self.row, start=self.at, joint=joint)
            if operator in "()":
                segment.start -= 1
        self._end_word(segment)
        segment.end = self.at
        if segment.words or segment.why or segment.joint not in ("", ";"):
            yield segment

    def _operator(self) -> str | None:
        two = self.line.text[self.at : self.at + 2]
        if two in ("&&", "||", ";;", "|&"):
            return "|" if two == "|&" else two
        if two == "&>" or (two[:1] == "&" and self._is_target):
            return None
        return two[0] if two[0] in ";|&()" else None

    def _character(self, segment: _Segment) -> None:
        text, at = self.line.text, self.at
        character = text[at]
        if character in _BLANKS:
            self._end_word(segment)
            self.at += 1
        elif character in "<>" or text.startswith("&>", at):
            self._redirection(segment)
        elif character == "'":
            end = self._find("'", at + 1)
            self._add(text[at + 1 : end], at, quoted=True)
            self.at = end + 1
        elif character == '"':
            self._double(segment)
        elif character == "\\":
            self._add(text[at + 1 : at + 2], at, quoted=True)
            self.at += 2
        elif character in "$`":
            segment.why = segment.why or "a shell fills in a part of it ($)"
            self.at = self._past(at)
            self._add(text[at : self.at], at)
        else:
            self._add(character, at)
            self.at += 1

    def _double(self, segment: _Segment) -> None:
        text, at = self.line.text, self.at + 1
        self._add("", self.at, quoted=True)
        while text[at : at + 1] != '"':
            if at >= len(text):
                raise self._open(self.at)
            character = text[at]
            if character == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\"):
                self._add(text[at + 1], at)
                at += 2
            elif character in "$`" and not text.startswith('$"', at):
                segment.why = segment.why or "a shell fills in a part of it ($)"
                end = self._past(at)
                self._add(text[at:end], at)
                at = end
            else:
                self._add(character, at)
                at += 1
        self.at = at + 1

    def _redirection(self, segment: _Segment) -> None:
        """Leave out where a command's words go, if that is nowhere."""
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None
        self._end_word(segment)
        text = self.line.text
        while text[self.at : self.at + 1] in ("<", ">", "&"):
            self.at += 1
        self._is_target = True
        while text[self.at : self.at + 1] in _BLANKS and self.at < len(text):
            self.at += 1
        if self.at >= len(text):
            segment.why = segment.why or "a redirection (> or <)"

    def _past(self, at: int) -> int:
        """Return where what begins at a `$` or a backtick ends."""
        text = self.line.text
        if text[at] == "`":
            return self._find("`", at + 1) + 1
        if text.startswith("${", at):
            return self._find("}", at) + 1
        if not text.startswith("$(", at):
            return at + 1
        depth, position = 0, at + 1
        while position < len(text):
            character = text[position]
            if character == "\\":
                position += 1
            elif character == "'":
                position = self._find("'", position + 1)
            elif character in "()":
                depth += 1 if character == "(" else -1
            position += 1
            if depth == 0:
                return position
        raise self._open(at)

    def _find(self, character: str, start: int) -> int:
        end = self.line.text.find(character, start)
        if end < 0:
            raise self._open(max(start - 1, 0))
        return end

    def _open(self, at: int) -> ConfigError:
        return ConfigError(
            f"{self.line.text[at]} has no other half on this line",
            where=self.line.mark(at),
            next_step="write the command on one line, or continue it with a backslash",
        )

    def _add(self, text: str, at: int, *, quoted: bool = False) -> None:
        if self._word is None:
            self._word, self._word_at, self._quoted = [], at, False
        self._word.append(text)
        self._quoted = self._quoted or quoted

    def _end_word(self, segment: _Segment) -> None:
        if self._word is None:
            return
        word = "".join(self._word)
        if not self._is_target:
            segment.words.append(ShellWord(text=word, at=self._word_at, is_quoted=self._quoted))
        elif word not in _SILENT and not word.isdigit():
            segment.why = segment.why or "a redirection (> or <)"
        self._word, self._is_target = None, False
