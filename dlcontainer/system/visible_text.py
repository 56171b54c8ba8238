"""Texts that others wrote, as a terminal may show them."""

import re

# What a terminal obeys, or shows in another order than it stands: control characters (C0, C1),
# marks of direction, line ends of Unicode's own, halves of pairs. Images, sessions and YAML files
# of others hold whatever their authors like.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Show what is no visible character as its code; line ends and tabs stay."""
    return _UNSEEN.sub(code, text)


def code(match: re.Match[str]) -> str:
    """Return the code of one character that was matched, as JSON writes it: JSON stays JSON."""
    number = ord(match[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
