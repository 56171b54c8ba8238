"""The commands' own kind of Typer app: help in groups, `-h`, and errors that say the next step.

A group knows the name and the first sentence of each of its commands. The module of a command is
read, and its options are made, when it runs, completes or shows its own help.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

from dlcontainer.cli import output
from dlcontainer.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

# What people type for an option of `dlcontainer` itself.
_OPTIONS = {"help": "--help", "version": "--version"}


def _lighten(param: Any) -> None:
    """Have what nobody typed, flags and plain text need no pydantic.

    Typer reads them alike, but makes a validator of pydantic's first for each that it reads.
    """
    whole, many = param.process_value, param.multiple or param.nargs == -1
    plain = _is_plain_text(param, many=many)

    def process(ctx: Any, value: Any) -> Any:
        if value is None and not param.required:
            read: Any = () if many else None
        elif plain and _is_read(value, many=many):
            read = list(value) if many else value
        else:
            if not isinstance(value, bool):
                from dlcontainer.config import pydantic_plugins

                pydantic_plugins.leave_out_plugins()
            return whole(ctx, value)
        return read if param.callback is None else param.callback(ctx, param, read)

    param.process_value = process


def _is_plain_text(param: Any, *, many: bool) -> bool:
    """Return whether Typer takes each word for this as it was typed."""
    about = param.type_descriptor
    kind = list[str] if many else str
    return bool(about.annotation == kind) and about.parameter_info.parser is None


def _is_read(value: Any, *, many: bool) -> bool:
    # Other than ASCII there may be bytes that are no text, of which Typer has its own error; a
    # list that is empty may be one that is required.
    if many and not (isinstance(value, list | tuple) and value):
        return False
    words = value if many else (value,)
    return all(isinstance(word, str) and word.isascii() for word in words)


class HelpCommand(TyperCommand):
    """A command whose help is laid out by us: Typer's own takes rich, or cuts sentences."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words."""
        for param in self.get_params(ctx):
            _lighten(param)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def get_help(self, ctx: Any) -> str:
        """Return the help page."""
        from dlcontainer.cli import help_page

        return help_page.command(self, ctx, sys.stdout)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A command as its group lists it; `read` gives its function, or the app of a group.

    `place` says where that is: a module below dlcontainer.cli, a colon, its name there.
    """

    name: str
    summary: str
    read: Callable[[], Any]
    place: str | None = None
    panel: str | None = None
    hidden: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Any:
        """Make the command, or the group, with all of its options."""
        maker = typer.Typer(rich_markup_mode=None, add_completion=False)
        # With a callback Typer makes a group also of one command.
        maker.callback()(_nothing)
        definition = self.read()
        if isinstance(definition, App):
            maker.add_typer(definition, name=self.name, rich_help_panel=self.panel)
        else:
            maker.command(
                self.name,
                **{"cls": HelpCommand, "rich_help_panel": self.panel, **self.options},
            )(definition)
        return cast("TyperGroup", typer.main.get_command(maker)).commands[self.name]


def _nothing() -> None: ...


def at(place: str, name: str, summary: str, *, panel: str | None = None) -> Entry:
    """List a command, or a group, by its place; its module is read when the command is meant."""
    read = partial(_read, *place.split(":"))
    return Entry(name=name, summary=summary, read=read, place=place, panel=panel)


def _read(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"dlcontainer.cli.{module}"), name)


class _LazyCommands(Mapping[str, Any]):
    """The commands of a group; each is made when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries, self._made = entries, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._entries[name].made()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class HelpGroup(TyperGroup):
    """A group of commands; a name that is unknown gets the nearest one as its next step."""

    # Of the app that the group is made from.
    entries: ClassVar[Mapping[str, Entry]] = {}

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = cast("dict[str, Any]", _LazyCommands(self.entries))

    def get_help(self, ctx: Any) -> str:
        """Return the help page."""
        from dlcontainer.cli import help_page

        return help_page.group(self, ctx, sys.stdout)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a command; no command's module is read for it."""
        lazy_commands = self.commands
        shown = [entry for entry in self.entries.values() if not entry.hidden]
        self.commands = {entry.name: HelpCommand(entry.name, help=entry.summary) for entry in shown}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = lazy_commands

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; without any, show the help page and end as a usage error does."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            from dlcontainer.cli import help_page

            output.page(help_page.group(self, ctx, sys.stderr), sys.stderr)
            raise typer.Exit(UsageError.exit_code)
        for param in self.get_params(ctx):
            _lighten(param)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was typed; raises UsageError with what to type instead."""
        is_known = args[0] in self.commands or ctx.resilient_parsing or args[0].startswith("-")
        return super().resolve_command(ctx, args) if is_known else self._refuse(ctx, args)

    def _refuse(self, ctx: Any, args: list[str]) -> NoReturn:
        import difflib
        import shlex

        name, rest = args[0], args[1:]
        path, near = ctx.command_path, difflib.get_close_matches(name, self.commands, n=1)
        hint, step = "", f"{path} --help"
        if name in _OPTIONS:
            words = rest[:1] if name == "help" and rest[:1] and rest[0] in self.commands else []
            step = " ".join([path, *words, _OPTIONS[name]])
        elif near:
            hint = f"; did you mean '{near[0]}'?"
            step = shlex.join([*path.split(), near[0], *rest])
        raise UsageError(f"No such command '{name}'{hint}", next_step=step)


class App(typer.Typer):
    """A Typer app with our help; every group and command of dlcontainer is made by one."""

    def __init__(self, **options: Any) -> None:
        self.entries: dict[str, Entry] = {}
        group = type("Commands", (HelpGroup,), {"entries": self.entries})
        settings = {"help_option_names": ["-h", "--help"]}
        usual = {"cls": group, "context_settings": settings, "no_args_is_help": True}
        # Importing rich would double the time of --help (docs/measurements/index.md).
        super().__init__(**{"rich_markup_mode": None, **usual, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a command."""

        def register(function: F) -> F:
            called = name or function.__name__.lower().replace("_", "-")
            about = options.get("help") or inspect.getdoc(function) or ""
            panel, hidden = options.get("rich_help_panel"), options.get("hidden", False)
            entry = Entry(
                name=called,
                summary=about,
                read=lambda: function,
                panel=panel,
                hidden=hidden,
                options=options,
            )
            self.add(entry)
            return function

        return register

    def add(self, *entries: Entry) -> None:
        """Register commands and groups that are read when they are meant."""
        self.entries.update((entry.name, entry) for entry in entries)
