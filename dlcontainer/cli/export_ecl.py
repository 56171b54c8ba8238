"""`dlcontainer export ecl`: which images Apptainer may run, for root of a cluster."""

from pathlib import Path
from typing import Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.modules import tree_options
from dlcontainer.cli.modules.tree_options import Root


def ecl(
    target: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for both files.")
    ],
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="FINGERPRINT",
            help="PGP key that signs images (40 hexadecimal digits); may be repeated. "
            "Default: any key of the engine's global keyring.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--all-keys", help="Require signatures of all keys, not just of one.")
    ] = False,
    root: Root = None,
    site: options.OptionalSite = None,
    as_json: options.Json = False,
) -> None:
    """Write Apptainer's execution control list and container limits for a published tree."""
    from dlcontainer.publish import ecl as limiting
    from dlcontainer.system import report_files

    where = tree_options.chosen(root, site)
    limits = limiting.read(where.root, keys or (), "whitestrict" if strict else "whitelist")
    files = {limiting.ECL: limiting.ecl(limits), limiting.LIMITS: limiting.apptainer_conf(limits)}
    written = report_files.write_folder(files, target)
    if as_json:
        body = {
            "root": str(where.root),
            "files": list(map(str, written)),
            "releases": [image.digest for image in limits.images],
            "unsigned": [image.digest for image in limits.images if image.is_tree],
            "keys": list(limits.keys),
        }
        output.emit("export-ecl", body)
        return
    for path in written:
        output.copied(str(path), before="wrote ")
    output.say(
        "next: have root copy both into the engine's etc/apptainer (docs/centre/published-tree.md)"
    )
