"""`dlcontainer prove`: read the proof that a job left, and hold it against image and site."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.proof.proof import Proof
    from dlcontainer.sites.site import Site


def prove(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PROOF", help="The proof.json that a job's ranks wrote, or its folder."
        ),
    ],
    site: options.OptionalSite = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="IMAGE", help="Image (.sif) that the proof must belong to."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a job proof: devices, ranks, network, bandwidth; exit 1 if one failed or is missing."""
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.image import record
    from dlcontainer.proof import judge, proof
    from dlcontainer.proof.verdict import BAD

    read = proof.read(file)
    written = None
    if image is not None:
        written = record.read(record.beside(image))
        if written is None:
            raise ChecksFailedError(
                f"no {record.beside(image).name} beside {image}",
                next_step=record.copy_too(record.beside(image)),
            )
    case = judge.ProofCase(proof=read, site=_site(read, site), record=written)
    findings = judge.judge(case)
    bad = [finding.name for finding in findings if finding.state in BAD]
    if as_json:
        body = {
            "proof": str(read.path),
            "digest": read.digest,
            "date": read.content.date,
            "ok": not bad,
            "findings": [asdict(finding) for finding in findings],
        }
        output.emit("prove", body)
        raise typer.Exit(1 if bad else 0)
    output.say(f"proof of {read.content.date}, sha256 {read.digest[:12]}…")
    rows = [
        (finding.state.upper() if finding.state in BAD else finding.state, *rest)
        for finding in findings
        for rest in [(finding.name, finding.detail)]
    ]
    output.say(output.table(rows))
    if bad:
        raise ChecksFailedError(
            f"{len(bad)} of {len(findings)} findings failed or are not shown: {', '.join(bad)}",
            next_step="look up each finding in docs/centre/prove.md",
        )


def _site(read: "Proof", name: str | None) -> "Site | None":
    """Load the site that is named, else the one that the proof's image was made for."""
    from dlcontainer.cli.context import here
    from dlcontainer.proof import judge

    made_for = name or judge.target(read)
    return here().site(made_for).value if made_for else None
