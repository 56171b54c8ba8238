"""A published tree's live releases, each held against what is demanded of a signed image."""

from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import output
from dlcontainer.cli.signing import trust_options

if TYPE_CHECKING:
    from dlcontainer.evidence.image_signature import Trust
    from dlcontainer.evidence.policy import Demand
    from dlcontainer.publish.tree.contents import Fault


def faults(root: Path, trust: "Trust", demand: "Demand", console: output.Console) -> "list[Fault]":
    """Find the releases that are not signed, or have no such evidence."""
    from dlcontainer.cli.context import here
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.evidence import folder, policy
    from dlcontainer.publish.staging import EVIDENCE
    from dlcontainer.publish.tree import changes, contents
    from dlcontainer.system import digests, foreign_files

    engine = trust_options.engine(here(), console)
    found = []
    for listed in changes.listing(root):
        path = listed.folder / contents.IMAGE
        try:
            with foreign_files.opened(path, follow=False) as file:
                sha256 = digests.of_open(file)
                record = foreign_files.read(listed.folder / "record.json", 16_000_000)
                given = policy.Given(
                    path=path,
                    image=file.fileno(),
                    subject=policy.subject_of(path, sha256, foreign_files.loads(record)),
                    record=record,
                    pieces=folder.read(listed.folder / EVIDENCE),
                )
                policy.check(given, trust, demand, engine)
        except ChecksFailedError as error:
            why = f"{error.what}: {error.why}" if error.why else error.what
            found.append(contents.Fault(where=str(path), why=why))
        except (OSError, ValueError) as error:
            found.append(contents.Fault(where=str(path), why=str(error)))
    return found
