"""`dlcontainer evidence sign`: a signature into an image, by a key that is given."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.evidence.image_signature import SignatureEngine
    from dlcontainer.evidence.signing import ImageSigner


def sign(
    image: trust_options.Image,
    key: trust_options.PrivateKey = None,
    certificate: trust_options.Certificate = None,
    pgp: Annotated[
        str | None,
        typer.Option(
            "--pgp",
            metavar="FINGERPRINT",
            help="Sign with this PGP key of Apptainer's keyring instead of --key.",
            rich_help_panel="Signers",
        ),
    ] = None,
    keyring: Annotated[
        Path | None,
        typer.Option(
            "--keyring",
            metavar="DIR",
            help="Folder of the PGP keyring. Default: ~/.apptainer/keys.",
            rich_help_panel="Signers",
        ),
    ] = None,
    passphrase_fd: trust_options.PassphraseFd = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Sign an image; with a PEM key, also its record and bill of materials."""
    from dlcontainer.cli.context import here
    from dlcontainer.evidence import signing

    if (key is None) is (pgp is None):
        raise UsageError(
            "exactly one of --key and --pgp is needed",
            why="no key is chosen for you",
            next_step="make a key: openssl genpkey -algorithm ed25519 -out release.key",
        )
    world = here()
    path = options.image_file(image)
    console = output.Console(verbose=verbose, quiet=as_json)
    engine = trust_options.engine(world, console)
    if key is not None:
        hand = _with_key(key, certificate, passphrase_fd, engine)
    else:
        hand = _with_pgp(world, str(pgp), keyring, passphrase_fd, engine)
    signed = signing.sign(path, hand, console.runner(world.environ), console)
    if as_json:
        output.emit("sign", {"image": str(path), "by": hand.by, **asdict(signed)})
        return
    output.say(f"signed by {hand.by}: sha256:{signed.sha256}")


def _with_key(
    key: Path, certificate: Path | None, number: int | None, engine: "SignatureEngine"
) -> "ImageSigner":
    from dlcontainer.evidence import image_signature, keys, signing

    secret = trust_options.private_key(key, number)
    carried = keys.read_file(certificate) if certificate else None
    if carried is not None and keys.of_certificate(carried, str(certificate)).id != (
        secret.public.id
    ):
        raise UsageError(
            f"the certificate {certificate} belongs to another key",
            next_step="give the certificate that was made for this key",
        )
    return signing.ImageSigner(
        put=lambda copy: image_signature.sign_with_key(copy, secret, engine),
        by=f"sha256:{secret.public.id}",
        sealer=signing.Sealer(key=secret, certificate=carried),
    )


def _with_pgp(
    world: "CliContext",
    fingerprint: str,
    keyring: Path | None,
    number: int | None,
    engine: "SignatureEngine",
) -> "ImageSigner":
    from dlcontainer.evidence import image_signature, signing

    ring = keyring or world.host.home / ".apptainer/keys"
    passphrase = trust_options.read_passphrase(number)
    return signing.ImageSigner(
        put=lambda copy: image_signature.sign_with_pgp(
            copy, fingerprint, ring.absolute(), passphrase, engine
        ),
        by=f"pgp:{fingerprint.replace(' ', '').upper()}",
    )
