"""Write the module pack of this Python's environment: docs/use/importing.md. Python >= 3.6.

Run by path, `python -IB pack_modules.py --report FILE MODULE...`, in the tree that is packed. Each module
is imported in a process of its own, which has no network, and at last a step is trained. The same
tree gives the same bytes: all is sorted, and packed folders get a time that is made of their
content, so that no time of a build is in the pack and a folder that is another one is told by it.
"""

import argparse
import collections
import hashlib
import importlib.util
import json
import marshal
import os
import py_compile
import shutil
import site
import sys
import tempfile

# Isolated, as images are packed: a script's own folder is not on the path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pack_imports

del sys.path[0]

NAME = "_dlcontainer_pack"
HEAD = 64
# Seconds since 1970: stamps lie in 1980 to 1988, before any build.
FIRST, SPAN = 315532800, 2 ** 28
SUFFIXES = tuple(importlib.machinery.all_suffixes())
# A module as its finder has it; its code is empty where it is an extension.
Packed = collections.namedtuple("Packed", "kind file code when")


def digest(data):
    """Give the SHA-256."""
    return hashlib.sha256(data).hexdigest()


def read(path):
    """Give a file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def byte_code(origin, cached):
    """Give the code that a plain import would take from a file beside the source, else nothing."""
    try:
        raw, info = read(cached), os.stat(origin)
    except (OSError, TypeError):
        return b""
    if raw[:4] != importlib.util.MAGIC_NUMBER:
        return b""
    if sys.version_info < (3, 7):  # before there were flags
        raw = raw[:4] + bytes(4) + raw[4:]
    words = [int.from_bytes(raw[at : at + 4], "little") for at in (4, 8, 12)]
    if words[0] == 0:
        is_right = words[1:] == [int(info.st_mtime) & 0xFFFFFFFF, info.st_size & 0xFFFFFFFF]
    elif words[0] == 3:  # to be checked, by a function that is as old as the flags
        is_right = getattr(importlib.util, "source_hash")(read(origin)) == raw[8:16]
    else:
        is_right = words[0] == 1
    return raw[16:] if is_right else b""


def place(name, origin):
    """Give folder and file of a module as its finder has them; None for an odd one."""
    tail = name.rpartition(".")[2]
    for file, kind in ((tail + ".py", "module"), (tail + "/__init__.py", "package")):
        if origin.endswith("/" + file):
            return origin[: -len(file) - 1], file, kind
    folder, _, file = origin.rpartition("/")
    is_one = file.startswith(tail + ".") and file[len(tail) :] in SUFFIXES
    return (folder, file, "extension") if is_one else None


def collect(modules):
    """Give the packed modules by folder: {folder: {tail: Packed}}, and those left."""
    folders, left = {}, []
    for name, (origin, cached, when) in sorted(modules.items()):
        where = place(name, origin)
        if where is None:
            left.append(name)
            continue
        folder, file, kind = where
        code = b"" if kind == "extension" else byte_code(origin, cached)
        if not code and kind != "extension":
            left.append(name)
            continue
        folders.setdefault(folder, {})[name.rpartition(".")[2]] = Packed(kind, file, code, when)
        if kind == "package":
            folders.setdefault(os.path.dirname(origin), {})
    return folders, left


def with_aliases(folders, path):
    """Have a folder under each name that sys.path has for it (lib64 is a link to lib)."""
    below = {entry: os.path.realpath(entry) for entry in path}
    for entry, real in below.items():
        for other in [one for one, at in below.items() if at == real and one != entry]:
            for folder in [one for one in folders if (one + "/").startswith(other + "/")]:
                folders.setdefault(entry + folder[len(other) :], {}).update(folders[folder])
    return folders


def listing(folder):
    """Name the modules that a folder may have: more names than the finder would find, never less."""
    names = set()
    for entry in os.listdir(folder):
        names.update(entry[: -len(suffix)] for suffix in SUFFIXES if entry.endswith(suffix))
        if "." not in entry or os.path.isdir(os.path.join(folder, entry)):
            names.add(entry)
    return names


def stamp(folder, packed):
    """Give a folder the time that its content makes, whole seconds as SquashFS keeps them."""
    known = sorted((tail, one.kind, one.file, digest(one.code)) for tail, one in packed.items())
    text = json.dumps([sorted(listing(folder)), known])
    seconds = FIRST + int(digest(text.encode("utf-8", "surrogateescape"))[:12], 16) % SPAN
    os.utime(folder, (seconds, seconds))
    return seconds


def stamped(folders, root, everywhere):
    """Give each folder's time, stamped below `root`; one that can't be stamped stays out.

    Only a pack for everywhere takes the folders outside of `root`, with the time that they have: it
    may be their time of change too (an unpacked disk image), and then says nothing of a writer.
    """
    stamps = {}
    for folder in sorted(folders):
        try:
            if root and (os.path.realpath(folder) + "/").startswith(root.rstrip("/") + "/"):
                stamps[folder] = stamp(folder, folders[folder])
            elif everywhere:
                stamps[folder] = os.stat(folder).st_mtime
        except OSError as error:
            print("pack: left out {}: {}".format(folder, error.strerror))
    return stamps


def seen_from(target, folder, prefix):
    """Give a folder's path from the pack's, below the prefix: an environment may be moved."""
    is_below = all((path + "/").startswith(prefix.rstrip("/") + "/") for path in (target, folder))
    return os.path.relpath(folder, target) if is_below else folder


def render(folders, stamps, everywhere, target):
    """Give the bytes of a pack in the folder `target`.

    `everywhere`: it is right where the file system is writable too.
    """
    # An import reads the front of the file alone, whatever a training step adds.
    every = [
        (one.when, folder, tail, one.code)
        for folder in folders
        for tail, one in folders[folder].items()
    ]
    spans, data, at = {b"": (0, 0)}, [], 0
    for _, _, _, code in sorted(every):
        if code not in spans:
            spans[code] = (at, at + len(code))
            data.append(code)
            at += len(code)
    size = 0
    while True:  # spans are from the file's start, so they depend on the size of the index
        index = marshal.dumps(_index(folders, stamps, spans, HEAD + size, target), 2)
        if len(index) == size:
            break
        size = len(index)
    body = index + b"".join(data)
    head = b"DLCPACK1" + importlib.util.MAGIC_NUMBER + bytes([everywhere, 0, 0, 0])
    head += (HEAD + len(body)).to_bytes(8, "little") + len(index).to_bytes(8, "little")
    return head + hashlib.sha256(head + body).digest() + body


def _index(folders, stamps, spans, begin, target):
    # Version 2 of marshal writes no references, which depend on the process that writes.
    index, real, prefix = {}, os.path.realpath(target), os.path.realpath(sys.prefix)
    for folder in stamps:
        names = {tail: ("listed", "", 0, 0) for tail in sorted(listing(folder))}
        for tail, one in sorted(folders[folder].items()):
            start, stop = spans[one.code]
            move = begin if one.code else 0
            names[tail] = (one.kind, one.file, start + move, stop + move)
        place = seen_from(real, os.path.realpath(folder), prefix)
        index[seen_from(target, folder, sys.prefix)] = (stamps[folder], place, names)
    return {folder: index[folder] for folder in sorted(index)}


def check(pack):
    """Say what is wrong with a pack's bytes; nothing where it is whole."""
    if pack[:8] != b"DLCPACK1" or len(pack) < HEAD:
        return "it is not a module pack"
    if int.from_bytes(pack[16:24], "little") != len(pack):
        return "it is truncated: {} bytes".format(len(pack))
    if hashlib.sha256(pack[:32] + pack[HEAD:]).digest() != pack[32:HEAD]:
        return "its checksum differs: it was edited"
    return ""


def site_folder():
    """Give the folder whose .pth files this Python reads, of its own environment."""
    given = [folder for folder in site.getsitepackages() if folder in sys.path]
    if not given:
        sys.exit("pack: no folder of packages is on this Python's path")
    return given[0]


def install(folder, pack):
    """Put the loader beside the pack, and the line that starts it; what is seen is whole."""
    loader = os.path.join(folder, NAME + ".py")
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copyfile(os.path.join(here, "module_pack.py"), loader)
    os.chmod(loader, 0o644)
    modes = getattr(py_compile, "PycInvalidationMode", None)  # not in 3.6
    if modes:
        py_compile.compile(loader, None, None, True, 0, modes.UNCHECKED_HASH)
    else:
        py_compile.compile(loader, doraise=True)
    for name, data in ((".bin", pack), (".pth", "import {}\n".format(NAME).encode())):
        target = os.path.join(folder, NAME + name)
        with open(target + ".new", "wb") as file:
            file.write(data)
        os.chmod(target + ".new", 0o644)
        os.replace(target + ".new", target)


def remove(folder):
    """Take an earlier pack away; tell whether this process has begun with it."""
    paths = [os.path.join(folder, NAME + suffix) for suffix in (".pth", ".bin", ".py")]
    there = [path for path in paths if os.path.exists(path)]
    for path in there:
        os.remove(path)
    return bool(there)


def traced(path, modules):
    """Write what imports with the pack open: a trace, as `build --order-from` reads it."""
    files = [file.lstrip("/") for file in pack_imports.opened_by(modules)]
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(["# dlcontainer/trace/1"] + files + [""]))


def main(arguments):
    """Pack what the modules import; end well where one of them can't be imported."""
    parser = argparse.ArgumentParser(prog="pack_modules.py")
    parser.add_argument("--report", required=True, help="the file that says what was packed")
    parser.add_argument("--everywhere", action="store_true", help="for a private copy of a tree")
    parser.add_argument(
        "--stamp", metavar="FOLDER", help="folders below it get the time that their content makes"
    )
    parser.add_argument("--trace", help="the file that names what the imports open beside the pack")
    parser.add_argument("--step", action="store_true", help="train a step as well")
    parser.add_argument("modules", nargs="+")
    wanted = parser.parse_args(arguments)
    target = site_folder()
    if remove(target):
        # What it loaded is in no list of a process that begins without it.
        os.execv(sys.executable, [sys.executable, "-IB", os.path.abspath(__file__)] + arguments)
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home  # Keras writes there when it is imported: it must not stay
        pack(target, wanted)


def pack(target, wanted):
    """Write the pack into a folder, and the report of it."""
    modules, failed = pack_imports.all_of(wanted.modules, wanted.step)
    folders, left = collect(modules)
    folders = with_aliases(folders, [entry for entry in sys.path if os.path.isdir(entry)])
    install(target, b"")  # the folder's listing has the loader's name, whatever the pack holds
    stamps = stamped(folders, wanted.stamp, wanted.everywhere)
    packed = {folder: folders[folder] for folder in stamps}
    if wanted.trace:  # here, where files can be written, an image's pack would not be used
        install(target, render(packed, stamps, True, target))
        stamped(folders, wanted.stamp, wanted.everywhere)
        traced(wanted.trace, wanted.modules)
    content = render(packed, stamps, wanted.everywhere, target)
    install(target, content)
    stamped(folders, wanted.stamp, wanted.everywhere)  # its own folder has changed
    if target in stamps and not wanted.stamp:
        os.utime(target, (stamps[target], stamps[target]))
    path = os.path.join(target, NAME + ".bin")
    wrong = check(read(path))
    if wrong:
        sys.exit("pack: {}: {}".format(path, wrong))
    body = {
        "schema": "dlcontainer/pack/1",
        "file": path,
        "sha256": digest(content),
        "bytes": len(content),
        "folders": len(stamps),
        "modules": sum(len(packed) for folder, packed in folders.items() if folder in stamps),
        "left": left,
        "failed": failed,
    }
    with open(wanted.report, "w") as out:
        json.dump(body, out, indent=1, sort_keys=True)
        out.write("\n")
    print("pack: {modules} modules of {folders} folders, {bytes} bytes".format(**body))


if __name__ == "__main__":
    main(sys.argv[1:])
