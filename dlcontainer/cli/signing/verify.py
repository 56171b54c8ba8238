"""`dlcontainer evidence verify`: whose an image is, and which evidence about it counts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output
from dlcontainer.cli.signing import trust_options

if TYPE_CHECKING:
    from dlcontainer.evidence.policy import PolicyResult


def verify(
    image: trust_options.Image,
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    certificate: trust_options.Certificates = None,
    pgp: trust_options.Keyrings = None,
    site: options.OptionalSite = None,
    require_evidence: trust_options.RequireEvidence = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Verify an image's signature and evidence, with the keys given or the site's."""
    from dlcontainer.cli.context import here
    from dlcontainer.evidence import policy, signing
    from dlcontainer.system import foreign_files

    world = here()
    path = options.image_file(image)
    loaded = trust_options.site_of(world, site)
    trust = trust_options.trust_of(
        loaded, keys=key, roots=certificate_roots, certificates=certificate, keyrings=pgp
    )
    demand = trust_options.demand_of(loaded, require_evidence, signed=True)
    console = output.Console(verbose=verbose, quiet=as_json)
    engine = trust_options.engine(world, console)
    with foreign_files.opened(path) as file:
        opened_image = signing.opened(path, file.fileno(), note=console.phase)
        verified = policy.check(opened_image, trust, demand, engine)
    if as_json:
        body = {"image": str(path), "sha256": opened_image.subject.sha256, **summary(verified)}
        output.emit("verify", body)
        return
    show(verified)


def summary(verified: "PolicyResult") -> Mapping[str, object]:
    """Return what holds, for programs."""
    return {
        "signer": verified.signer.name if verified.signer else None,
        "evidence": [piece.file for piece in verified.evidence],
        "refused": list(verified.refused),
    }


def show(verified: "PolicyResult") -> None:
    """Print what holds, a line each."""
    if verified.signer is not None:
        output.finding("ok", f"signed by {verified.signer.name}")
    for piece in verified.evidence:
        output.finding("ok", f"{piece.kind}: {piece.file}")
    for text in verified.refused:
        output.finding("note", f"does not count: {text}")
