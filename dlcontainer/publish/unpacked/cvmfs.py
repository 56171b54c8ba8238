"""The script that publishes an unpacked image in a repository of CernVM-FS: a text, not run here.

Commands: cvmfs.readthedocs.io, cpt-repo, "Publishing a new Repository Revision". The tree's root
lies in the repository, since modulefiles name it: one transaction has the release and its
generation, and a failed one leaves nothing.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from dlcontainer.config.templating import Text, render_template
from dlcontainer.errors import UsageError
from dlcontainer.system.process import quote

# A domain name: github.com/cvmfs/cvmfs, cvmfs/server.
_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+")
_PARTS = 4  # of /cvmfs/REPOSITORY/FOLDER, its root counted


def script(
    image: Path, site: str, root: Path, templates: Iterable[Path], more: Iterable[str] = ()
) -> str:
    """Write the script for an image; raises UsageError for a root that is in no repository."""
    parts = root.parts
    if len(parts) < _PARTS or parts[1] != "cvmfs" or not _REPOSITORY.fullmatch(parts[2]):
        raise UsageError(
            f"{root} is not in a CernVM-FS repository",
            why="modulefiles contain the root, as the path where users find the tree",
            next_step="give a folder in the repository: --root /cvmfs/REPOSITORY/FOLDER",
        )
    argv = ["dlcontainer", "publish", str(image), "--site", site, "--root", str(root)]
    values = {
        "repository": parts[2],
        "root": str(root),
        "command": Text(quote([*argv, "--layout", "tree", *more])),
        "message": f"dlcontainer publish {image.name}",
    }
    return render_template(list(templates), "publish/cvmfs.sh.j2", values)
