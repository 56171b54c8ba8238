"""Which files the modules of a pack come from: each is imported in a process of its own.

What ends an import (an error, an exit, a signal, the time limit) ends that process alone, and the
others are packed. No import reaches a network: the same tree gives the same modules. Python >= 3.6.
"""

import errno
import importlib
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import traceback

FRAMEWORKS = ("torch", "tensorflow", "mxnet")  # those of probe_train.py
LIMIT_S = 300
FIRST, LATER = 0, 1


def all_of(modules, step):
    """Give {module: (file, byte code's file, when)} of all that is loaded, and why some failed.

    When: FIRST for the modules of an import, LATER for those that only a training step loads.
    """
    roots = sorted({os.path.realpath(entry) for entry in sys.path if os.path.isdir(entry)})
    work = [(name, FIRST, lambda name=name: importlib.import_module(name)) for name in modules]
    trained = [name for name in modules if name in FRAMEWORKS] if step else []
    work += [("a step of " + name, LATER, lambda name=name: train(name)) for name in trained[:1]]
    known, failed = {}, {}
    for name, when, task in work:
        told = apart(task)
        if told["error"]:
            failed[name] = told["error"]
            print("pack: {} failed, what it had imported is packed: {}".format(name, told["error"]))
        for module, files in told["modules"].items():
            if module not in known and below(os.path.realpath(files[0]), roots):
                known[module] = (files[0], files[1], when)
    return known, failed


def below(path, roots):
    """Tell whether a file is of one of the folders that Python was started with."""
    return any(path.startswith(root + "/") for root in roots)


def apart(task):
    """Do something in a process of its own; give its error and the modules that it has then."""
    with tempfile.TemporaryFile("w+") as out:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(LIMIT_S)
                out.write(json.dumps(told(task)))
                out.flush()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        text = out.read()
    if text:
        return json.loads(text)
    number = status & 0x7F
    why = "not done after {} s".format(LIMIT_S)
    return {
        "error": why if number == signal.SIGALRM else "killed by signal {}".format(number),
        "modules": {},
    }


def told(task):
    """Do something without a network; give its error and the modules that are loaded then."""
    error = ""
    getattr(sys, "addaudithook", nothing)(_no_network)  # Python 3.6 and 3.7 have none
    try:
        task()
    except BaseException as problem:  # an import can end in any way, SystemExit included
        traceback.print_exc()
        error = "{}: {}".format(type(problem).__name__, problem)
    return {"error": error, "modules": _files()}


def nothing(_hook):
    """Take the place of what an older Python has not."""


def _no_network(event, arguments):
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo"}:
        if event != "socket.getaddrinfo" and isinstance(arguments[1], (str, bytes)):
            return  # a socket of this machine
        raise OSError(errno.ENETUNREACH, "no network while modules are packed")


def _files():
    files = {}
    for name, module in sorted(sys.modules.items()):
        try:
            spec = module.__spec__ or _found(name)
            if spec.has_location and spec.name == name and spec.origin:
                files[name] = (spec.origin, spec.cached)
        except Exception:  # a module that makes its attributes itself
            continue
    return files


def _found(name):
    # It has put something else in its place (torch.backends): as the next import finds it.
    parent = sys.modules[name.rpartition(".")[0]] if "." in name else None
    path = parent.__path__ if parent else None
    return None if name == "__main__" else importlib.machinery.PathFinder.find_spec(name, path)


def opened_by(modules):
    """Name the files that imports with the pack open, in the order in which an image has them.

    Python's start, what it opens, what it maps; one that ends its process has no part in it.
    """
    groups = {"start": set(), "opened": set(), "mapped": set()}
    for name in modules:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "opened.json")
            _traced(name, out)
            try:
                with open(out) as file:
                    for group, paths in json.load(file).items():
                        groups[group].update(paths)
            except (OSError, ValueError):
                print("pack: no order of files for {}: its import ended the process".format(name))
    known = {}
    for group in ("start", "opened", "mapped"):
        known.update((path, None) for path in sorted(groups[group]) if path not in known)
    return list(known)


def _traced(name, out):
    # A Python of its own, which begins with the pack; this one has begun without.
    tracer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pack_trace.py")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(LIMIT_S)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)  # what it says was told when it was packed
            os.dup2(nowhere, 2)
            os.execv(sys.executable, [sys.executable, "-IB", tracer, out, name])
        finally:
            os._exit(1)
    os.waitpid(child, 0)


def train(framework):
    """Train the first step of the network that `bench train` trains."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import probe_train
    import ranks

    line = ["--framework", framework, "--steps", "1", "--warmup", "1", "--batch", "2"]
    wanted = probe_train.options(line + ["--device", "cpu"])
    wanted.place, wanted.meeting = ranks.place(), None
    trainer = importlib.import_module("train_" + framework).Trainer(wanted)
    trainer.step(0)
    trainer.settle()
