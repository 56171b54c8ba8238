"""The commands' own kind of Typer app: help in groups, `-h`, and errors that say the next step."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from dlcontainer.cli import help_page, output
from dlcontainer.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

# What people type for an option of `dlcontainer` itself.
_OPTIONS = {"help": "--help", "version": "--version"}


class HelpCommand(TyperCommand):
    """A command whose help is laid out by us: Typer's own takes rich, or cuts sentences."""

    def get_help(self, ctx: Any) -> str:
        """Give the help page."""
        return help_page.command(self, ctx, sys.stdout)


class HelpGroup(TyperGroup):
    """A group of commands; a name that is unknown gets the nearest one as its next step."""

    def get_help(self, ctx: Any) -> str:
        """Give the help page."""
        return help_page.group(self, ctx, sys.stdout)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; without any, show the help page and end as a usage error does."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            output.page(help_page.group(self, ctx, sys.stderr), sys.stderr)
            raise typer.Exit(UsageError.exit_code)
        found: list[str] = super().parse_args(ctx, args)
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was typed; raises UsageError with what to type instead."""
        known = args[0] in self.commands or ctx.resilient_parsing or args[0].startswith("-")
        return super().resolve_command(ctx, args) if known else self._refuse(ctx, args)

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
        settings = {"help_option_names": ["-h", "--help"]}
        usual = {"cls": HelpGroup, "context_settings": settings, "no_args_is_help": True}
        # Importing rich would double the time of --help (docs/measurements.md).
        super().__init__(**{"rich_markup_mode": None, **usual, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a command."""
        return super().command(name, **{"cls": HelpCommand, **options})
