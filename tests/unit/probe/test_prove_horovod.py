"""TensorFlow's ranks meet by Horovod, which must count them as the launcher does."""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE

Group = Callable[..., Any]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    """Make a group of rank 1 of 2, with a Horovod that says what is given."""

    def make(size: int = 2, *, nccl: bool = False, mpi: bool = True, gpus: int = 0) -> Any:
        hvd = SimpleNamespace(
            init=lambda: None,
            size=lambda: size,
            rank=lambda: 1,
            nccl_built=lambda: nccl,
            mpi_enabled=lambda: mpi,
        )
        tensorflow = ModuleType("tensorflow")
        tensorflow.config = SimpleNamespace(  # type: ignore[attr-defined]
            list_physical_devices=lambda _: ["GPU"] * gpus
        )
        horovod = ModuleType("horovod")
        horovod.tensorflow = hvd  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "horovod", horovod)
        monkeypatch.setitem(sys.modules, "horovod.tensorflow", hvd)
        monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
        monkeypatch.syspath_prepend(PROBE)
        sys.modules.pop("prove_horovod", None)
        module = importlib.import_module("prove_horovod")
        return module.Group(SimpleNamespace(rank=1, size=2, local_rank=1))

    yield make
    sys.modules.pop("prove_horovod", None)


@pytest.mark.parametrize(
    ("given", "backend"),
    [
        ({"nccl": True, "gpus": 1}, "nccl"),
        ({"nccl": True}, "mpi"),
        ({"gpus": 1}, "mpi"),
        ({"mpi": False}, "gloo"),
    ],
)
def test_the_way_between_ranks(group: Group, given: dict[str, Any], backend: str) -> None:
    assert group(**given).backend == backend


@pytest.mark.parametrize(
    ("given", "where"), [({"nccl": True, "gpus": 4}, "/GPU:1"), ({"gpus": 4}, "/CPU:0")]
)
def test_each_rank_sums_on_a_device_of_its_own(
    group: Group, given: dict[str, Any], where: str
) -> None:
    assert group(**given).where == where


def test_another_number_of_ranks_is_refused(group: Group) -> None:
    with pytest.raises(RuntimeError, match="Horovod says rank 1 of 1, the launcher rank 1 of 2"):
        group(1)
