"""What a base image's name says of it: a framework, a Python, a distribution. Nothing is fetched.

Sources: hub.docker.com, "Supported tags" of python, debian and ubuntu; the catalogue of nvcr.io.
"""

import re

from dlcontainer.authoring.foreign.image_words import StatedBase

# Images of a framework -> the package that the parent recipes are chosen by.
_FRAMEWORKS = {
    "pytorch/pytorch": "torch",
    "pytorchlightning/pytorch_lightning": "torch",
    "nvcr.io/nvidia/pytorch": "torch",
    "rocm/pytorch": "torch",
    "tensorflow/tensorflow": "tensorflow",
    "nvcr.io/nvidia/tensorflow": "tensorflow",
    "rocm/tensorflow": "tensorflow",
    "nvcr.io/nvidia/jax": "jax",
    "rocm/jax": "jax",
    "mxnet/python": "mxnet",
    "nvcr.io/nvidia/mxnet": "mxnet",
}
# Images of a device's libraries on a distribution: the variant of a site brings its own.
_DEVICES = frozenset(
    {"nvidia/cuda", "nvcr.io/nvidia/cuda", "nvidia/cudagl", "rocm/dev-ubuntu-22.04"}
    | {"rocm/dev-ubuntu-24.04"}
)
_RELEASES = {
    "debian": (("bookworm", r"bookworm|12"), ("trixie", r"trixie|13")),
    "ubuntu": (("jammy", r"jammy|22\.?04"), ("noble", r"noble|24\.?04")),
}
_LONGEST = 512
_PREFIXES = ("docker.io/library/", "index.docker.io/library/", "docker.io/", "library/")
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9]+(?:[._/:-]+[a-z0-9]+)*?)(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
NEXT = (
    "start from python:3.12, debian, ubuntu, pytorch/pytorch or the like, or name the recipe to "
    "put the packages on: --extends RECIPE"
)


def stated(image: str, origin: str) -> StatedBase | None:
    """Return what an image's name says; None where it says nothing that a recipe has."""
    match = _IMAGE.fullmatch(image) if len(image) <= _LONGEST else None
    if match is None:
        return None
    name, tag = match["name"], match["tag"] or ""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    base = StatedBase(image=image, origin=origin)
    if name in _FRAMEWORKS:
        return StatedBase(image=image, origin=origin, wish=_FRAMEWORKS[name])
    if name == "python":
        minor = re.match(r"(3\.\d{1,2})(?![\d])", tag)
        python = f"=={minor[1]}.*" if minor else None
        return StatedBase(image=image, origin=origin, python=python)
    if name in _RELEASES:
        return StatedBase(image=image, origin=origin, distribution=_release(name, tag))
    if name in _DEVICES:
        return StatedBase(image=image, origin=origin, distribution=_release("ubuntu", image))
    return base if name in ("buildpack-deps",) else None


def unknown(image: str, origin: str) -> StatedBase:
    """Return a base of which nothing is known, for a file whose parent recipe was chosen."""
    return StatedBase(image=image, origin=origin)


def _release(name: str, tag: str) -> tuple[str, str] | None:
    for release, spellings in _RELEASES[name]:
        if re.search(rf"(?:^|[^0-9a-z.])(?:{name})?(?:{spellings})(?![0-9])", tag):
            return name, release
    return None
