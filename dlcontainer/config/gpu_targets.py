"""Names of GPUs as compilers write them, and the right one for a name written otherwise."""

import re
from collections.abc import Mapping

# A GPU or its code: sm_90, sm_90a; compute_90 is PTX, sm_90+PTX both.
NVIDIA = re.compile(r"(sm|compute)_([0-9]{1,3})([0-9])([af]?)(\+PTX)?")
# A processor, in the modes that its name gives; gfx9-4-generic and its like serve several.
AMD = re.compile(r"(gfx[0-9a-z]+(?:-[0-9a-z]+)*)((?::[a-z]+[+-])*)")

_LIKE_NVIDIA = re.compile(
    r"(?P<kind>sm|compute|cc|cuda|(?:compute|cuda) ?capability)?[ _.-]*"
    r"(?P<major>[2-9]|1[0-2])[._]?(?P<minor>[0-9])(?P<suffix>[af]?)(?P<ptx> ?\+ ?ptx)?"
)
_LIKE_AMD = re.compile(
    r"(?:gfx)?[ _-]*(?P<number>(?:9|1[0-9])[0-9][0-9a-c])(?P<modes>(?::[a-z]+[+-])*)"
)
_LIKE_INTEL = re.compile(r"(?:intel[ _-]*)?(?:gpu[ _-]*)?(?P<name>[a-z][a-z0-9-]*)")
# What is sold under a name of its own. Source: NVIDIA, CUDA GPU Compute Capability; AMD, ROCm, GPU
# hardware specifications; Intel, oneAPI DPC++ compiler, ahead-of-time targets (remembered).
_PRODUCTS: Mapping[str, str] = {
    "k80": "sm_37",
    "p100": "sm_60",
    "v100": "sm_70",
    **dict.fromkeys(("t4", "quadrortx5000"), "sm_75"),
    **dict.fromkeys(("a100", "a30"), "sm_80"),
    **dict.fromkeys(("a40", "a10", "a16"), "sm_86"),
    **dict.fromkeys(("l4", "l40", "l40s"), "sm_89"),
    **dict.fromkeys(("h100", "h200", "gh200", "hopper"), "sm_90"),
    **dict.fromkeys(("b100", "b200", "gb200"), "sm_100"),
    **dict.fromkeys(("mi50", "mi60"), "gfx906"),
    "mi100": "gfx908",
    **dict.fromkeys(("mi200", "mi210", "mi250", "mi250x"), "gfx90a"),
    **dict.fromkeys(("mi300", "mi300a", "mi300x", "mi325x"), "gfx942"),
    **dict.fromkeys(("mi350", "mi350x", "mi355x"), "gfx950"),
    **dict.fromkeys(("pontevecchio", "xehpc", "max1100", "max1550"), "pvc"),
}
_MAKER = re.compile(r"^(nvidia|amd|intel)?(instinct|tesla|radeon|datacentergpu)?")
_INTEL = frozenset({"pvc", "bmg", "dg2", "ats-m75", "ats-m150", "spir64"})


def meant(text: str) -> tuple[str, ...]:
    """Return the names that another spelling of a GPU or its code may mean.

    None for a right name, and for one of which nothing is known: a new vendor's is no mistake.
    """
    if NVIDIA.fullmatch(text) or AMD.fullmatch(text) or text in _INTEL:
        return ()
    lower = text.strip().lower()
    bare = _MAKER.sub("", re.sub(r"[ _-]", "", lower))
    if bare in _PRODUCTS:
        return (_PRODUCTS[bare],)
    read = (_as_nvidia(lower), _as_amd(lower), _as_intel(lower))
    return tuple(name for name in read if name is not None)


def _as_nvidia(text: str) -> str | None:
    match = _LIKE_NVIDIA.fullmatch(text)
    if match is None:
        return None
    kind = "compute" if match["kind"] == "compute" else "sm"
    ptx = "+PTX" if match["ptx"] else ""
    return f"{kind}_{match['major']}{match['minor']}{match['suffix']}{ptx}"


def _as_amd(text: str) -> str | None:
    if AMD.fullmatch(text):
        return text
    match = _LIKE_AMD.fullmatch(text)
    return f"gfx{match['number']}{match['modes']}" if match else None


def _as_intel(text: str) -> str | None:
    match = _LIKE_INTEL.fullmatch(text)
    return match["name"] if match and match["name"] in _INTEL else None


def written_right(value: str) -> str:
    """Refuse another spelling of a GPU or its code; raises ValueError with the right one."""
    names = meant(value)
    if names:
        right = " or ".join(map(repr, names))
        raise ValueError(f"compilers do not know the name {value!r}; did you mean {right}?")
    return value


def one_gpu(value: str) -> str:
    """Refuse what names code, or names no GPU as compilers do; raises ValueError."""
    match = NVIDIA.fullmatch(written_right(value))
    if match and (match[1] == "compute" or match[5]):
        gpu = f"sm_{match[2]}{match[3]}"
        raise ValueError(f"{value!r} names code, but this key names a GPU; did you mean {gpu!r}?")
    return value
