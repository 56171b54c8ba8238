"""The closed sets of a benchmark's command line, and numbers of things; cheap to import."""

from typing import Literal, get_args

Probe = Literal["import", "train"]
ArmName = Literal["native", "unpacked", "container"]
# How an import is shown the native tree.
NativeAs = Literal["tree", "staged", "squashfs"]
Question = Literal["overhead", "deployment"]
# What the train probe knows, by the module's name.
Framework = Literal["torch", "tensorflow", "mxnet"]
FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
# Ranks import when all are there, or each as soon as it can.
Start = Literal["storm", "natural"]
# Ways to train on several ranks, the usual one first; the probe's own list.
WAYS: dict[Framework, tuple[str, ...]] = {
    "torch": ("ddp", "horovod"),
    "tensorflow": ("tensorflow", "horovod"),
}
# The one of them that is a package of its own: usual where the recipe has it.
HOROVOD = "horovod"


def counted(count: int, one: str, more: str = "") -> str:
    """Write a number of things.

    >>> counted(1, "pair"), counted(1200, "pair")
    ('1 pair', '1,200 pairs')
    """
    return f"{count:,} {one}" if count == 1 else f"{count:,} {more or one + 's'}"
