"""Where programs of an image start, and without which of them it is of no use."""

from collections.abc import Sequence
from typing import Any

import pytest

from dlcontainer.image.contents import TreeEntry
from dlcontainer.image.record import ImageMetadata
from dlcontainer.validate.static import start_points
from dlcontainer.validate.static.start_points import StartPoint

FOLDERS = ("/opt/demo/bin", "/usr/local/bin", "/usr/bin")
PROGRAMS = (
    "/opt/demo/bin/python3",
    "/opt/demo/bin/nvcc",
    "/opt/demo/bin/other",
    "/usr/local/bin/mine",
    "/usr/bin/python3",
    "/usr/bin/ls",
    "/srv/bin/elsewhere",
)
STDLIB = ("/opt/demo/lib/python3.11/os.py", "/usr/lib/python3.11/os.py")
SITE = "/opt/demo/lib/python3.11/site-packages"


def entries() -> Sequence[TreeEntry]:
    programs = [TreeEntry(path=path, kind="-", size=99, mode="rwxr-xr-x") for path in PROGRAMS]
    texts = [TreeEntry(path=path, kind="-", size=99, mode="rw-r--r--") for path in STDLIB]
    notes = TreeEntry(path="/opt/demo/bin/README", kind="-", size=99, mode="rw-r--r--")
    return [*programs, *texts, notes]


def offer(**changes: Any) -> ImageMetadata:
    content = {
        "name": "demo",
        "version": "1.0",
        "summary": "A demo",
        "prefix": "/opt/demo",
        "exposes": ["python3", "nvcc", "gone"],
        **changes,
    }
    return ImageMetadata.model_validate(content, strict=False)


def described(points: Sequence[StartPoint]) -> list[tuple[str, str, bool]]:
    return [(point.path, point.kind, point.required) for point in points]


def test_an_image_with_a_record() -> None:
    assert described(list(start_points.programs(entries(), offer(), FOLDERS))) == [
        ("/opt/demo/bin/python3", "python", True),
        ("/usr/bin/python3", "python", False),
        ("/opt/demo/bin/python3", "program", True),
        ("/opt/demo/bin/nvcc", "program", True),
        ("/opt/demo/bin/other", "program", False),
        ("/usr/local/bin/mine", "program", False),
    ]


def test_an_image_of_others() -> None:
    """Its own Python is the one that PATH leads to; nobody says what it is there for."""
    points = described(list(start_points.programs(entries(), None, ("/usr/bin", *FOLDERS))))
    assert points[:2] == [
        ("/usr/bin/python3", "python", True),
        ("/opt/demo/bin/python3", "python", False),
    ]
    assert {required for _, kind, required in points if kind == "program"} == {False}


@pytest.mark.parametrize(
    ("path", "imports", "required"),
    [
        (f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so", None, True),
        (f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so", {"torch": "2.0"}, True),
        (f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so", {"jax": "0.9"}, False),
        (f"{SITE}/tensorflow/python/_pywrap_tensorflow_internal.so", None, True),
        (f"{SITE}/torch/utils/_C.abi3.so", None, False),
        (f"{SITE}/torchvision/_C.so", None, False),
        ("/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", None, False),
        ("/usr/lib/python3/dist-packages/apt_pkg.so", None, False),
        (f"{SITE}/torch/lib/libtorch.so", None, None),
        (f"{SITE}/torch/lib/libtorch.so.2", None, None),
        ("/opt/other/plugin.so", None, None),
    ],
)
def test_extension_modules(path: str, imports: Any, required: bool | None) -> None:
    said = offer(verify={"imports": imports}) if imports else None
    points = list(start_points.modules([TreeEntry(path=path, kind="-", size=99)], said))
    expected = [] if required is None else [(path, "module", required)]
    assert described(points) == expected


def test_a_module_s_own_python() -> None:
    pythons = {
        path: StartPoint(path=path, kind="python", required=False)
        for path in ("/opt/demo/bin/python3", "/usr/bin/python3", "/opt/demo2/bin/python3")
    }
    for path, owner in (
        (f"{SITE}/torch/_C.abi3.so", "/opt/demo/bin/python3"),
        ("/usr/lib/python3/dist-packages/apt_pkg.so", "/usr/bin/python3"),
    ):
        point = start_points.python_of(path, pythons)
        assert point is not None
        assert point.path == owner
    assert start_points.python_of("/srv/lib/python3.11/site-packages/x.so", pythons) is None
