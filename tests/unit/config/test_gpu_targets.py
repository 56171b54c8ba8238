"""GPUs are named as compilers do; another spelling is refused with the right one."""

import pytest

from dlcontainer import config
from dlcontainer.config import gpu_targets
from dlcontainer.errors import ConfigError
from dlcontainer.recipes.stack import Stack
from dlcontainer.recipes.variant import Needs
from dlcontainer.sites.facts import Accelerator

RIGHT = (
    *("sm_70", "sm_90a", "sm_100f", "sm_120", "compute_80", "compute_90a", "sm_90+PTX"),
    *("gfx90a", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", "gfx1030", "gfx9-4-generic"),
    *("pvc", "bmg", "spir64", "a-new-vendor-s", "weird"),
)
OTHERWISE = [
    ("sm90", "sm_90"),
    ("SM_90", "sm_90"),
    ("sm-90", "sm_90"),
    ("sm_9.0", "sm_90"),
    ("sm 90a", "sm_90a"),
    ("9.0", "sm_90"),
    ("90", "sm_90"),
    ("12.0", "sm_120"),
    ("cc9.0", "sm_90"),
    ("compute capability 9.0", "sm_90"),
    ("CUDA 9.0", "sm_90"),
    ("compute90", "compute_90"),
    ("sm_90+ptx", "sm_90+PTX"),
    ("GFX90A", "gfx90a"),
    ("gfx_90a", "gfx90a"),
    ("gfx-942", "gfx942"),
    ("942", "gfx942"),
    ("1030", "gfx1030"),
    ("GFX90A:XNACK-", "gfx90a:xnack-"),
    ("H100", "sm_90"),
    ("NVIDIA A100", "sm_80"),
    ("Tesla V100", "sm_70"),
    ("AMD Instinct MI250X", "gfx90a"),
    ("mi300a", "gfx942"),
    ("PVC", "pvc"),
    ("intel_gpu_pvc", "pvc"),
    ("Ponte Vecchio", "pvc"),
]


@pytest.mark.parametrize("name", RIGHT)
def test_right_names_and_those_of_others_are_taken(name: str) -> None:
    assert gpu_targets.meant(name) == ()
    assert gpu_targets.written_right(name) == name


@pytest.mark.parametrize(("name", "right"), OTHERWISE)
def test_another_spelling_is_refused_with_the_right_one(name: str, right: str) -> None:
    assert gpu_targets.meant(name) == (right,)
    for model, data in (
        (Stack, {"gpu_targets": ["sm_80", name]}),
        (Needs, {"gpu": [name]}),
    ):
        with pytest.raises(ConfigError, match=r"did you mean '") as caught:
            config.validate(config.from_data(data, layer="recipe"), model)
        assert f"did you mean {right!r}?" in str(caught.value)


def test_a_number_that_may_be_of_two_vendors() -> None:
    with pytest.raises(ValueError, match="did you mean 'sm_90a' or 'gfx90a'"):
        gpu_targets.written_right("90a")


def accelerator(vendor: str, target: str) -> Accelerator:
    data = {"vendor": vendor, "model": "X", "per_node": 4, "target": target}
    return config.validate(config.from_data(data, layer="site"), Accelerator)


@pytest.mark.parametrize(
    ("vendor", "target", "said"),
    [
        ("nvidia", "sm90", "target: compilers do not know the name 'sm90'; did you mean 'sm_90'?"),
        (
            "nvidia",
            "compute_90",
            "'compute_90' names code, but this key names a GPU; did you mean 'sm_90'?",
        ),
        ("nvidia", "sm_90+PTX", "did you mean 'sm_90'?"),
        ("nvidia", "hopper-ish", "'target' is not a GPU of nvidia; an example is sm_90"),
        ("nvidia", "sm_1", "'target' is not a GPU of nvidia; an example is sm_90"),
        ("amd", "MI250X", "did you mean 'gfx90a'?"),
        ("amd", "cdna2", "'target' is not a GPU of amd; an example is gfx90a"),
        ("intel", "PVC", "did you mean 'pvc'?"),
    ],
)
def test_a_site_s_gpu(vendor: str, target: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        accelerator(vendor, target)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("vendor", "target"),
    [("nvidia", "sm_90a"), ("amd", "gfx90a:xnack+"), ("intel", "pvc"), ("intel", "next-one")],
)
def test_a_site_s_gpu_rightly_named(vendor: str, target: str) -> None:
    assert accelerator(vendor, target).target == target
