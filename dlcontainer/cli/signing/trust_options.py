"""What the commands share: whose signatures count, what is demanded, and the way to a registry."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.evidence.image_signature import SignatureEngine
    from dlcontainer.evidence.keys import SigningKey
    from dlcontainer.evidence.kinds import Kind
    from dlcontainer.evidence.policy import EvidenceDemand
    from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey
    from dlcontainer.publish.offered import PublishCandidate
    from dlcontainer.publish.signed import SignatureDemand
    from dlcontainer.registry.artifacts import ArtifactClient
    from dlcontainer.sites.site import Site

_WHO, _REGISTRY = "Signers", "Registry"

Image = Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file (.sif).")]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="[ROLE,…=]FILE",
        help="A signer's public key in PEM; bench=FILE counts only for that evidence "
        "(docs/centre/signing.md).",
        rich_help_panel=_WHO,
    ),
]
Roots = Annotated[
    Path | None,
    typer.Option(
        "--certificate-roots",
        metavar="FILE",
        help="Root certificates in PEM; signers whose certificates these roots issued count.",
        rich_help_panel=_WHO,
    ),
]
Certificates = Annotated[
    list[Path] | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="A signer's certificate, if none came with the evidence.",
        rich_help_panel=_WHO,
    ),
]
Keyrings = Annotated[
    list[Path] | None,
    typer.Option("--pgp", metavar="FILE", help="A file of PGP public keys.", rich_help_panel=_WHO),
]
RequireSigned = Annotated[
    bool,
    typer.Option(
        "--require-signed",
        help="Refuse an image without a signature by one of these signers.",
        rich_help_panel=_WHO,
    ),
]
RequireEvidence = Annotated[
    str | None,
    typer.Option(
        "--require-evidence",
        metavar="KIND,…",
        help="Refuse an image without signed evidence of these kinds, e.g. validate,bench.",
        rich_help_panel=_WHO,
    ),
]
PrivateKey = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="A private key in PEM.", rich_help_panel=_WHO),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="The key's certificate, stored with the evidence.",
        rich_help_panel=_WHO,
    ),
]
PassphraseFd = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        metavar="N",
        help="Read the key's passphrase from this file descriptor.",
        rich_help_panel=_WHO,
    ),
]
Place = Annotated[
    str,
    typer.Argument(
        metavar="oras://REF", help="Reference in a registry: HOST/NAME[:TAG][@sha256:DIGEST]."
    ),
]
Login = Annotated[
    Path | None,
    typer.Option(
        "--login",
        metavar="FILE",
        help="File with USER:PASSWORD, or file of `docker login`; its mode must be 0600.",
        rich_help_panel=_REGISTRY,
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="CA certificate of the registry, in PEM. Default: the site's.",
        rich_help_panel=_REGISTRY,
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Signers:
    """Whose signatures count, and what is demanded, as the command line says."""

    keys: list[str] | None
    roots: Path | None
    keyrings: list[Path] | None
    signed: bool
    evidence: str | None

    @property
    def are_named(self) -> bool:
        """Whether the command line names any, whatever it demands of them."""
        return bool(self.keys or self.roots or self.keyrings)


def site_of(world: "CliContext", site: str | None) -> "Site | None":
    """Load the site, if one was named."""
    return world.site(site).value if site else None


def trust_of(
    site: "Site | None",
    *,
    keys: Iterable[str] | None = None,
    roots: Path | None = None,
    certificates: Iterable[Path] | None = None,
    keyrings: Iterable[Path] | None = None,
) -> "TrustAnchors":
    """Read whose signatures count: those that are named, else the site's."""
    from dlcontainer.evidence import keys as reading
    from dlcontainer.evidence.trust_anchors import TrustAnchors, TrustedKey

    if keys or roots or keyrings:
        return TrustAnchors(
            keys=tuple(map(_trusted, keys or ())),
            roots=reading.read_file(roots) if roots else None,
            certificates=tuple(map(reading.read_file, certificates or ())),
            keyrings=tuple(map(reading.read_file, keyrings or ())),
        )
    if site is None:
        return TrustAnchors()
    anchors = site.trust
    # Whoever could write these files could sign as anybody.
    return TrustAnchors(
        keys=tuple(
            TrustedKey(
                key=reading.read_public(Path(key_file.file), must_own=True), roles=key_file.roles
            )
            for key_file in anchors.keys
        ),
        roots=reading.read_file(Path(anchors.certificate_roots), must_own=True)
        if anchors.certificate_roots
        else None,
        certificates=tuple(map(reading.read_file, certificates or ())),
        keyrings=tuple(reading.read_file(Path(path), must_own=True) for path in anchors.keyrings),
    )


def _trusted(text: str) -> "TrustedKey":
    """Read [ROLE,…=]FILE; raises UsageError for an unknown role."""
    from dlcontainer.config.field_types import KEY_ROLES
    from dlcontainer.evidence import keys
    from dlcontainer.evidence.trust_anchors import TrustedKey

    head, equals, name = text.partition("=")
    # A folder's name may have a '=' too.
    if not equals or "/" in head or Path(text).exists():
        return TrustedKey(key=keys.read_public(Path(text)))
    words = [word.strip() for word in head.split(",")]
    for word in words:
        if word not in KEY_ROLES:
            raise UsageError(
                f"--key {text}: {word!r} is not a role of a key",
                next_step=f"use one or more of {', '.join(KEY_ROLES)}; for a file of that "
                f"name, --key ./{text}",
            )
    roles = tuple(role for role in KEY_ROLES if role in words)
    return TrustedKey(key=keys.read_public(Path(name)), roles=roles)


def demand_of(site: "Site | None", evidence: str | None, *, signed: bool) -> "EvidenceDemand":
    """Return what is demanded by the command line and by the site, together."""
    from dlcontainer.evidence.policy import EvidenceDemand

    demanded = kinds_of(evidence)
    if site is None:
        return EvidenceDemand(signed=signed, kinds=demanded)
    kinds = dict.fromkeys((*demanded, *site.trust.require_evidence))
    return EvidenceDemand(signed=signed or site.trust.require_signed, kinds=tuple(kinds))


def kinds_of(text: str | None) -> "tuple[Kind, ...]":
    """Read a list of kinds; raises UsageError for an unknown one."""
    from dlcontainer.evidence.kinds import KINDS

    names = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in names:
        if word not in KINDS:
            raise UsageError(
                f"{word!r} is not a kind of evidence", next_step=f"use one of: {', '.join(KINDS)}"
            )
    return tuple(kind for kind in KINDS if kind in names)


def engine(world: "CliContext", console: output.Console) -> "SignatureEngine":
    """Find the engine that signs and verifies; raises EngineError."""
    from dlcontainer.engines import apptainer
    from dlcontainer.evidence.image_signature import SignatureEngine
    from dlcontainer.system.process import ProcessRunner, Runner

    def start(inherited: tuple[int, ...]) -> Runner:
        echo = console.line if console.verbose else None
        return ProcessRunner(environ=world.environ, echo=echo, inherited=inherited)

    return SignatureEngine(
        program=apptainer.find(world.environ),
        start=start,
        environ=world.environ,
        scratch=world.scratch,
    )


def note_unasked(demand: "EvidenceDemand", console: output.Console, signers: Signers) -> None:
    """Say so where signers are named on the command line, and nothing is demanded of them."""
    if demand.is_empty and signers.are_named:
        console.note(
            "nothing is verified: a signer is named without --require-signed or --require-evidence"
        )


def asking(
    trust: "TrustAnchors", demand: "EvidenceDemand", world: "CliContext", console: output.Console
) -> "SignatureDemand | None":
    """Return what a release in a tree is held against; None where nothing is demanded."""
    from dlcontainer.publish.signed import SignatureDemand

    if demand.is_empty:
        return None
    return SignatureDemand(
        trust=trust, demand=demand, engine=lambda: engine(world, console), note=console.phase
    )


def verifier(
    demand: "SignatureDemand | None", console: output.Console
) -> "Callable[[PublishCandidate], Mapping[str, bytes]] | None":
    """Return the check of what is offered, before all else; None where nothing is demanded."""
    if demand is None:
        return None

    def verify(candidate: "PublishCandidate") -> "Mapping[str, bytes]":
        console.step(f"verify {candidate.path.name}: signature and evidence")
        verified = demand.of_offered(candidate)
        for text in verified.refused:
            console.note(f"does not count: {text}")
        return {name: data for piece in verified.evidence for name, data in piece.files.items()}

    return verify


def private_key(path: Path, passphrase_fd: int | None) -> "SigningKey":
    """Read a private key; its passphrase comes by a descriptor, never by an argument."""
    from dlcontainer.evidence import keys

    passphrase = read_passphrase(passphrase_fd)
    return keys.read_private(path, passphrase.encode() if passphrase is not None else None)


def read_passphrase(number: int | None) -> str | None:
    """Read one line from a descriptor that the caller opened; raises UsageError."""
    if number is None:
        return None
    try:
        with os.fdopen(os.dup(number), "rb") as file:
            return file.readline(4096).decode().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"--passphrase-fd {number}: can't read a passphrase from this descriptor",
            next_step="open it for the command: --passphrase-fd 3 3<FILE",
        ) from None


def client(
    world: "CliContext",
    site: "Site | None",
    place: str,
    *,
    login: Path | None,
    ca: Path | None,
    pushes: bool,
) -> "ArtifactClient":
    """Return the way to a place in a registry, with the site's proxies and CA."""
    from dlcontainer.evidence import artifact
    from dlcontainer.packages.proxies import proxies_of
    from dlcontainer.packages.routing import ca_of
    from dlcontainer.registry import login as logins
    from dlcontainer.registry.artifacts import ArtifactClient
    from dlcontainer.registry.connection import RegistryAccess
    from dlcontainer.sites.routing import Routing

    reference = artifact.reference(place)
    if ca is not None and not ca.is_file():
        raise UsageError(f"--ca {ca}: no such file", next_step="give the CA's PEM file")
    routing = site.routing if site else Routing()
    access = RegistryAccess(
        proxies=proxies_of(routing, world.host),
        ca=ca or ca_of(routing, world.host),
        plain_http=routing.plain_http,
        # Who names a CA speaks TLS.
        loopback_tls=ca is not None,
        # Of a whole image a registry takes the digest before it answers.
        silence_s=120.0,
    )
    credentials = logins.read(login, reference.address) if login else None
    return ArtifactClient(reference=reference, access=access, login=credentials, pushes=pushes)
