"""A probe's command: the options of every session, and the probe's own."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal

import typer

from dlcontainer.bench.probes.base import Option, Probe, Value
from dlcontainer.cli.bench import session_options
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import UsageError

_VALUES = "values"


def make(
    probe: Probe, probes: Mapping[str, Probe], run: Callable[[Probe, SessionOptions], None]
) -> Callable[..., None]:
    """Make the command that measures with a probe and hands what was typed to `run`."""
    # Two probes may have an option of one name; a command shows its own.
    known = [*(option for other in probes.values() for option in other.options), *probe.options]
    options = {option.name: option for option in known}

    def command(**typed: Any) -> None:
        run(probe, as_options(probe, probes, typed))

    parameters = list(_parameters(probe, options.values()))
    command.__doc__ = "Measure what an image costs against the native stack, sample by sample."
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def as_options(
    probe: Probe, probes: Mapping[str, Probe], typed: Mapping[str, Any]
) -> SessionOptions:
    """Give what was typed, by the names of parameters; raises UsageError for another's option."""
    known = {option.name for other in probes.values() for option in other.options}
    _refuse_foreign(probe, probes, typed)
    own = {option.name: typed[option.name] for option in probe.options}
    common = {name: value for name, value in typed.items() if name not in known}
    return SessionOptions(**common, values=own)


def _parameters(probe: Probe, options: Iterable[Option]) -> Iterable[inspect.Parameter]:
    for one in fields(SessionOptions):
        if one.name == _VALUES:
            # Known to all commands, so that the error says which one takes an option.
            for option in options:
                yield _parameter(option, is_own=option in probe.options)
        else:
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            yield inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=one.type
            )


def _parameter(option: Option, *, is_own: bool) -> inspect.Parameter:
    kind: Any = Literal[option.choices] if option.choices else option.kind
    shown = typer.Option(
        option.flag,
        metavar=option.metavar,
        min=option.least,
        help=option.help,
        hidden=not is_own,
        rich_help_panel=session_options.LAUNCH,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, shown],
    )


def _refuse_foreign(probe: Probe, probes: Mapping[str, Probe], values: Mapping[str, Value]) -> None:
    own = {option.name for option in probe.options}
    foreign = [option for other in probes.values() for option in other.options]
    for option in foreign:
        if option.name in own or option.elsewhere == "ignored" or values[option.name] is None:
            continue
        names = [
            one.name
            for one in probes.values()
            if option.name in {other.name for other in one.options}
        ]
        commands = " and ".join(f"'bench {name}'" for name in names)
        raise UsageError(
            f"{option.flag} applies to {commands} only",
            next_step=f"leave it out, or: bench {names[0]}",
        )
