"""`dlcontainer site environment`: which of this shell's variables a published module passes on."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dlcontainer.planning.launch.refused_variables import RefusalTable

_PASS = "DLCONTAINER_PASS"  # noqa: S105  a variable's name


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A variable of this shell; its value is never shown, since it may be a secret."""

    name: str
    goes_in: bool
    row: str | None
    why: str | None


def environment(
    image: Annotated[
        Path | None,
        typer.Argument(
            metavar="[IMAGE]",
            readable=False,
            help="Image to check; its own folders are not replaced by the host's.",
        ),
    ] = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show which variables of this shell enter an image, and which stay outside."""
    from dlcontainer.cli.context import here
    from dlcontainer.planning.launch import refused_variables
    from dlcontainer.system.environ import variables as reader

    world = here()
    passed = world.site(site).value.modules.pass_environment if site else ()
    user_names = refused_variables.user_names(reader.text(world.environ, _PASS) or "")
    rules = refused_variables.rules(_environment(image), (*passed, *user_names))
    judged = variables(world.environ, rules)
    if as_json:
        table = [asdict(row) for row in rules.rows]
        output.emit("explain-env", {"variables": list(map(asdict, judged)), "refused": table})
        return
    inside = [variable.name for variable in judged if variable.goes_in]
    output.say(f"{len(inside)} variables go in{':' if inside else ''}")
    if inside:
        output.say(output.table([("", " ".join(inside))]))
    outside = [variable for variable in judged if not variable.goes_in]
    output.say(f"{len(outside)} stay outside (to let one in: {_PASS}=NAME):")
    if outside:
        output.say(
            output.table(
                [f"  {variable.name}", variable.row or "", variable.why or ""]
                for variable in outside
            )
        )


def variables(environ: "Mapping[str, str]", rules: "RefusalTable") -> list[Variable]:
    """Judge each variable of an environment, by name."""
    from dlcontainer.planning.launch.refused_variables import CERTIFICATES

    judged = []
    for name in sorted(environ):
        row = rules.refusal(name)
        why = row.why if row else None
        if row is None and name in CERTIFICATES:
            why = "where the image shows the file"
        key = row.key if row else None
        judged.append(Variable(name=name, goes_in=row is None, row=key, why=why))
    return judged


def _environment(image: Path | None) -> "Mapping[str, str]":
    """Read what an image sets itself, of the record beside it."""
    if image is None:
        return {}
    from dlcontainer.errors import UsageError
    from dlcontainer.image import record

    # A published image's record has a name of its own.
    published = image.resolve().with_name("record.json")
    written = record.read(published if published.is_file() else record.beside(image.resolve()))
    if written is None:
        raise UsageError(
            f"{image} has no record beside it",
            next_step=f"{record.copy_too(record.beside(image.resolve()))}; or leave the image out",
        )
    return written.content.environment
