"""Made-up wheels for pins whose own index may be out of reach: with a local part, or installed.

`torch==2.13.0+cpu` is on its framework's index alone. The parent's pins are complete by themselves,
so a wheel without dependencies stands in for it: no index is asked, and no other build's libraries
come along. It never reaches an image. What is installed in an image stands in for itself.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from dlcontainer.packages.resolve.resolution import ParentPin


def version_of(pin: ParentPin) -> Version:
    """Return the version of a pin."""
    (specifier,) = pin.requirement.specifier
    return Version(specifier.version)


def write(pins: Iterable[ParentPin], folder: Path) -> list[Path]:
    """Write a wheel for each pin that has a local part or is installed; return them."""
    folder.mkdir(exist_ok=True)
    return [_write(pin, folder) for pin in pins if pin.installed or version_of(pin).local]


def _write(pin: ParentPin, folder: Path) -> Path:
    name, version = pin.requirement.name, version_of(pin)
    stem = f"{name.replace('-', '_').replace('.', '_')}-{version}"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"{line}\n" for line in pin.extras),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: dlcontainer\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        "RECORD": "",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in texts.items():
            # A fixed time: the same pin is the same file.
            wheel.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}"), text)
    return path
