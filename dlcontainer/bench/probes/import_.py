"""`bench import`: the time from the start of a launch until a module is imported."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes.probe import (
    MARGIN,
    MEMORY,
    NATIVE_AS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    Values,
    given_or_default,
)
from dlcontainer.bench.samples.traits import START, Metric
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import SessionDeclaration

_MODULE = Option(
    name="module",
    metavar="NAME",
    help="Module to import. Default: the first module of the recipe's verify.imports.",
    elsewhere="ignored",
)


def cell(module: str, threads: int) -> ProbeCell:
    """Return the cell that imports a module."""
    return ProbeCell(values={_MODULE.name: module}, threads=threads)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    values = given_or_default(IMPORT.options, typed, setting)
    modules = setting.contents.modules
    if not values[_MODULE.name] and not modules:
        raise UsageError(
            f"the recipe {setting.contents.recipe} names no module in verify.imports",
            next_step="name the module to import: --module NAME",
        )
    module = values[_MODULE.name] or modules[0]
    return {**values, _MODULE.name: module}


def _phases(_stamps: Mapping[str, Any]) -> tuple[str, ...]:
    return ("import",)


def _subject(declared: "SessionDeclaration") -> str:
    module = declared.workload.get(_MODULE.name)
    return f"Importing {module}" if isinstance(module, str) else "Importing the framework"


def _task(declared: "SessionDeclaration") -> str:
    module = declared.workload.get(_MODULE.name)
    if isinstance(module, str):
        return f"the start of Python and the import of {module}"
    return "the start and the import of the framework"


IMPORT = Probe(
    name="import",
    summary="Time to import the framework: native against container.",
    metrics=(
        # A container always adds something to an import: that it does not is never said.
        Metric(name="wall_s", unit="s", margin=MARGIN, equivalence=False),
        MEMORY,
        Metric(name="import_cpu_s", unit="s"),
    ),
    options=(NATIVE_AS, _MODULE),
    settle=_settled,
    phases=_phases,
    ends_at="import",
    joins=True,
    subject=_subject,
    task=_task,
    question=START,
    unsaid=", nothing about many nodes that import at once",
    earlier_file="importing.py",
)
