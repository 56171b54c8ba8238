"""Device code against GPUs: the rules one by one, and against a formulation of their own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.planning import device_code
from dlcontainer.planning.device_code import CodeFit

NATIVE, RELATED, COMPILED = CodeFit.NATIVE, CodeFit.RELATED, CodeFit.COMPILED


@pytest.mark.parametrize(
    ("code", "target", "fit"),
    [
        ("sm_80", "sm_80", NATIVE),
        ("sm_86", "sm_89", RELATED),
        ("sm_80", "sm_86", RELATED),
        ("sm_60", "sm_61", RELATED),
        ("sm_100", "sm_103", RELATED),
        ("sm_120", "sm_121", RELATED),
        # A lower minor, and another major version.
        ("sm_86", "sm_80", None),
        ("sm_89", "sm_86", None),
        ("sm_80", "sm_90", None),
        ("sm_90", "sm_100", None),
        ("sm_100", "sm_120", None),
        # Embedded parts take their own, and give it to no other.
        ("sm_80", "sm_87", None),
        ("sm_86", "sm_87", None),
        ("sm_87", "sm_89", None),
        ("sm_87", "sm_87", NATIVE),
        ("sm_70", "sm_72", None),
        ("sm_72", "sm_75", None),
        ("sm_100", "sm_101", None),
        ("sm_101", "sm_103", None),
        ("sm_110", "sm_110", NATIVE),
        # `a` is for this very GPU, `f` for its family.
        ("sm_90a", "sm_90", NATIVE),
        ("sm_100a", "sm_103", None),
        ("sm_103a", "sm_100", None),
        ("compute_90a", "sm_90", COMPILED),
        ("compute_90a", "sm_100", None),
        ("sm_100f", "sm_100", NATIVE),
        ("sm_100f", "sm_103", RELATED),
        ("sm_100f", "sm_120", None),
        ("sm_103f", "sm_100", None),
        ("compute_100f", "sm_103", COMPILED),
        ("compute_100f", "sm_120", None),
        ("compute_100f", "sm_110", None),
        # PTX goes forward, embedded parts too, never back.
        ("compute_80", "sm_80", COMPILED),
        ("compute_80", "sm_120", COMPILED),
        ("compute_80", "sm_87", COMPILED),
        ("compute_90", "sm_89", None),
        ("sm_90+PTX", "sm_120", COMPILED),
        ("sm_90+PTX", "sm_90", NATIVE),
        ("sm_90+PTX", "sm_89", None),
        ("gfx90a", "gfx90a", NATIVE),
        ("gfx90a", "gfx908", None),
        ("gfx908", "gfx90a", None),
        ("gfx942", "gfx950", None),
        ("gfx9-generic", "gfx906", RELATED),
        ("gfx9-generic", "gfx90c", RELATED),
        # gfx9-generic does not hold the data centre parts from gfx908 on.
        ("gfx9-generic", "gfx908", None),
        ("gfx9-generic", "gfx90a", None),
        ("gfx9-4-generic", "gfx942", RELATED),
        ("gfx9-4-generic", "gfx950", RELATED),
        ("gfx9-4-generic", "gfx90a", None),
        ("gfx10-1-generic", "gfx1030", None),
        ("gfx10-3-generic", "gfx1030", RELATED),
        ("gfx11-generic", "gfx1100", RELATED),
        ("gfx11-generic", "gfx1201", None),
        ("gfx12-generic", "gfx1201", RELATED),
        ("gfx90a:xnack-", "gfx90a", NATIVE),
        ("gfx90a:xnack+", "gfx90a", None),
        ("gfx90a:xnack+", "gfx90a:xnack+", NATIVE),
        ("gfx90a:xnack-", "gfx90a:xnack+", None),
        ("gfx90a", "gfx90a:sramecc+:xnack-", NATIVE),
        ("gfx90a:sramecc+:xnack-", "gfx90a", NATIVE),
        ("gfx908:sramecc-", "gfx908", None),
        ("gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", NATIVE),
        ("gfx9-4-generic:xnack-", "gfx942:xnack+", None),
        ("gfx9-4-generic:xnack-", "gfx942:xnack-", RELATED),
        ("sm_90", "gfx90a", None),
        ("gfx90a", "sm_90", None),
        ("pvc", "pvc", NATIVE),
        ("spir64", "pvc", COMPILED),
        ("spir64", "sm_90", None),
        ("weird", "sm_90", None),
        ("sm_90", "weird", None),
    ],
)
def test_code_on_a_gpu(code: str, target: str, fit: CodeFit | None) -> None:
    match = device_code.best([code], target)
    assert (match.fit if match else None) == fit


@pytest.mark.parametrize(
    ("codes", "target", "code"),
    [
        (["sm_80", "sm_86", "sm_89"], "sm_89", "sm_89"),
        (["sm_80", "sm_86", "compute_80"], "sm_89", "sm_86"),
        (["compute_70", "compute_90", "sm_70"], "sm_100", "compute_90"),
        (["sm_80+PTX"], "sm_90", "compute_80"),
        (["gfx9-4-generic", "gfx942"], "gfx942", "gfx942"),
    ],
)
def test_the_best_of_several(codes: list[str], target: str, code: str) -> None:
    match = device_code.best(codes, target)
    assert match is not None
    assert match.code == code
    assert code in match.words


@pytest.mark.parametrize(
    ("target", "vendor"),
    [("sm_90", "nvidia"), ("compute_90", "nvidia"), ("gfx90a:xnack-", "amd"), ("pvc", None)],
)
def test_vendors(target: str, vendor: str | None) -> None:
    assert device_code.vendor_of(target) == vendor


# The same rule again, from sets of what runs: each device lists all code that it takes.
MINORS = {5: "02", 6: "01", 7: "05", 8: "069", 9: "0", 10: "03", 12: "01"}
EMBEDDED = ("53", "62", "72", "87", "88", "101", "110")
DEVICES = [f"{major}{minor}" for major, minors in MINORS.items() for minor in minors]


def taken(device: str) -> set[str]:
    """List every cubin and PTX that a GPU takes, by walking through all there are."""
    order = sorted((*DEVICES, *EMBEDDED), key=int)
    takes = {f"sm_{device}", f"sm_{device}a", f"compute_{device}a", f"sm_{device}f"}
    family = [other for other in order if other[:-1] == device[:-1] and int(other) <= int(device)]
    takes |= {f"compute_{other}f" for other in family}
    if device not in EMBEDDED:
        on_its_side = [other for other in family if other not in EMBEDDED]
        takes |= {f"sm_{other}{suffix}" for other in on_its_side for suffix in ("", "f")}
    return takes | {f"compute_{other}" for other in order if int(other) <= int(device)}


CODE = st.builds(
    lambda kind, number, suffix: f"{kind}_{number}{suffix}",
    st.sampled_from(["sm", "compute"]),
    st.sampled_from([*DEVICES, *EMBEDDED]),
    st.sampled_from(["", "", "", "a", "f"]),
)


@given(codes=st.lists(CODE, max_size=6), device=st.sampled_from([*DEVICES, *EMBEDDED]))
def test_what_is_taken_runs_and_nothing_that_runs_is_missed(codes: list[str], device: str) -> None:
    match = device_code.best(codes, f"sm_{device}")
    runs = taken(device) & set(codes)
    assert (match is not None) == bool(runs)
    if match is not None:
        assert match.code in runs
        native = re.compile(rf"sm_{device}[af]?")
        assert (match.fit == NATIVE) == any(native.fullmatch(code) for code in runs)
        assert (match.fit == COMPILED) == (not any(code.startswith("sm_") for code in runs))
