"""The verify script of a recipe that was made from a file: it imports what was asked for."""

from collections.abc import Sequence

NAME = "verify.py"
# Runs inside images: standard library, syntax of Python 3.6.
_TEXT = '''\
"""Prove that this image has what was asked for: import each of its modules.

Made by dlcontainer from a file of packages. Prints one JSON object; exits 1 when an import fails.
Add what your programs rely on: a result that is known, a file that is read.
"""

import importlib
import json
import sys

MODULES = [
{modules}]


def main():
    failed = []
    for name in MODULES:
        try:
            importlib.import_module(name)
        except BaseException as error:  # modules raise what they like, SystemExit too
            failed.append("import {{}}: {{}}: {{}}".format(name, type(error).__name__, error))
    what = "; ".join(failed) or "imports of {{}}".format(", ".join(MODULES) or "nothing")
    print(json.dumps({{"ok": not failed, "what": what}}, sort_keys=True))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def text(modules: Sequence[str]) -> str:
    """Return the script for these modules, which are dotted identifiers."""
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"no module's name: {module!r}")
    return _TEXT.format(modules="".join(f'    "{module}",\n' for module in modules))
