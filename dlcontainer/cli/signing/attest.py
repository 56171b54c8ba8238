"""`dlcontainer evidence attest`: what was found out about an image, signed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.evidence.signing import EvidenceSource


def attest(
    image: trust_options.Image,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND=FILE…",
            help="Files to sign: validate=FILE, proof=FILE, bench=FILE, report=FILE, "
            "record=FILE, bill=FILE.",
        ),
    ],
    key: Annotated[
        Path,
        typer.Option(
            "--key", metavar="FILE", help="A private key in PEM.", rich_help_panel="Signers"
        ),
    ],
    certificate: trust_options.Certificate = None,
    passphrase_fd: trust_options.PassphraseFd = None,
    as_json: options.Json = False,
) -> None:
    """Sign files as evidence about an image, and put them beside it."""
    from dlcontainer.evidence import keys, signing

    sources = [_source(text) for text in files]
    for source in sources:
        _require_whole(source)
    path = options.image_file(image)
    sealer = signing.Sealer(
        key=trust_options.private_key(key, passphrase_fd),
        certificate=keys.read_file(certificate) if certificate else None,
    )
    names = signing.attest(path, sources, sealer)
    if as_json:
        output.emit("attest", {"image": str(path), "evidence": names})
        return
    for name in names:
        output.say(f"attested: {path.with_suffix('.evidence').name}/{name}")


def _source(text: str) -> "EvidenceSource":
    from dlcontainer.evidence.signing import EvidenceSource

    word, equals, name = text.partition("=")
    kinds = trust_options.kinds_of(word)
    if not (equals and name and len(kinds) == 1):
        raise UsageError(
            f"{text!r} is not KIND=FILE", next_step="write, for example, bench=session.jsonl"
        )
    return EvidenceSource(kind=kinds[0], path=Path(name))


def _require_whole(source: "EvidenceSource") -> None:
    """Read what has a reader of its own: an edited session or proof is not signed."""
    if source.kind == "bench":
        from dlcontainer.bench.samples import reader

        reader.read(source.path)
    elif source.kind == "proof":
        from dlcontainer.proof import proof

        proof.read(source.path)
