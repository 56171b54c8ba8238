"""The backend of the engine that builds: Apptainer's on a tree, or Docker's and Podman's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dlcontainer.build import file_order
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.backends.backend import BuildBackend
from dlcontainer.build.backends.oci_backend import OciBackend, OciWork
from dlcontainer.build.backends.oci_export import ExportedImage, OciExporter, SifPacker
from dlcontainer.build.backends.sif_backend import ApptainerBackend, ApptainerTools
from dlcontainer.build.base import oci_base
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.context import BuildContext, BuildRun, BuildStart, speaks_plain_http
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.formats import apptainer
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import source_date


@contextmanager
def opened(
    plan: Plan, context: BuildContext, origin: BuildStart, run: BuildRun
) -> Iterator[BuildBackend]:
    """Hand out the backend of the engine that builds."""
    if context.oci is None:
        yield _sandbox(plan, context, origin, run)
        return
    exporter = OciExporter(
        target=context.export,
        packer=SifPacker(execution=context.execution, squash=context.squash(plan)),
        folder=run.folders.work,
        log=run.folders.log,
        on_line=run.steps.line,
    )
    work = _oci_work(plan, context, origin, run)
    with oci_backend.opened(context.oci, work, exporter) as backend:
        yield backend


def delivered(backend: BuildBackend) -> ExportedImage | None:
    """Return where a finished image of Docker's or Podman's went; None for Apptainer's."""
    return backend.delivered if isinstance(backend, OciBackend) else None


def recaller(
    plan: Plan, context: BuildContext, *, quiet: bool = False
) -> Callable[[str], CachedStep | None]:
    """Return what looks a step's kept result up, by key; `quiet` if the build looks again later."""
    if context.oci is None:
        return context.step_cache(plan.site.engine, quiet=quiet).recall
    return OciStore(client=context.oci, arch=plan.site.arch).recall


def _oci_work(plan: Plan, context: BuildContext, origin: BuildStart, run: BuildRun) -> OciWork:
    execution, base = context.execution, origin.base
    image = plan.recipe.base.reference
    if isinstance(base, BaseTree):
        packed, key = base.path, base.sha256
        return OciWork(
            plan=plan,
            base=lambda folder: oci_base.tar(packed, folder, execution.host, execution.runner),
            base_key=key,
            binds=origin.routed.binds,
            folder=run.folders.work,
            log=run.folders.log,
            on_line=run.steps.line,
        )
    return OciWork(
        plan=plan,
        base=image.source if image else base.name,
        base_key=base.platform_digest,
        binds=origin.routed.binds,
        folder=run.folders.work,
        log=run.folders.log,
        on_line=run.steps.line,
        plain_http=speaks_plain_http(plan, origin.routed),
    )


def _sandbox(
    plan: Plan, context: BuildContext, origin: BuildStart, run: BuildRun
) -> ApptainerBackend:
    """Make Apptainer's backend ready."""
    host, work = context.execution.host, run.folders.work
    if isinstance(origin.base, BaseTree):
        # A link, not a copy: the definition names a file beside it.
        (work / origin.base.path.name).symlink_to(origin.base.path)
    return ApptainerBackend(
        plan=plan,
        tools=_tools(context, origin, run),
        cache=context.step_cache(plan.site.engine),
        work=work,
        origin=apptainer.origin(plan, carried(origin)),
        arch=None if plan.site.arch == host.arch else OCI_ARCH[plan.site.arch],
        plain_http=speaks_plain_http(plan, origin.routed),
        routing=origin.routed.binds,
        text=context.text(plan),
        squash=context.squash(plan),
        arrange=file_order.arranger(
            context.order,
            context.execution.progress.note,
            has_pack=plan.has_pack,
            raw_libraries=plan.recipe.image.compression == "raw-libraries",
        ),
        moment=source_date(host.environ),
    )


def carried(origin: BuildStart) -> str | None:
    """Name the folder of a carried image, beside the definition that names it."""
    if isinstance(origin.base, BaseTree) or origin.base.layout is None:
        return None
    return origin.base.layout.name


def _tools(context: BuildContext, origin: BuildStart, run: BuildRun) -> ApptainerTools:
    execution, routed = context.execution, origin.routed
    pull: dict[str, str] = {}
    if routed.ca is not None and not isinstance(origin.base, BaseTree):
        # The engine itself goes out: it pulls the base.
        pull["SSL_CERT_FILE"] = str(routed.ca)
    proxies = {**routed.environment, **{k.upper(): v for k, v in routed.environment.items()}}
    return ApptainerTools(
        engine=execution.engine,
        mode=execution.build_mode,
        step_mode=context.step_mode,
        step_prefix=context.step_prefix,
        version=execution.capabilities.version.rpartition(" ")[2],
        environ={**execution.host.environ, **proxies, **pull},
        runner=execution.runner,
        background=run.background,
        on_line=run.steps.line,
        log=run.folders.log,
    )
