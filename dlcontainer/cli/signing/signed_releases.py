"""A published tree's live releases, each held against what is demanded of a signed image."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlcontainer.publish.signed import Asking
    from dlcontainer.publish.tree.contents import Fault


def faults(root: Path, asked: "Asking") -> "list[Fault]":
    """Find the releases that are not signed, or have no such evidence."""
    from dlcontainer.errors import ChecksFailedError, PublishError
    from dlcontainer.publish.open_folder import Folder
    from dlcontainer.publish.tree import changes, contents, layout

    found = []
    for listed in changes.listing(root):
        path = str(listed.folder / contents.IMAGE)
        try:
            with (
                Folder.at(root) as top,
                top.sub(layout.RELEASES) as releases,
                releases.sub(listed.entry.digest) as release,
            ):
                asked.held(release)
        except (ChecksFailedError, PublishError) as error:
            why = f"{error.what}: {error.why}" if error.why else error.what
            found.append(contents.Fault(where=path, why=why))
        except (OSError, ValueError) as error:
            found.append(contents.Fault(where=path, why=str(error)))
    return found
