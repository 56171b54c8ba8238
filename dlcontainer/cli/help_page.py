"""Help as a page of 80 columns: options in groups, with defaults, no sentence cut."""

import shutil
import textwrap
from dataclasses import dataclass, replace
from typing import Any, TextIO

from dlcontainer.cli import layout
from dlcontainer.cli.colour import paint

_NAMES = 26
_INDENT = "  "
_EVERYWHERE = "Everywhere"
_COMMON = {"as_json", "verbose", "help"}
_OPTIONS = "Options"
# Of a command with more options than fit on a screen these come first, in this order.
_USUAL_PANEL = "Usual"
_USUAL = (
    *("--site", "--image", "--output", "--resume", "--recipe", "--variant", "--engine"),
    *("--locked", "--tmpdir", "--dry-run"),
    *("--pairs", "--margin", "--native", "--device", "--ranks"),
)
_MANY = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class HelpRow:
    """An argument, an option or a command with its text, and the part of the page it stands in."""

    panel: str
    name: str
    text: str


def command(of: Any, ctx: Any, stream: TextIO) -> str:
    """Lay out the help of one command."""
    return _page(of, usage(of, ctx), command_rows(of, ctx), stream)


def command_rows(of: Any, ctx: Any) -> list[HelpRow]:
    """Return a command's arguments and options as its page lists them, with their defaults."""
    options = _shown(of, ctx, "option")
    rows = [
        HelpRow(panel="Arguments", name=_metavar(parameter, ctx), text=parameter.help)
        for parameter in _shown(of, ctx, "argument")
    ]
    usual = {parameter.opts[0]: parameter for parameter in options} if len(options) > _MANY else {}
    first = [usual[name] for name in _USUAL if name in usual]
    rows += [replace(_option(option, ctx), panel=_USUAL_PANEL) for option in first]
    # Options of a group stand together, in the order of the groups' first ones; ours end the page.
    other_rows = (_option(option, ctx) for option in options if option not in first)
    return rows + sorted(other_rows, key=lambda row: row.panel == _EVERYWHERE)


def _shown(of: Any, ctx: Any, kind: str) -> list[Any]:
    return [
        parameter
        for parameter in of.get_params(ctx)
        if parameter.param_type_name == kind and not getattr(parameter, "hidden", False)
    ]


def group(of: Any, ctx: Any, stream: TextIO) -> str:
    """Lay out the help of a group: its commands, each with its first sentence."""
    # By the group's table: no command's module is read for this page.
    rows = [
        HelpRow(
            panel=subcommand.panel or "Commands",
            name=subcommand.name,
            text=_summary(subcommand.summary),
        )
        for subcommand in of.entries.values()
        if not subcommand.hidden
    ]
    options = [
        parameter for parameter in of.get_params(ctx) if not getattr(parameter, "hidden", False)
    ]
    rows += [_option(parameter, ctx) for parameter in options]
    return _page(of, f"{ctx.command_path} [OPTIONS] COMMAND [ARGUMENTS]", rows, stream)


def usage(of: Any, ctx: Any) -> str:
    """Return the words of a command line: the command, what it requires, its arguments."""
    words = [ctx.command_path]
    words += [
        f"{parameter.opts[0]} {_metavar(parameter, ctx)}"
        for parameter in _shown(of, ctx, "option")
        if parameter.required
    ]
    words.append("[OPTIONS]")
    for parameter in _shown(of, ctx, "argument"):
        name = _metavar(parameter, ctx)
        words.append(name if parameter.required or name.startswith("[") else f"[{name}]")
    return " ".join(words)


def _page(of: Any, words: str, rows: list[HelpRow], stream: TextIO) -> str:
    width = min(layout.columns(stream) or shutil.get_terminal_size().columns, layout.PAGE)
    head = textwrap.fill(f"Usage: {words}", width, subsequent_indent=" " * 7, **_WHOLE)
    about = " ".join((of.help or "").split())
    parts = [head, textwrap.fill(about, width, **_WHOLE)]
    names = max((len(row.name) for row in rows), default=0)
    # On a narrow terminal the texts need the room: a name stands above its own.
    column = min(names, _NAMES, width // 3) + 2
    for panel in dict.fromkeys(row.panel for row in rows):
        lines = [
            line
            for row in rows
            if row.panel == panel
            for line in _lines(row, column, width, stream)
        ]
        parts.append("\n".join([paint(f"{panel}:", "title", stream), *lines]))
    if of.epilog:
        parts.append(textwrap.fill(of.epilog, width, **_WHOLE))
    return "\n\n".join(part for part in parts if part)


_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def _lines(row: HelpRow, column: int, width: int, stream: TextIO) -> list[str]:
    indent = " " * (len(_INDENT) + column)
    text = textwrap.wrap(" ".join(row.text.split()), max(width - len(indent), 1), **_WHOLE)
    name = paint(row.name, "name", stream)
    if len(row.name) + 2 > column or not text:
        return [_INDENT + name, *(indent + line for line in text)]
    first = _INDENT + name + " " * (column - len(row.name)) + text[0]
    return [first, *(indent + line for line in text[1:])]


def _option(parameter: Any, ctx: Any) -> HelpRow:
    short = [word for word in parameter.opts if not word.startswith("--")]
    names = ", ".join([*short, *(word for word in parameter.opts if word not in short)])
    metavar = "" if parameter.is_flag else f" {_metavar(parameter, ctx)}"
    panel = _EVERYWHERE if parameter.name in _COMMON else parameter.rich_help_panel
    text = "Show this page." if parameter.name == "help" else parameter.help or ""
    return HelpRow(
        panel=panel or _OPTIONS, name=f"{names}{metavar}", text=text + _default(parameter, ctx)
    )


def _default(parameter: Any, ctx: Any) -> str:
    if parameter.required:
        return " Required."
    if parameter.is_flag or not parameter.show_default:
        return ""
    value = parameter.get_default(ctx, call=False)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # An empty text is no default to tell.
    return "" if value in (None, "") or callable(value) else f" Default: {value}."


def _metavar(parameter: Any, ctx: Any) -> str:
    return str(parameter.metavar or parameter.display_type(ctx).strip("<>"))


def _summary(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())
