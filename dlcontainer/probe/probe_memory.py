"""The memory probe: bytes of a rank for each parallel strategy; one process, no device, no data.

Prints one JSON object: a row for each strategy, those that can't be with their reasons, and the
version of PyTorch. Where that can't tell, or a user's script gives no network, `ok` is false and
`refusal` says what, where and what to do. Python >= 3.6.
"""

import argparse
import sys
import time
import warnings

import hand_over
import ranks

# Before each strategy a line tells how far it is.
TOLD = "dlc-memory: "


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe memory")
    parser.add_argument("--strategies", required=True, help="with commas between: dp1,fsdp4")
    parser.add_argument("--workload", default="")
    parser.add_argument("--script", default="", help="FILE:FUNCTION")
    parser.add_argument("--batch", type=int, default=0, help="samples; 0: the network's own")
    parser.add_argument("--micro-batches", type=int, default=0)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="whose sizes")
    return parser.parse_args(arguments)


def run(arguments, stamps):
    """Weigh all strategies and report; `stamps` are those of this process until now, ns."""
    wanted, begin = options(arguments), time.time()
    try:
        import torch
    except ImportError as problem:
        _refuse("torch", "this Python has no torch: {}".format(problem), None, None,
                "take an image with PyTorch in it")  # fmt: skip
        return
    stamps["import"] = int(time.time() * 1e9)
    import memory_torch

    missing = memory_torch.missing()
    if missing:
        _refuse_torch(torch, "it is missing {}".format(missing))
        return
    import memory_build
    import memory_step

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows, refused, names = [], [], wanted.strategies.split(",")
    for number, name in enumerate(names):
        print("{}{} ({} of {})".format(TOLD, name, number + 1, len(names)), flush=True)
        try:
            rows.append(memory_step.row(torch, wanted, name))
        except memory_step.StrategyError as problem:
            refused.append({"strategy": name, "why": str(problem)})
        except memory_build.ScriptError as problem:
            _refuse("script", str(problem), problem.where, problem.why, problem.next_step)
            return
        except Exception as problem:
            # A private module that went another way: no fault of the user's, nor of the network.
            if memory_torch.is_tried(torch.__version__):
                raise
            _refuse_torch(torch, "{}: {}: {}".format(name, type(problem).__name__, problem))
            return
    weighed = {
        "torch": torch.__version__, "tried": memory_torch.is_tried(torch.__version__),
        "rows": rows, "refused": refused,
    }  # fmt: skip
    workload = {"workload": wanted.workload or wanted.script, "batch": wanted.batch}
    hand_over.report(
        "memory", stamps, {"wall_s": time.time() - begin}, workload, framework="torch",
        more={"memory": weighed},
    )  # fmt: skip


def _refuse_torch(torch, reason):
    import memory_torch

    tried = ", ".join(memory_torch.TRIED)
    _refuse(
        "torch",
        "its PyTorch {} can't tell memory without a device: {}".format(torch.__version__, reason),
        None,
        "the forecast takes private modules of PyTorch; tried with {}".format(tried),
        "take an image with one of these versions, or measure a step: dlcontainer bench train",
    )


def _refuse(of, what, where, why, next_step):
    sys.stdout.flush()
    refusal = {"of": of, "what": what, "where": where, "why": why, "next_step": next_step}
    ranks.say({"schema": hand_over.SCHEMA, "probe": "memory", "ok": False, "error": what,
               "refusal": refusal})  # fmt: skip
