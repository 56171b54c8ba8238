"""What was done to this Python before and beside the work. Standard library, Python >= 3.6.

An audit hook can't be asked for; what it costs shows in the calibration kernels alone.
"""

import gc
import glob
import hashlib
import os
import re
import signal
import sys
import threading

_START_FILES = ("sitecustomize", "usercustomize")


def facts(folder=None):
    """Give the collector, the hooks, the files that Python runs at its start, and byte code.

    `folder` is this probe's own, which nowhere has byte code.
    """
    folder = folder or os.path.dirname(os.path.abspath(__file__))
    return {
        "collector": {"on": gc.isenabled(), "thresholds": list(gc.get_threshold())},
        "hooks": hooks(folder),
        "start_files": start_files(),
        "pth_files": pth_files(sys.path),
        "byte_code_percent": byte_code_percent(folder),
        "byte_code_checked": byte_code_checked(),
        "options": {
            "x": sorted(str(name) for name in sys._xoptions),
            "warnings": list(sys.warnoptions),
            "cache_prefix": getattr(sys, "pycache_prefix", None),
            "switch_interval_s": sys.getswitchinterval(),
        },
        "python_threads": threads(),
    }


def threads():
    """Name each thread of this Python, without numbers; a pool once, which grows with its work."""
    pools = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
    found = [(re.sub("[0-9]+", "#", one.name), one in pools) for one in threading.enumerate()]
    named = [name for name, is_pool in found if not is_pool]
    return sorted(named + ["pool " + name for name in {name for name, is_pool in found if is_pool}])


def hooks(folder=""):
    """Name what runs at each call, line or import."""
    import builtins

    found = {
        "trace": name_of(sys.gettrace()),
        "profile": name_of(sys.getprofile()),
        "thread_trace": name_of(getattr(threading, "_trace_hook", None)),
        "thread_profile": name_of(getattr(threading, "_profile_hook", None)),
        "import": name_of(builtins.__import__),
        "meta_path": [name_of(finder) for finder in sys.meta_path],
        "path_hooks": [name_of(hook) for hook in sys.path_hooks],
        "timers": timers(),
        "tracemalloc": "tracemalloc" in sys.modules and sys.modules["tracemalloc"].is_tracing(),
    }
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    if monitoring is not None:
        found["monitoring"] = [monitoring.get_tool(number) for number in range(6)]
    return found


def timers():
    """Name the timers that interrupt this process again and again, as sampling profilers do."""
    names = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
    return [name for name in names if any(signal.getitimer(getattr(signal, name)))]


def name_of(hook):
    """Name a hook by its module and type, never by its address; None where there is none."""
    if hook is None:
        return None
    kind = hook if isinstance(hook, type) or hasattr(hook, "__qualname__") else type(hook)
    module = getattr(hook, "__module__", None) or kind.__module__
    return "{}.{}".format(module, kind.__qualname__)


def start_files():
    """Give a digest of each module that Python runs by itself at its start."""
    found = {}
    for name in _START_FILES:
        module = sys.modules.get(name)
        if module is not None:
            found[name] = _digest(getattr(module, "__file__", None) or "")
    return found


def pth_files(entries):
    """Give a digest of the lines that run code, for each .pth file that has some.

    Its other lines are paths, which are attested as sys.path.
    """
    found = {}
    for entry in entries:
        if os.path.basename(entry) in ("site-packages", "dist-packages"):
            for path in sorted(glob.glob(os.path.join(entry, "*.pth"))):
                code = [line for line in _lines(path) if line.startswith((b"import ", b"import\t"))]
                if code:
                    found[os.path.basename(path)] = hashlib.sha256(b"".join(code)).hexdigest()[:16]
    return found


def _lines(path):
    try:
        with open(path, "rb") as file:
            return file.read().splitlines(True)
    except OSError:
        return []


def byte_code_percent(folder):
    """Give the share of modules from source files that have their byte code; None without any."""
    total = ready = 0
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        origin, cached = getattr(spec, "origin", None), getattr(spec, "cached", None)
        if not isinstance(origin, str) or not isinstance(cached, str):
            continue
        if origin.endswith(".py") and not origin.startswith(folder + "/"):
            total += 1
            ready += os.path.exists(cached)
    return int(round(100.0 * ready / total)) if total else None


def byte_code_checked():
    """Count the modules whose byte code has each import read and hash the source (PEP 552)."""
    paths = [getattr(module, "__cached__", None) for module in list(sys.modules.values())]
    return sum(_flags(path) == 3 for path in paths if isinstance(path, str))


def _flags(path):
    try:
        with open(path, "rb") as file:
            return int.from_bytes(file.read(8)[4:], "little")
    except OSError:
        return 0


def _digest(path):
    return hashlib.sha256(b"".join(_lines(path))).hexdigest()[:16]
