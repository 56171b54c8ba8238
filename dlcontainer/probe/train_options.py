"""The train probe's command line: what can be trained, with what. Python >= 3.6."""

import argparse

FRAMEWORKS = ("torch", "tensorflow", "mxnet")
# framework -> ways to train on several ranks, the first is the usual one
WAYS = {"torch": ("ddp", "horovod"), "tensorflow": ("tensorflow", "horovod")}
# The small network that every framework has; the others are those of workloads_NAME.py.
RESIDUAL = "residual"
WORKLOADS = {
    "torch": (
        "convnet", "caffenet", "alexnet", "googlenet", "resnet50", "tiramisu", "deeplabv3plus",
        "transformer",
    )
}  # fmt: skip
PRECISIONS = ("fp32", "bf16", "fp16")
OPTIMIZERS = ("sgd", "lars", "larc")


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe train")
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    parser.add_argument("--workload", metavar="NAME", default=RESIDUAL, help="a network's name")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0])
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default=OPTIMIZERS[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    for name in ("--batch", "--size", "--width"):
        parser.add_argument(name, type=int, default=0, help="0: the device's usual one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--distributed", metavar="WAY", help="ranks train together, e.g. ddp")
    parser.add_argument("--baton", metavar="FOLDER", help="where the pipes lie: see baton.py")
    parser.add_argument("--process", metavar="NAME", default="", help="this process's pipes")
    parser.add_argument("--cpus", default="", help="the processors that it is bound to, e.g. 0,2")
    wanted = parser.parse_args(arguments)
    problem = _problem(wanted)
    if problem:
        parser.error(problem)
    return wanted


def _problem(wanted):
    """Say which options are incompatible; empty where none are."""
    name, ways = wanted.framework, WAYS.get(wanted.framework, ())
    if wanted.distributed and wanted.distributed not in ways:
        return "--distributed {}: for {} there is {}".format(
            wanted.distributed, name, ways or "none"
        )
    known = (RESIDUAL,) + WORKLOADS.get(name, ())
    if wanted.workload not in known:
        return "--workload {}: for {} there is {}".format(wanted.workload, name, ", ".join(known))
    if wanted.workload != RESIDUAL and (wanted.size or wanted.width):
        return "--size, --width: those of {} are published".format(wanted.workload)
    plain = (wanted.precision, wanted.optimizer) == (PRECISIONS[0], OPTIMIZERS[0])
    if name not in WORKLOADS and not plain:
        return "--precision {}, --optimizer {}: for {} there is {} and {}".format(
            wanted.precision, wanted.optimizer, name, PRECISIONS[0], OPTIMIZERS[0]
        )
    if wanted.precision == "fp16" and wanted.distributed == "horovod":
        # Its gradients are averaged inside the optimizer's step, behind the look for overflow.
        return "--precision fp16: its scaled losses are not written for horovod; take ddp"
    return ""


def unsaid(wanted):
    """Name what a report leaves out, as those of probes without workloads do: the usual ones."""
    usual = {"workload": RESIDUAL, "optimizer": OPTIMIZERS[0]}
    return [name for name, value in usual.items() if getattr(wanted, name) == value]
