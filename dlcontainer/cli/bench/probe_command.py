"""A probe's command: the options of every session, and the probe's own."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal

import typer

from dlcontainer.bench.probes.probe import Option, Probe, Value
from dlcontainer.cli.bench import session_options
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import UsageError

_VALUES = "values"


def make(
    probe: Probe, probes: Mapping[str, Probe], run: Callable[[Probe, SessionOptions], None]
) -> Callable[..., None]:
    """Make the command that measures with a probe and hands what was typed to `run`."""
    # Two probes may have an option of one name; a command shows its own.
    every_option = [
        *(option for earlier in probes.values() for option in earlier.options),
        *probe.options,
    ]
    options = {option.name: option for option in every_option}

    def command(**typed: Any) -> None:
        run(probe, as_options(probe, probes, typed))

    parameters = list(_parameters(probe, options.values()))
    command.__doc__ = "Measure what an image costs against the native stack, sample by sample."
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def as_options(
    probe: Probe, probes: Mapping[str, Probe], typed: Mapping[str, Any]
) -> SessionOptions:
    """Return what was typed, by the names of parameters; raises UsageError for another's option."""
    foreign = {option.name for another in probes.values() for option in another.options}
    _refuse_foreign(probe, probes, typed)
    settings = {option.name: typed[option.name] for option in probe.options}
    common = {name: value for name, value in typed.items() if name not in foreign}
    return SessionOptions(**common, values=settings)


def _parameters(probe: Probe, options: Iterable[Option]) -> Iterable[inspect.Parameter]:
    for field in fields(SessionOptions):
        if field.name == _VALUES:
            # Known to all commands, so that the error says which one takes an option.
            for option in options:
                yield parameter(option, is_own=option in probe.options)
        else:
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type
            )


def parameter(option: Option, *, is_own: bool) -> inspect.Parameter:
    """Return a probe's option as a parameter of a command; another probe's is hidden."""
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
    accepted = {option.name for option in probe.options}
    foreign = [option for another in probes.values() for option in another.options]
    for option in foreign:
        if option.name in accepted or option.elsewhere == "ignored" or values[option.name] is None:
            continue
        names = [
            another.name
            for another in probes.values()
            if option.name in {accepted.name for accepted in another.options}
        ]
        commands = " and ".join(f"'bench {name}'" for name in names)
        raise UsageError(
            f"{option.flag} applies to {commands} only",
            next_step=f"leave it out, or use `bench {names[0]}`",
        )
