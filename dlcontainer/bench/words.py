"""The closed sets of a benchmark's command line, where importing them costs nothing."""

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
