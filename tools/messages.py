"""List what dlcontainer says: every message and help text, with its place.

    python -m tools.messages [--draw N --seed TEXT]

A line each: file:line, the kind of text, the text; what is filled in stands in braces. With --draw
N of them are drawn by the digest of TEXT, which who rewrites them can't choose.
"""

import argparse
import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dlcontainer"
# Parameters of errors that users read.
_PARTS = ("what", "why", "next_step", "help", "message")
# Methods and functions that print their first words.
_SAYING = frozenset({"note", "line", "say", "complain", "finding", "step", "warn", "begin"})
_EXEMPT = ("probe",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A text and where it stands."""

    place: str
    kind: str
    text: str


def messages() -> Iterator[Message]:
    """Go through all messages and help texts of the package, by file and line."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] in _EXEMPT:
            continue
        within = path.relative_to(ROOT)
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.Call):
                continue
            for kind, text in _texts(node, is_command="cli" in within.parts):
                yield Message(place=f"{within}:{node.lineno}", kind=kind, text=text)


def _texts(node: ast.AST, *, is_command: bool) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef) and is_command and not node.name.startswith("_"):
        about = ast.get_docstring(node)
        if about and any(arg.arg in ("as_json", "verbose") for arg in node.args.args):
            yield "command", about.splitlines()[0]
    if not isinstance(node, ast.Call):
        return
    name = _name(node.func)
    first = _text(node.args[0]) if node.args else None
    if first and name.endswith("Error"):
        yield "what", first
    elif name in _SAYING:
        for word in node.args:
            text = _text(word)
            if text and " " in text:
                yield name, text
    for keyword in node.keywords:
        text = _text(keyword.value) if keyword.arg in _PARTS else None
        if text:
            yield str(keyword.arg), text


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text(value: ast.expr) -> str | None:
    """Return a literal text, with what is filled in in braces; None for anything else."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, ast.JoinedStr):
        return "".join(_part(part) for part in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = _text(value.left), _text(value.right)
        if left is None and right is None:
            return None
        return (left or "{…}") + (right or "{…}")
    return None


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ""


def drawn(count: int, seed: str) -> list[Message]:
    """Draw messages, the same for the same seed: those whose digests with it are the lowest."""

    def rank(message: Message) -> str:
        return hashlib.sha256(f"{seed} {message.place} {message.text}".encode()).hexdigest()

    return sorted(messages(), key=rank)[:count]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draw", type=int, metavar="N", help="draw N of them")
    parser.add_argument("--seed", default="", help="by what they are drawn, such as a commit")
    typed = parser.parse_args()
    table = drawn(typed.draw, typed.seed) if typed.draw else list(messages())
    for message in table:
        print(message.place, message.kind, " ".join(message.text.split()), sep="\t")


if __name__ == "__main__":
    main()
