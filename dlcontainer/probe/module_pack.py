"""Import this environment's packed folders from one file: docs/use/importing.md. Python >= 3.6.

A hook for those folders alone; whatever is not as it was at the build is left to the usual finder.
A folder counts where its time is the build's, and is its time of change too: so it is in an image
(SquashFS keeps one time), and never where somebody can write.

The head of the file: DLCPACK1, Python's magic number, 1 for a private copy that may be writable,
the sizes of file and index, the SHA-256 of all but itself. Nothing here may end an import.
"""

import marshal
import mmap
import os
import sys

import _frozen_importlib_external as external

HERE = os.path.dirname(__file__)
PACK = os.path.join(HERE, "_dlcontainer_pack.bin")
DATA, INDEX = memoryview(b""), {}
finder_of = external.PathFinder._path_importer_cache


class PackLoader(external.SourceFileLoader):
    """Take a module's code out of the pack; its source and data are the files themselves."""

    def get_code(self, fullname):
        """Give the code; the file's, where something is wrong with the pack's."""
        try:
            return external._compile_bytecode(DATA[self.code], fullname, PACK, self.path)
        except Exception:
            return super(PackLoader, self).get_code(fullname)


class PackFinder(external.FileFinder):
    """Answer for a folder from the index, as long as the folder is the one of the build."""

    def find_spec(self, fullname, target=None):
        """Find a module in the pack, or by the usual finder if there is a file of its name."""
        kind, file, start, stop = self.names.get(fullname.rpartition(".")[2], ("", "", 0, 0))
        path = self.path + "/" + file
        below = [os.path.dirname(path)] if kind == "package" else None
        if not file or below and not isinstance(finder_of(below[0]), PackFinder):
            return super(PackFinder, self).find_spec(fullname, target) if kind else None
        loader = PackLoader(fullname, path)
        loader.code = slice(start, stop)
        spec = external.spec_from_file_location
        # An extension has no code here, and the usual loader.
        return spec(fullname, path, loader=loader if stop else None, submodule_search_locations=below)


def hook(folder):
    """Make the finder of a packed folder, unless it is another one than at the build."""
    try:
        stamp, names = INDEX[folder]
        seen = os.stat(folder)
    except (KeyError, OSError):
        raise ImportError(folder) from None
    # Where one can write, the time of change is that of the writing: it is no stamp of ours.
    times = (seen.st_mtime, seen.st_mtime if DATA[12] else seen.st_ctime)
    if times != (stamp, stamp):
        raise ImportError(folder)
    finder = PackFinder(folder, *external._get_supported_file_loaders())
    finder.names = names
    return finder


def install():
    """Put the hook in; give the reason where there is none."""
    global DATA
    with open(PACK, "rb") as file:
        DATA = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    size, index = (int.from_bytes(DATA[at : at + 8], "little") for at in (16, 24))
    if sys.flags.optimize or DATA[:12] != b"DLCPACK1" + external.MAGIC_NUMBER or size != len(DATA):
        return "it is for another Python or without -O, or has a wrong size"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        points = {line.split()[4] for line in lines}
    points.update(list(map(os.path.dirname, points)))
    real, join, plain = os.path.realpath(HERE), os.path.join, os.path.normpath
    # From here, so that an environment that was moved has its pack; mounts have real paths.
    for folder, (stamp, place, names) in marshal.loads(DATA[64 : 64 + index]).items():
        if plain(join(real, place)) not in points:
            INDEX[plain(join(HERE, folder))] = stamp, names
    sys.path_importer_cache.clear()
    sys.path_hooks.insert(0, hook)


try:
    WHY = install()
except Exception as problem:  # a start without the pack is a slower one, and no more
    WHY = repr(problem)
if WHY and sys.flags.verbose:
    sys.stderr.write("# dlcontainer: no module pack: {}\n".format(WHY))
