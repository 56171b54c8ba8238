"""The kernels probe: single operations of deep networks, by shape and precision. Python >= 3.6.

The rows come from the session, as JSON: how often each is repeated in a visit, and its parameters
(kernel, precision, layer, shape, threads). The framework is a module kernels_NAME.py with a class
Kernels, made from (device, threads, precisions):
- `framework`: the module that is attested.
- `make(parameters)`: an operation: `act()` runs it, `check()` gives how many values were right and
  raises rows.WrongError, `timed(repeats)` gives the seconds of each repetition.
- `libraries(operations)`: the libraries and kernels that ran, a text for each; untimed.
- `close()`: leave the process as it was.
"""

import argparse
import importlib
import json
import time

import accelerator
import hand_over
import rows

FRAMEWORKS = ("torch",)


def options(arguments, name):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe " + name)
    parser.add_argument("--rows", type=json.loads, required=True, help="[[REPEATS, {...}], ...]")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=accelerator.DEVICES, default="cpu")
    parser.add_argument("--framework", choices=FRAMEWORKS, default=FRAMEWORKS[0])
    return parser.parse_args(arguments)


def named(parameters):
    """Name a row in the attestation; a dot would lead into nested facts."""
    words = [str(value) for name, value in parameters.items() if name not in ("layer", "threads")]
    return " ".join(words).replace(".", "_") + " x{}".format(parameters["threads"])


def run(arguments, stamps, name="kernels"):
    """Measure and report; `stamps` are those of this process until now, ns."""
    wanted = options(arguments, name)
    module = importlib.import_module("kernels_" + wanted.framework)
    stamps["import"] = _now()
    listed = [parameters for _, parameters in wanted.rows]
    precisions = sorted({row["precision"] for row in listed})
    kernels = module.Kernels(wanted.device, wanted.threads, precisions)
    made = {named(row): kernels.make(row) for row in listed}
    repeats = {named(row): number for number, row in wanted.rows}
    checked = {key: operation.check() for key, operation in made.items()}
    stamps["checked"] = _now()
    libraries = kernels.libraries(made.values())
    stamps["libraries"] = _now()
    begin = time.perf_counter()
    found = rows.measured(
        listed, wanted.rounds, wanted.seed,
        lambda row: checked[named(row)], lambda row: made[named(row)].timed(repeats[named(row)]),
    )  # fmt: skip
    values = {"wall_s": time.perf_counter() - begin}
    stamps["rows"] = _now()
    kernels.close()
    hand_over.report(
        name,
        stamps,
        values,
        workload={"rows": len(listed), "rounds": wanted.rounds, "seed": wanted.seed,
                  "device": wanted.device, "framework": wanted.framework},
        rows=found,
        framework=kernels.framework,
        attested={"kernel_libraries": dict(zip(made, libraries))},
    )  # fmt: skip


def _now():
    return int(time.time() * 1e9)
