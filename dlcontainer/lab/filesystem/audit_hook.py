"""Counts what a Python opens and lists, by audit hooks; written as a sitecustomize.py.

It is run by the counted Python, whichever that is: standard library only, Python 3.8 syntax.
"""

import atexit
import json
import os
import sys

_opened: "dict[str, int]" = {}
_listed: "dict[str, int]" = {}


def _hook(event: str, arguments: "tuple[object, ...]") -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        _opened[path] = _opened.get(path, 0) + 1
    elif event in {"os.listdir", "os.scandir"}:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes)) else "."
        _listed[path] = _listed.get(path, 0) + 1


def _write(folder: str) -> None:
    target = os.path.join(folder, f"{os.getpid()}.json")  # noqa: PTH118 - as few imports as can be
    with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump({"opened": _opened, "listed": _listed}, file)


def _begin() -> None:
    folder = os.environ.get("DLCONTAINER_AUDIT")
    if folder:
        atexit.register(_write, folder)
        sys.addaudithook(_hook)


_begin()
