"""The Jinja environments: undefined names are errors with their line, values are quoted."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dlcontainer.config.suggestions import cut
from dlcontainer.config.template_bounds import LARGEST, BoundedSandbox, metered, rendered
from dlcontainer.errors import ConfigError, Mark

# What an expression that a human wrote can end in.
_WRONG = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    MemoryError,
    # What Python says of code that is nested too deeply.
    SyntaxError,
)
_LONGEST_SAYING = 400  # characters of a message: a name in it may be anything
# Characters of what a file of templates/ comes to: a report of many sessions has some.
_LONGEST_FILE = 64 * 2**20

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|MB|GB)(?![\w-]))")


class Literal(str):
    """Text of which nothing is filled in, among texts of which something is."""

    __slots__ = ()


class Text(str):
    """Text that is already in the format it goes into: it is inserted as it stands."""

    __slots__ = ()


def quote(value: object) -> str:
    """Quote a value for a POSIX shell, unless it is Text."""
    return value if isinstance(value, Text) else shlex.quote(str(value))


# Kept, as what is compiled from files is kept in it: a further text of one process is quicker. The
# templates can't change an environment, and a changed file is read again.
@cache
def _sandbox(
    *,
    finalize: Callable[[object], str] | None = None,
    escaping: bool = False,
    folders: tuple[Path, ...] = (),
) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        autoescape=escaping,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    if escaping:
        environment.filters["tied"] = tied
    return environment


@cache
def _bounded(*, shell: bool) -> BoundedSandbox:
    return BoundedSandbox(
        undefined=jinja2.StrictUndefined,
        finalize=quote if shell else None,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def expand(text: str, values: Mapping[str, object], *, where: Mark | str, shell: bool) -> str:
    """Expand one string of a recipe; in a shell snippet every value arrives quoted.

    Raises ConfigError at `where` for an undefined name or a template that does not parse.
    """
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    if isinstance(where, Mark) and "\n" in text:
        # A block scalar's text starts on the line after its key; a flow scalar's on its own.
        where = replace(where, line=where.line + 1)
    longest = LARGEST + len(text)
    return str(_guarded(lambda: rendered(_compiled(text, shell=shell), values, longest), where))


# A text of a recipe is read again for each variant, site and format.
@lru_cache(maxsize=4096)
def _compiled(text: str, *, shell: bool) -> jinja2.Template:
    if text.endswith("{#"):
        # Jinja drops what begins a comment at the very end, and says nothing.
        raise jinja2.TemplateSyntaxError("Missing end of comment tag", text.count("\n") + 1)
    return _bounded(shell=shell).from_string(text)


def holds(expression: str, values: Mapping[str, object], *, where: Mark | str) -> bool:
    """Return whether a recipe's `when` expression is true on these values."""
    compiled = _guarded(lambda: _condition(expression), where)
    # One line, and Jinja's frames of an expression know nothing of it.
    return bool(_guarded(lambda: bool(compiled(**values)), where, lines=False))


@lru_cache(maxsize=1024)
def _condition(expression: str) -> Any:
    return _bounded(shell=False).compile_expression(expression, undefined_to_none=False)


def render_template(
    folders: list[Path],
    name: str,
    values: Mapping[str, object],
    *,
    finalize: Callable[[object], str] = quote,
) -> str:
    """Render a file of templates/; `finalize` quotes each value, for the shell unless told else.

    Raises ConfigError with the template's line.
    """
    environment = _sandbox(finalize=finalize, folders=tuple(folders))
    return str(_guarded(lambda: _rendered_file(environment, name, values), name))


def render_page(folders: list[Path], name: str, values: Mapping[str, object]) -> str:
    """Render a file of templates/ to HTML; every value that is not Markup is escaped.

    Raises ConfigError with the template's line.
    """
    environment = _sandbox(escaping=True, folders=tuple(folders))
    return str(_guarded(lambda: _rendered_file(environment, name, values), name))


def _rendered_file(
    environment: ImmutableSandboxedEnvironment, name: str, values: Mapping[str, object]
) -> str:
    return rendered(environment.get_template(name), values, _LONGEST_FILE)


def tied(text: str) -> str:
    """Keep a number and its unit on one line of a page."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def _guarded(action: Any, where: Mark | str, *, lines: bool = True) -> Any:
    try:
        return metered(action)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"template syntax error: {cut(str(error.message), _LONGEST_SAYING)}",
            where=_place(where, error.lineno),
        ) from None
    except jinja2.TemplateNotFound as error:
        raise ConfigError(f"no template {error.name!r}", where=where) from None
    except _WRONG as error:
        raise ConfigError(
            f"template: {cut(str(error) or type(error).__name__, _LONGEST_SAYING)}",
            where=_place(where, _line_of(error) if lines else None),
            next_step="names it may use: site, base, versions, prefix, recipe"
            if isinstance(error, jinja2.UndefinedError)
            else None,
        ) from None


def _place(where: Mark | str, line: int | None) -> Mark | str:
    if line is None:
        return where
    if isinstance(where, Mark):
        return replace(where, line=where.line + line - 1)
    return f"{where}:{line}" if where.endswith(".j2") else where


def _line_of(error: BaseException) -> int | None:
    line = None
    traceback = error.__traceback__
    while traceback is not None:
        # Jinja rewrites the frames of compiled templates to the template's own lines.
        name = traceback.tb_frame.f_code.co_filename
        if name == "<template>" or name.endswith(".j2"):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
