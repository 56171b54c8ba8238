"""The network plug-in that NCCL or RCCL would load here: its file, its name, its versions. Python >= 3.6.

NCCL loads what NCCL_NET_PLUGIN names, a library or the end of its name, and without it the usual
name; then it asks for ncclNetPlugin_vN, the newest first. Which N a library of NCCL asks for stands
in its own bytes. Source: NCCL, documentation, "NCCL_NET_PLUGIN"; ext-net/README.md.
"""

import ctypes
import os
import re

import attest_libraries

VARIABLE = "NCCL_NET_PLUGIN"
USUAL = ("libnccl-net.so", "librccl-net.so")
_SYMBOL = re.compile(rb"ncclNetPlugin_v(\d{1,3})\b")
_ASKING = re.compile(r"/lib[nr]ccl\.so[.\d]*$")
_NEWEST = 99


def facts(environ=os.environ):
    """Give what is found: file, name, versions, and those that NCCL here asks for; None for nothing.

    `error` says why a plug-in that the environment names can't be used.
    """
    named = environ.get(VARIABLE)
    if named == "none":  # NCCL's own word
        return None
    file, problem = _opened(_candidates(named))
    if file is None:
        if not named:
            return None
        return {"file": named, "name": None, "versions": [], "asked": [], "error": problem}
    found = {"file": file.path, "name": None, "versions": [], "asked": _asked(), "error": None}
    for number in range(1, _NEWEST):
        symbol = "ncclNetPlugin_v{}".format(number)
        try:
            # Its first field is its name, in all versions.
            name = ctypes.c_char_p.in_dll(file.library, symbol).value
        except ValueError:
            continue
        found["versions"].append(number)
        found["name"] = name.decode("utf-8", "replace") if name else None
    found["error"] = _misfit(found)
    return found


class _Opened(object):
    def __init__(self, path, library):
        self.path, self.library = path, library


def _candidates(named):
    if not named:
        return USUAL
    if "/" in named:
        return (named,)
    return ("libnccl-net-{}.so".format(named), "librccl-net-{}.so".format(named), named)


def _opened(candidates):
    problem = None
    for name in candidates:
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            problem = str(error)
            continue
        return _Opened(_path(name), library), None
    return None, problem


def _path(name):
    """Give the file that was loaded for a name."""
    if os.path.isabs(name):
        return name
    return attest_libraries.mapped().get(name, name)


def _asked():
    """List the versions that the NCCL or RCCL of this process asks for; none where there is none."""
    for path in attest_libraries.mapped().values():
        if _ASKING.search(path):
            with open(path, "rb") as file:
                return sorted({int(number) for number in _SYMBOL.findall(file.read())})
    return []


def _misfit(found):
    if not found["versions"]:
        return "{} has no ncclNetPlugin_vN: it is no network plug-in".format(found["file"])
    if found["asked"] and not set(found["asked"]) & set(found["versions"]):
        return "{} has {}, and NCCL here asks for {}".format(
            found["file"], _said(found["versions"]), _said(found["asked"])
        )
    return None


def _said(versions):
    return "ncclNetPlugin_" + ", ".join("v{}".format(number) for number in versions)

