"""A Python of /opt/base, as an image may have it, and wheels for it."""

from pathlib import Path

from dlcontainer.authoring.extension.interpreter import PythonPaths
from dlcontainer.authoring.extension.layer_rules import BelowLayer
from dlcontainer.authoring.extension.wheel_files import LayerFile, WheelPlan

SITE = "/opt/base/lib/python3.11/site-packages"
DEBIAN = "/usr/lib/python3/dist-packages"
PYTHON = "/opt/base/bin/python"
PATHS = PythonPaths(
    python="3.11",
    implementation="cpython",
    purelib=SITE,
    platlib=SITE,
    scripts="/opt/base/bin",
    data="/opt/base",
    path=(SITE, DEBIAN),
)
EVIL = WheelPlan(
    file=Path("evil-1.0-py3-none-any.whl"),
    name="evil",
    version="1.0",
    sha256="0" * 64,
    info=f"{SITE}/evil-1.0.dist-info",
    is_asked=True,
)


def below(*paths: str, **links: str) -> BelowLayer:
    """An image of these files, with the folders above them; `links` are paths without "/"."""
    kinds = dict.fromkeys(paths, "-")
    for path in paths:
        above = path.rpartition("/")[0]
        while above:
            kinds.setdefault(above, "d")
            above = above.rpartition("/")[0]
    kinds |= {f"/{name}": "l" for name in links}
    return BelowLayer(kinds=kinds, sites=(SITE, DEBIAN), scripts="/opt/base/bin")


def files(*paths: str) -> list[LayerFile]:
    return [LayerFile(path=path, wheel=EVIL) for path in paths]
