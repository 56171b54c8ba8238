"""`dlcontainer push`: an image and its evidence to an OCI registry."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dlcontainer.image.licensing.redistribution import TermsFinding


def push(
    image: trust_options.Image,
    place: trust_options.Place,
    login: trust_options.Login = None,
    ca: trust_options.Ca = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Push an image with the evidence beside it, and print its digest."""
    from dlcontainer.cli.context import here
    from dlcontainer.evidence import pieces, signing
    from dlcontainer.evidence import push as pushing
    from dlcontainer.image import sif
    from dlcontainer.system import foreign_files

    world = here()
    path = options.image_file(image)
    sif.arch(path)  # what is no image at all goes nowhere
    loaded = trust_options.site_of(world, site)
    client = trust_options.client(world, loaded, place, login=login, ca=ca, pushes=True)
    if client.reference.digest is not None:
        raise UsageError(
            "can't push to a digest",
            why="a push computes the digest",
            next_step=f"give a tag: oras://{client.reference.name}:TAG",
        )
    console = output.Console(verbose=verbose, quiet=as_json)
    with foreign_files.opened(path) as file:
        console.step(f"read {path.name}")
        opened_image = signing.opened(path, file.fileno(), note=console.phase)
    if (
        opened_image.record is not None
        and f'"{opened_image.subject.sha256}"'.encode() not in opened_image.record
    ):
        raise ChecksFailedError(
            f"{path} does not match its record", next_step="build it again, or copy it again"
        )
    restricted = terms_of(path)
    for line in terms_lines(path, restricted):
        console.note(line)
    with client, console.beating():
        evidence = list(pieces.loaded(opened_image.offers, pieces.RefusalNotes(tell=console.note)))
        done = pushing.push(
            path, f"sha256:{opened_image.subject.sha256}", evidence, client, console
        )
    where = f"oras://{client.reference.name}@{done.digest}"
    if as_json:
        body: dict[str, object] = {
            "image": str(path),
            "reference": where,
            "tag": client.reference.tag,
        }
        body["redistribution"] = None if restricted is None else list(map(asdict, restricted))
        output.emit("push", {**body, "digest": done.digest, "evidence": list(done.evidence)})
        return
    output.copied(where)


def terms_of(image: "Path") -> "Sequence[TermsFinding] | None":
    """List what of an image is not free to pass on, by its bill; None where nothing tells it."""
    from dlcontainer.image import bill_file

    bill = bill_file.of_image(image)
    return None if bill is None else bill_file.restricted(bill)


def terms_lines(image: "Path", restricted: "Sequence[TermsFinding] | None") -> list[str]:
    """Write what others should know before they get an image."""
    if restricted is None:
        missing = f"{image.name} has no bill of materials that tells what may not be passed on"
        return [f"{missing}: dlcontainer inspect {image}"]
    return [f"before others get it: {output.printable(finding.text)}" for finding in restricted]
