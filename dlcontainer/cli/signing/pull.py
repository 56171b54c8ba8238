"""`dlcontainer pull`: an image and its evidence from an OCI registry, verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.signing import trust_options, verify
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.evidence.pull import PullResult


def pull(
    place: trust_options.Place,
    target: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Image file to write (.sif).")
    ],
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    certificate: trust_options.Certificates = None,
    pgp: trust_options.Keyrings = None,
    require_signed: trust_options.RequireSigned = False,
    require_evidence: trust_options.RequireEvidence = None,
    login: trust_options.Login = None,
    ca: trust_options.Ca = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Pull an image with its record and evidence; keep nothing that fails verification."""
    from dlcontainer.cli.context import here
    from dlcontainer.evidence import pull as pulling

    world = here()
    path = _new_file(target)
    loaded = trust_options.site_of(world, site)
    trust = trust_options.trust_of(
        loaded, keys=key, roots=certificate_roots, certificates=certificate, keyrings=pgp
    )
    demand = trust_options.demand_of(loaded, require_evidence, signed=require_signed)
    console = output.Console(verbose=verbose, quiet=as_json)
    verifies = not (trust.is_empty and demand.is_empty)
    client = trust_options.client(world, loaded, place, login=login, ca=ca, pushes=False)
    context = pulling.PullContext(
        client=client,
        trust=trust,
        demand=demand,
        engine=trust_options.engine(world, console) if verifies else None,
        runner=console.runner(world.environ),
        progress=console,
    )
    with client, console.beating():
        done = pulling.pull(path, context)
    _show(path, done, client.reference.name, verifies=verifies, as_json=as_json)


def _show(path: Path, done: "PullResult", name: str, *, verifies: bool, as_json: bool) -> None:
    where = f"oras://{name}@{done.digest}"
    if as_json:
        body = {"image": str(path), "reference": where, "digest": done.digest}
        more = {"sha256": done.sha256, "verified": verifies, **verify.summary(done.verified)}
        output.emit("pull", {**body, **more})
        return
    verify.show(done.verified)
    if not verifies:
        output.finding("note", "nothing was verified: no --key, --certificate-roots or --pgp")
        trusted = f"dlcontainer adopt {path} --site SITE --trust"
        output.finding("note", f"the image runs contained until you trust it: {trusted}")
    output.copied(where)


def _new_file(target: Path) -> Path:
    if target.suffix != ".sif":
        raise UsageError(
            f"-o {target}: the name of an image must end in .sif",
            next_step=f"-o {target.with_suffix('.sif')}",
        )
    if not target.absolute().parent.is_dir():
        raise UsageError(
            f"-o {target}: there is no folder {target.absolute().parent}",
            next_step="create it, or name a file in another folder",
        )
    return target.absolute()
