"""The bench on which an image grows, of the engine that builds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dlcontainer.build import context as shop
from dlcontainer.build import file_order
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.backends.apptainer import Sandbox, Tools
from dlcontainer.build.backends.backend import Kept, Workbench
from dlcontainer.build.backends.oci_backend import OciBench, OciWork
from dlcontainer.build.backends.oci_export import Delivered, Deliverer, Packer
from dlcontainer.build.base import oci_base
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.context import Workshop
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.engines.apptainer import squash
from dlcontainer.formats import apptainer
from dlcontainer.packages.routing import Routed
from dlcontainer.planning.plan import Plan
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.system.background import Beside
from dlcontainer.system.machine import source_date
from dlcontainer.system.progress import Steps


@contextmanager
def opened(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, BaseTree | BaseImage, Beside],
    places: tuple[Path, Path],
    progress: Steps,
) -> Iterator[Workbench]:
    """Hand out the bench of the engine that builds; `places` are a private folder and the log."""
    if workshop.oci is None:
        yield _sandbox(plan, workshop, origin, places, progress)
        return
    work = _oci_work(plan, workshop, origin[:2], places, progress)
    packer = Packer(
        engine=workshop.engine,
        trial=workshop.trial,
        host=workshop.host,
        runner=workshop.runner,
        squash=squash(workshop.level),
    )
    deliverer = Deliverer(route=workshop.delivery, packer=packer, on_line=progress.line)
    with oci_backend.opened(workshop.oci, work, deliverer) as bench:
        yield bench


def delivered(bench: Workbench) -> Delivered | None:
    """Say where a finished image of Docker's or Podman's went; None for Apptainer's."""
    return bench.delivered if isinstance(bench, OciBench) else None


def recaller(
    plan: Plan, workshop: Workshop, *, quiet: bool = False
) -> Callable[[str], Kept | None]:
    """Give what looks a step's kept result up, by key; `quiet` if the build looks again later."""
    if workshop.oci is None:
        return shop.step_cache(plan, workshop, quiet=quiet).recall
    return OciStore(client=workshop.oci, arch=plan.site.arch).recall


def _oci_work(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, BaseTree | BaseImage],
    places: tuple[Path, Path],
    progress: Steps,
) -> OciWork:
    work, log = places
    routed, made_of = origin
    image = plan.recipe.base.reference
    if isinstance(made_of, BaseTree):
        packed, key = made_of.path, made_of.sha256
        return OciWork(
            plan=plan,
            base=lambda folder: oci_base.tar(packed, folder, workshop.host, workshop.runner),
            base_key=key,
            binds=routed.binds,
            folder=work,
            log=log,
            on_line=progress.line,
        )
    return OciWork(
        plan=plan,
        base=image.source if image else made_of.name,
        base_key=made_of.platform_digest,
        binds=routed.binds,
        folder=work,
        log=log,
        on_line=progress.line,
        plain_http=image is not None and shop.way(plan, routed).is_plain(image.address),
    )


def _sandbox(
    plan: Plan,
    workshop: Workshop,
    origin: tuple[Routed, BaseTree | BaseImage, Beside],
    places: tuple[Path, Path],
    progress: Steps,
) -> Sandbox:
    """Make Apptainer's bench ready."""
    work, log = places
    routed, tree, beside = origin
    image = plan.recipe.base.reference
    pull: dict[str, str] = {}
    if isinstance(tree, BaseTree):
        # A link, not a copy: the definition names a file beside it.
        (work / tree.path.name).symlink_to(tree.path)
    elif routed.ca is not None:
        # The engine itself goes out: it pulls the base.
        pull["SSL_CERT_FILE"] = str(routed.ca)
    proxies = {**routed.environment, **{k.upper(): v for k, v in routed.environment.items()}}
    return Sandbox(
        plan=plan,
        tools=Tools(
            engine=workshop.engine,
            mode=workshop.mode,
            step_mode=workshop.step_mode,
            step_prefix=workshop.step_prefix,
            version=workshop.trial.version.rpartition(" ")[2],
            environ={**workshop.host.environ, **proxies, **pull},
            runner=workshop.runner,
            beside=beside,
            on_line=progress.line,
            log=log,
        ),
        cache=shop.step_cache(plan, workshop),
        work=work,
        origin=apptainer.origin(plan),
        arch=None if plan.site.arch == workshop.host.arch else OCI_ARCH[plan.site.arch],
        plain_http=image is not None and shop.way(plan, routed).is_plain(image.address),
        routing=routed.binds,
        text=workshop.text(plan),
        squash=squash(workshop.level),
        order=file_order.sorter(workshop.order, workshop.progress.note),
        moment=source_date(workshop.host.environ),
    )
