"""What to type instead of a command line that is wrong."""

from typing import TYPE_CHECKING, Any

from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import typer


def translated(problem: "typer.TyperException", argv: list[str]) -> UsageError:
    """Return an error of the parser as ours, its next step the help of the very command."""
    ctx: Any = getattr(problem, "ctx", None)
    path = ctx.command_path if ctx is not None else "dlcontainer"
    names = {parameter.name for parameter in ctx.command.params} if ctx is not None else set()
    step = None
    if {"site", "recipe"} <= names:
        step = with_site(path, argv[len(path.split()) - 1 :])
    if step:
        why, line = step
        return UsageError(_said(problem), why=why, next_step=line)
    return UsageError(_said(problem), next_step=f"{path} --help")


def _said(problem: "typer.TyperException") -> str:
    """Return the parser's message without what its library says of itself."""
    return str(problem.format_message()).replace(": Value error, ", ": ", 1)


def with_site(path: str, words: "Iterable[str]") -> tuple[str, str] | None:
    """Return which word is a site, with the line to type; None where none is one, or --site is
    there.

    `words` are what follows the command.
    """
    from dlcontainer.cli import completion

    typed = list(words)
    if any(word in ("-s", "--site") or word.startswith("--site=") for word in typed):
        return None
    sites, recipes = completion.names("site-configs"), completion.names("recipes")
    site = next((word for word in typed if _bare(word) in sites), None)
    if site is None:
        return None
    recipe = next((word for word in typed if word in recipes and word != site), None)
    line = " ".join([path, *([recipe] if recipe else []), "--site", site])
    return f"'{site}' is a site: it goes with --site; the recipe is the argument", line


def _bare(word: str) -> str:
    return word.partition("@")[0].partition(":")[0]
