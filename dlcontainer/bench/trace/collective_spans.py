"""What a span of Kineto says of communication: which collective, its bytes, its group. Pure.

gloo's spans (`gloo:all_reduce`) go from a collective's start on its own thread to its end, with the
dimensions and types of its tensors. NCCL's are spans of the kernel on the device, with counts of
elements; of these an all-reduce's were seen (tests/recorded/h100). Where a trace has no operations
they have no counts: PyTorch copies those from an operation.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlcontainer.bench.trace.kineto_events import KinetoSpan

# In PyTorch's words of a tensor's type, and of those of a collective's arguments.
_WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("float", "int", "Float", "Int"), 4),
    **dict.fromkeys(("double", "long int", "c10::complex<float>", "Double", "Long"), 8),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short int", "Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("unsigned char", "signed char", "bool", "Byte", "Char", "Bool"), 1),
    "c10::complex<double>": 16,
}
_HOST = re.compile(r"(?:gloo|mpi|ucc|xccl):(?P<kind>\w+)")
_TO_NCCL = re.compile(r"nccl:(?P<kind>\w+)")
_DEVICE = ("kernel",)
_NCCL = re.compile(r"ncclDevKernel_(?P<kind>[A-Za-z]+)|ncclKernel_(?P<old>[A-Za-z]+)")
_ISSUING = re.compile(r"c10d::|record_param_comms|_?c10d_functional::|(?:gloo|nccl|mpi|ucc|xccl):")
# None of these ends at any rank before it began at all of them.
SYNCHRONOUS = frozenset({"all_reduce", "all_gather", "all_to_all", "reduce_scatter", "barrier"})
_KINDS: Mapping[str, str] = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "recv_any_source": "recv",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveSpan:
    """A collective at a rank: ns in flight, bytes that the rank puts in (None: not told)."""

    kind: str
    bytes: int | None
    begin: int
    end: int
    group: str | None
    is_on_device: bool


def of(span: KinetoSpan) -> CollectiveSpan | None:
    """Return the collective that a span is; None for any other span."""
    on_device = span.category in _DEVICE
    match = (_NCCL if on_device else _HOST).match(span.name)
    if match is None or span.category not in (*_DEVICE, "user_annotation", "cpu_op"):
        return None
    word = next(text for text in match.groups() if text).lower()
    kind, name = _KINDS.get(word, word), span.arguments.get("Process Group Name")
    sent = _counted(span.arguments) if on_device else _shaped(span.arguments)
    return CollectiveSpan(
        kind=kind,
        bytes=0 if kind == "barrier" else sent,
        begin=span.begin,
        end=span.end,
        group=str(name) if name is not None else None,
        is_on_device=on_device,
    )


def issued(span: KinetoSpan) -> CollectiveSpan | None:
    """Return what the host hands to NCCL, by its annotation; None for any other span."""
    match = _TO_NCCL.match(span.name)
    if match is None or span.category != "user_annotation":
        return None
    return CollectiveSpan(
        kind=match["kind"],
        bytes=_shaped(span.arguments),
        begin=span.begin,
        end=span.end,
        group=None,
        is_on_device=False,
    )


def is_issuing(name: str) -> bool:
    """Return whether an operation of the host only starts or awaits communication."""
    return _ISSUING.match(name) is not None


def _counted(arguments: Mapping[str, Any]) -> int | None:
    """Return bytes by the number of elements, as NCCL's spans say them."""
    count, width = arguments.get("In msg nelems"), _WIDTHS.get(str(arguments.get("dtype")))
    if not isinstance(count, int) or count < 0 or width is None:
        return None
    return count * width


def _shaped(arguments: Mapping[str, Any]) -> int | None:
    """Return bytes by the dimensions and types of each tensor."""
    dimensions, types = arguments.get("Input Dims"), arguments.get("Input type")
    if not isinstance(dimensions, list) or not isinstance(types, list):
        return None
    if len(dimensions) != len(types):
        return None
    total = 0
    for sizes, name in zip(dimensions, types, strict=True):
        width = _WIDTHS.get(str(name))
        if width is None or not isinstance(sizes, list):
            return None
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            return None
        total += width * math.prod(sizes)
    return total
