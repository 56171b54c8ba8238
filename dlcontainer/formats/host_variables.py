"""Text whose $NAME and ${NAME} the host fills in: for its shell, and for the files it reads."""

import json
import re
import shlex
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dlcontainer.config.templating import Literal, Text
from dlcontainer.sites.facts import LAUNCH_WORDS, MAY_BE_UNSET, VARIABLE

_COUNT = re.compile(r"\{(" + "|".join(LAUNCH_WORDS) + r")\}")
_ALWAYS_SET = "PWD"


class _Piece(NamedTuple):
    literal: str
    variable: str | None


def shell(value: str) -> Text:
    """Return a text as one word of a shell: variables filled in, everything else literal."""
    return _joined(value, shlex.quote)


def launch_word(value: str) -> Text:
    """Return a launcher's word: as `shell`, and {nodes}, {ranks}, {ranks_per_node} filled in."""

    def literal(text: str) -> str:
        parts = _COUNT.split(text)
        counts = (f'"$dlc_{part}"' if at % 2 else _quoted(part) for at, part in enumerate(parts))
        return "".join(counts)

    return _joined(value, literal)


def toml(*values: str) -> Text:
    """Return texts, joined by ':', as a string of an EDF, which fills in ${NAME} itself.

    Source: docs.cscs.ch/software/container-engine/edf, "Environment variable expansion".
    """
    text = ":".join("".join(map(_edf, _pieces(value))) for value in values)
    # JSON's escapes are TOML's too, and the models take no character that TOML alone escapes.
    return Text(json.dumps(text, ensure_ascii=False))


def variables(values: Iterable[str]) -> list[str]:
    """Name the variables that must be asked for before these texts, each once, in their order."""
    names = [piece.variable for value in values for piece in _pieces(value)]
    unasked = {None, MAY_BE_UNSET, _ALWAYS_SET}
    return list(dict.fromkeys(name for name in names if name and name not in unasked))


def _pieces(value: str) -> list[_Piece]:
    if isinstance(value, Literal):
        return [_Piece(value, None)]
    pieces, end = [], 0
    for match in VARIABLE.finditer(value):
        pieces.append(_Piece(value[end : match.start()], None))
        pieces.append(_Piece("", match[1] or match[2]))
        end = match.end()
    pieces.append(_Piece(value[end:], None))
    return [piece for piece in pieces if piece.literal or piece.variable]


def _joined(value: str, literal: Callable[[str], str]) -> Text:
    parts = [
        literal(piece.literal) if piece.variable is None else _shell_variable(piece.variable)
        for piece in _pieces(value)
    ]
    return Text("".join(parts) or "''")


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def _shell_variable(name: str) -> str:
    return f'"${{{name}-}}"' if name == MAY_BE_UNSET else f'"${{{name}}}"'


def _edf(piece: _Piece) -> str:
    if piece.variable is None:
        return piece.literal.replace("$", "$$")
    return f"${{{piece.variable}{':-' if piece.variable == MAY_BE_UNSET else ''}}}"
