"""A published tree's live releases, each held against what is demanded of a signed image."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlcontainer.publish.signed import SignatureDemand
    from dlcontainer.publish.tree.contents import ReleaseFault


def faults(root: Path, demand: "SignatureDemand") -> "list[ReleaseFault]":
    """Find the releases that are not signed, or have no such evidence."""
    from dlcontainer.errors import ChecksFailedError, PublishError
    from dlcontainer.publish.open_folder import Folder
    from dlcontainer.publish.tree import changes, contents, layout

    unsigned = []
    for live in changes.listing(root):
        path = str(live.folder / contents.IMAGE)
        try:
            with (
                Folder.at(root) as top,
                top.sub(layout.RELEASES) as releases,
                releases.sub(live.folder.name) as release,
            ):
                demand.held(release)
            continue
        except (ChecksFailedError, PublishError) as error:
            why = f"{error.what}: {error.why}" if error.why else error.what
        except (OSError, ValueError) as error:
            why = str(error)
        unsigned.append(contents.ReleaseFault(where=path, why=why, module=live.module))
    return unsigned
