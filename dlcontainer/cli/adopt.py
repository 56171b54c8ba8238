"""`dlcontainer adopt`: an image of somebody else's gets a record, a probe and a validation."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.adopt.adopt import AdoptContext, AdoptionResult
    from dlcontainer.cli.context import CliContext
    from dlcontainer.image.record import Record
    from dlcontainer.registry.connection import RegistryAccess
    from dlcontainer.sites.site import Site

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="docker://NAME@sha256:DIGEST, an OCI archive, or a SIF file."
    ),
]
Command = Annotated[
    list[str] | None,
    typer.Option(
        "--command", metavar="NAME", help="Add this command to the module; may be repeated."
    ),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME[/VERSION]", help="Name of the module. Default: the image's own."
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Run the image like one that you built; the record keeps your name."
    ),
]
Most = Annotated[
    int,
    typer.Option(
        "--most-gb",
        min=1,
        metavar="N",
        help="Largest unpacked size, in GB; a larger image is refused.",
    ),
]


def adopt(
    source: Source,
    site: options.Site,
    target: options.Output = Path("images"),
    command: Command = None,
    name: Named = None,
    trust: Trust = False,
    most_gb: Most = 100,
    tmpdir: options.Tmpdir = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Adopt an image that was built elsewhere: add a record and a probe, and validate it."""
    from dlcontainer.adopt import adopt as adopting
    from dlcontainer.adopt import given
    from dlcontainer.cli.context import here

    world = here()
    loaded = world.site(site).value
    console = output.Console(verbose=verbose, events=as_json)
    if _already(source, loaded, world, trusted=trust, as_json=as_json):
        return
    module, version = names(name)
    wishes = adopting.AdoptionOptions(
        output=target.absolute(),
        tmpdir=tmpdir.absolute() if tmpdir else None,
        commands=tuple(_command(word) for word in command or []),
        name=module,
        version=version,
        most=most_gb * 10**9,
        trusted=trust,
    )
    access = _way(loaded, world)
    source_read = given.read(source, loaded.arch, access, site)
    context = _context(loaded, access, world, console)
    with console.beating():
        done = adopting.adopt(source_read, loaded, wishes, context)
    _show(done, as_json=as_json)


def _context(
    site: "Site", access: "RegistryAccess", world: "CliContext", console: output.Console
) -> "AdoptContext":
    from dlcontainer.adopt.adopt import AdoptContext
    from dlcontainer.validate import validate as validating
    from dlcontainer.validate.inspected import ValidateContext

    execution = world.execution(console)

    def check(image: Path, written: "Record") -> None:
        context = ValidateContext(
            execution=execution, on_check=console.checked, on_begin=console.phase
        )
        validating.require_ok(validating.validate(image, site, context, written))

    return AdoptContext(execution=execution, access=access, check=check)


def _way(site: "Site", world: "CliContext") -> "RegistryAccess":
    from dlcontainer.packages.proxies import proxies_of
    from dlcontainer.packages.routing import ca_of
    from dlcontainer.registry.connection import RegistryAccess

    routing = site.routing
    return RegistryAccess(
        proxies=proxies_of(routing, world.host),
        ca=ca_of(routing, world.host),
        plain_http=routing.plain_http,
    )


def _already(
    source: str, site: "Site", world: "CliContext", *, trusted: bool, as_json: bool
) -> bool:
    """Deal with an image that was adopted: note the trust in its record, or refuse."""
    from dlcontainer.adopt import trust
    from dlcontainer.errors import UsageError

    path = Path(source)
    record = trust.of_others(path, site.owners) if path.is_file() else None
    if record is None:
        return False
    if not trusted:
        raise UsageError(
            f"{path} {record.record.came} already"
            if record.record.content.adopted
            else f"{path} {record.record.came}",
            next_step=f"dlcontainer validate {path}; to run it as your own: --trust",
        )
    trust.write(path, record, world.host.user)
    if as_json:
        output.emit("adopt", {"image": str(path), "trusted_by": world.host.user})
    else:
        output.say(f"{path}: trusted by {world.host.user}, sha256 {record.record.image.sha256}")
    return True


def names(text: str | None, option: str = "--name") -> tuple[str | None, str | None]:
    """Read NAME[/VERSION] of an option; raises UsageError for what is no name of a module."""
    from pydantic import TypeAdapter

    from dlcontainer.config.field_types import Name, Version

    if text is None:
        return None, None
    name, slash, version = text.partition("/")
    step = "use NAME or NAME/VERSION, such as thesis/2026.11"
    _require(TypeAdapter(Name), name, f"{option} {text}", step)
    if slash:
        _require(TypeAdapter(Version), version, f"{option} {text}", step)
    return name, version or None


def _command(text: str) -> str:
    from pydantic import TypeAdapter

    from dlcontainer.config import field_types

    _require(TypeAdapter(field_types.Command), text, f"--command {text}")
    return text


def _require(
    kind: object, text: str, option: str, next_step: str = "dlcontainer adopt --help"
) -> None:
    from pydantic import TypeAdapter, ValidationError

    from dlcontainer.errors import UsageError

    assert isinstance(kind, TypeAdapter)  # noqa: S101 - made above, a line earlier
    try:
        kind.validate_python(text)
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise UsageError(f"{option}: {why}", next_step=next_step) from None


def _show(done: "AdoptionResult", *, as_json: bool) -> None:
    if as_json:
        body = {
            "image": str(done.image),
            "record": str(done.record),
            "digest": done.digest,
            "trusted": done.trusted,
            "seen": asdict(done.survey),
        }
        output.emit("adopt", body)
        return
    python = done.survey.interpreters[0]
    frameworks = ", ".join(f"{name} {version}" for name, version in python.frameworks)
    mpi = ", ".join(f"{library.library} ({library.family})" for library in done.survey.mpi)
    counted = ", ".join(f"{count} {kind}" for kind, count in done.survey.packages.items())
    rows = [
        ("python", f"{python.path}, {python.version}"),
        ("frameworks", frameworks or "none that is known"),
        ("mpi", mpi or "none"),
        ("packages", counted or "none in a database that can be read"),
        ("c library", f"{done.survey.c_library} {done.survey.glibc or ''}".strip()),
        ("runs", how_it_runs(trusted=done.trusted)),
    ]
    output.complain(output.table(rows))
    output.copied(str(done.image))


def how_it_runs(*, trusted: bool) -> str:
    """Say how an image of others runs."""
    return "as built here" if trusted else "contained, until --trust (docs/image/adopt.md)"
