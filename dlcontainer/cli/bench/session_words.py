"""A session's options as the words of its command: what a job runs on other nodes."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from dlcontainer.bench.probes.probe import Probe
from dlcontainer.cli.bench.session_options import SessionOptions


def words(probe: Probe, options: SessionOptions) -> list[str]:
    """Return `bench PROBE` with the options that are not as usual, in their order."""
    spelled = ["bench", probe.name]
    for field in fields(SessionOptions):
        if field.name == "values":
            continue
        value = getattr(options, field.name)
        if field.default is not MISSING and value == field.default:
            continue
        spelled += _spelled(_flag(field.name, field.type), value)
    for option in probe.options:
        spelled += _spelled(option.flag, options.values.get(option.name))
    return spelled


def _flag(name: str, annotation: Any) -> str:
    """Return the first spelling of an option; without one it is the parameter's name."""
    shown = annotation.__metadata__[0]
    # The first word of an annotated option stands where others have their default.
    spellings = (str(shown.default), *(shown.param_decls or ()))
    usual = f"--{name.replace('_', '-')}"
    return next((word for word in spellings if word.startswith("--")), usual)


def _spelled(flag: str, value: object) -> Iterator[str]:
    if value is None or value is False:
        return
    if value is True:
        yield flag
        return
    for part in value if isinstance(value, list | tuple) else (value,):
        yield from (flag, str(part))
