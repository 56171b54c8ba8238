"""What a plain (unquoted) word in YAML means here, and which characters may stand in a file."""

import math
import re
from functools import cache

# PyYAML follows YAML 1.1, where NO is false, 022 is 18, 1:30 is 90 and 2024-11-15 is a date: for
# country codes, file modes, times and versions that is never what was meant. So plain words are
# resolved here, after the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema)
# and narrower: null, true/false, decimal integers and finite decimal fractions without leading
# zeros. All else (yes, on, 0x1F, 0o17, 1_000, .inf, dates) is text. Integers of more than 18
# digits are text too: nothing here counts that far, and a commit's hash may be all digits.
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
FRACTION = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]{0,30})?\.[0-9]{1,60}(?:[eE][-+]?[0-9]{1,3})?"
    r"|(?:0|[1-9][0-9]{0,30})[eE][-+]?[0-9]{1,3})"
)
# As keys these are refused, not taken as text: other tools read `on:` as `true:`.
OLD_BOOLEANS = frozenset(
    spelling
    for word in ("yes", "no", "on", "off")
    for spelling in (word, word.capitalize(), word.upper())
)

# What is refused: control characters, U+0085/2028/2029 (line breaks to YAML, not to editors, so
# every line number after them would be wrong), a byte order mark inside, surrogates.
_ALLOWED_ASCII = "\\t\\n\\x20-\\x7e"
_ALLOWED_BEYOND = (
    "\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff"
)


def refused_in_text(text: str) -> re.Match[str] | None:
    """Find the first character that may not stand in a file."""
    return _refused(text.isascii(), "\\r").search(text)


def refused_in_value(text: str) -> re.Match[str] | None:
    """Find the first character that may not stand in a value."""
    return _refused(text.isascii(), "").search(text)


@cache
def _refused(is_ascii: bool, also_allowed: str) -> re.Pattern[str]:  # noqa: FBT001
    # Compiled when needed: a set that spans Unicode takes 9 ms, and most files are ASCII.
    beyond = "" if is_ascii else _ALLOWED_BEYOND
    return re.compile(f"[^{also_allowed}{_ALLOWED_ASCII}{beyond}]")


def resolve(word: str) -> str | int | float | bool | None:
    """Return what a plain word means."""
    if word in NULLS:
        return None
    if word in BOOLEANS:
        return BOOLEANS[word]
    if INTEGER.fullmatch(word):
        return int(word)
    if FRACTION.fullmatch(word) and math.isfinite(number := float(word)):
        return number
    return word


def kind(value: object) -> str:
    """Name what a value is, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list | tuple) else "a mapping"
