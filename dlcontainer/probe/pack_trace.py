"""Name the files that an import opens beside the pack: they lie first in the image. Python >= 3.6.

Run by path, `python -IB pack_trace.py OUT MODULE`, in a process of its own that has the pack: what
it reads of Python's start, what the import opens and what it maps, as lists in a file of JSON.
"""

import json
import os
import site
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import pack_imports

del sys.path[0]

# Of no import: the kernel's, what a build binds or empties, and this program.
BOUND = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/mnt", "/.singularity.d")
OUTSIDE = tuple(folder + "/" for folder in (HERE,) + BOUND)
LOADER = "_dlcontainer_pack"


def start():
    """Name the files that Python reads before the pack is in use, and to begin with it."""
    paths = [sys.executable, sys.prefix + "/pyvenv.cfg", "/etc/ld.so.cache"]
    for folder in site.getsitepackages():
        if folder in sys.path:
            paths += [os.path.join(folder, name) for name in os.listdir(folder) if is_line(name)]
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location:
            has_code = spec.cached and os.path.isfile(spec.cached)
            paths.append(spec.cached if has_code else spec.origin)
        if name == LOADER:
            break
    return paths


def is_line(name):
    """Tell whether a file's name says that its lines are run at the start."""
    return name.endswith(".pth")


def mapped():
    """Name the files that this process has mapped: programs, libraries, the pack."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        fields = [line.rstrip("\n").split(None, 5) for line in lines]
    return [words[5] for words in fields if len(words) == 6]


def kept(paths):
    """Give the files among the paths that an image can hold, each once, in the order of names.

    Not in that of opening: a set of names is gone through in another order each time.
    """
    # A build without subordinate ids preloads a library that is of no image.
    foreign = set(map(os.path.basename, os.environ.get("LD_PRELOAD", "").replace(":", " ").split()))
    real = {os.path.realpath(path) for path in paths if isinstance(path, str) and path[:1] == "/"}
    inside = [path for path in real if path.isprintable() and not path.startswith(OUTSIDE)]
    files = [path for path in inside if os.path.isfile(path)]
    return sorted(path for path in files if os.path.basename(path) not in foreign)


def main(out, module):
    """Import a module and write what was opened, however the import ends."""
    before, opened = start(), []

    def note(event, arguments):
        if event == "open":
            opened.append(arguments[0])

    getattr(sys, "addaudithook", pack_imports.nothing)(note)  # Python 3.6 and 3.7 have none
    pack_imports.told(lambda: __import__(module))
    body = {"start": kept(before), "opened": kept(opened), "mapped": kept(mapped())}
    with open(out, "w") as file:
        json.dump(body, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
