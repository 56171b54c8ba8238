"""The context of `dlcontainer build`: which engine, to which end, with what."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import fetch, output
from dlcontainer.engines.engine import EngineKind, Outcome
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.build.context import BuildContext
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """What was asked of the build on the command line, or of the site."""

    engine: EngineKind
    outcome: Outcome
    registry: str | None
    locked: Path | None
    offline: Path | None
    base: Path | None
    level: int
    order_from: Path | None
    dry_run: bool


def ready(
    world: "CliContext", settled: "Plan", request: BuildRequest, console: output.Console
) -> "BuildContext":
    """Make a context ready; raises UsageError for what the engine can't, EngineError."""
    from dlcontainer.build.backends.oci_export import ExportTarget
    from dlcontainer.build.context import BuildContext
    from dlcontainer.engines import oci_socket
    from dlcontainer.image import open_trace

    check(request)
    if request.engine != "apptainer" and request.dry_run:
        raise UsageError(
            f"--dry-run shows commands, but builds by {request.engine} go through its socket",
            next_step="use --explain to see what would be built",
        )
    check_compression(request, settled.recipe.image.compression)
    if request.base is not None and settled.recipe.base.image:
        raise UsageError(
            "--base takes a root tree, but this recipe's base is a registry image",
            next_step="leave --base out, or add --set base.kind=tree",
        )
    bundle = fetch.bundle_of(
        world,
        settled,
        console,
        locked=request.locked,
        offline=request.offline,
        dry_run=request.dry_run,
    )
    kind = request.engine
    if bundle is not None and bundle.image is not None and kind != "apptainer":
        raise UsageError(
            f"{kind} can't start from the base image in the bundle",
            why=f"{kind} takes a base only from its registry",
            next_step="use --engine apptainer or, if this host reaches the registry, --locked LOCK",
        )
    return BuildContext(
        execution=world.execution(console),
        templates=tuple(world.resources.template_folders()),
        bundle=bundle,
        base=request.base,
        level=request.level,
        order=open_trace.read(request.order_from) if request.order_from else None,
        oci=None
        if kind == "apptainer"
        else oci_socket.connect(kind, world.environ, world.host.uid),
        export=ExportTarget(
            outcome=request.outcome,
            registry=request.registry,
            plain_http=_is_loopback(request.registry),
        ),
    )


def check(request: BuildRequest) -> None:
    """Refuse words that the engine rules out; raises UsageError."""
    if request.engine == "apptainer" and request.outcome != "sif":
        raise UsageError(
            f"--to {request.outcome}: Apptainer makes only SIFs",
            next_step="use --engine docker or --engine podman",
        )
    if request.engine == "apptainer" and request.registry:
        raise UsageError(
            "--registry works with --engine docker or podman only",
            next_step="use --engine docker or --engine podman",
        )
    if request.engine != "apptainer" and request.order_from:
        raise UsageError(
            "--order-from works with --engine apptainer only",
            why="Docker and Podman build layers",
            next_step="use --engine apptainer",
        )


def check_compression(request: BuildRequest, compression: str) -> None:
    """Refuse an image.compression that the command line rules out; raises UsageError."""
    from dlcontainer.engines.apptainer import LEVEL

    if compression == "lz4" and request.level != LEVEL:
        raise UsageError(
            f"--level {request.level} applies to zstd, but the recipe or the site sets lz4",
            why="lz4 has no levels",
            next_step="leave one of them out: --level, or image.compression",
        )
    if compression == "raw-libraries" and request.engine != "apptainer":
        raise UsageError(
            "image.compression: raw-libraries works with --engine apptainer only",
            why="Docker and Podman build layers",
            next_step="use --engine apptainer, or --set image.compression=lz4",
        )


def _is_loopback(registry: str | None) -> bool:
    host = (registry or "").partition("/")[0].rpartition(":")[0]
    return host in {"127.0.0.1", "localhost", "[::1]"}
