"""Look round inside an image and print one JSON object. Standard library, Python >= 3.6.

Fed to the image's Python on its standard input, so that nothing need be bound into the image. Its
arguments name further variables that were set for it.
"""

import glob
import hashlib
import importlib
import json
import os
import platform
import sys

MANIFEST = "/opt/dlcontainer/manifest.json"
PROVENANCE = "/opt/dlcontainer/provenance.json"
PACK = "/opt/dlcontainer/pack.json"

# Set by an engine or by the image itself; anything else came from the host.
OWN_PREFIXES = ("APPTAINER", "SINGULARITY", "PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE")
OWN = {"HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PS1", "PROMPT_COMMAND", "PWD", "SHLVL", "TERM",
       "USER_PATH", "_", "OLDPWD", "LC_CTYPE"}  # fmt: skip
ENGINE_LIBS = "/.singularity.d/libs"

# Where Debian and Ubuntu put Python packages of their own.
DISTRIBUTION = "/usr/lib/python3/dist-packages"

# What a build leaves where it is not cleaned up.
EMPTY = ("/mnt", "/tmp", "/var/tmp", "/root", "/var/lib/apt/lists", "/var/cache/apt")
ABSENT = (
    "/etc/pip.conf",
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d/99mmdebstrap",
    "/etc/apt/sources.default",
    "/usr/local/share/ca-certificates/*",
    "/root/.cache",
    "/root/.config",
    "/root/.netrc",
    "/root/.pip",
    "/var/log/apt",
    "/var/log/dpkg.log",
)


def imports(wanted):
    """Import each module and say which version came from where."""
    found = []
    for module, version in sorted(wanted.items()):
        entry = {"module": module, "wanted": version, "version": "", "file": "", "error": ""}
        try:
            loaded = importlib.import_module(module)
            entry["version"] = str(getattr(loaded, "__version__", ""))
            entry["file"] = str(getattr(loaded, "__file__", ""))
        except BaseException as error:  # an import can end in any way, SystemExit included
            entry["error"] = "{}: {}".format(type(error).__name__, error)
        found.append(entry)
    return found


def leaks(environment, prefix):
    """Name what of the host shows: variables, a user's site, paths outside the image's Python."""
    found = []
    own = OWN | set(environment)
    for name in sorted(os.environ):
        if name not in own and not name.startswith(OWN_PREFIXES):
            found.append("variable " + name)
    libraries = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    found += ["LD_LIBRARY_PATH " + p for p in libraries if p != ENGINE_LIBS]
    import site

    if site.ENABLE_USER_SITE:
        found.append("user site " + str(site.getusersitepackages()))
    inside = (prefix, sys.base_prefix + "/lib")
    found += ["sys.path " + p for p in sys.path if p and not p.startswith(inside)]
    return found


def leftovers():
    """Name what a build left behind."""
    found = [path for pattern in ABSENT for path in sorted(glob.glob(pattern))]
    for folder in EMPTY:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        # /root is read as an ordinary user or is a home of the engine's: its skeleton is Debian's.
        found += [folder + "/" + n for n in names if n not in {".bashrc", ".profile", "partial"}]
    return found


def pack(report):
    """Say whether the module pack is the one that was made, and how many folders it answers for."""
    try:
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        if not told["file"]:
            return None
        with open(told["file"], "rb") as file:
            same = hashlib.sha256(file.read()).hexdigest() == told["sha256"]
    except (OSError, ValueError, KeyError) as error:
        return {"error": "{}: {}".format(type(error).__name__, error), "folders": 0, "fresh": 0}
    loader = sys.modules.get("_dlcontainer_pack")
    fresh = 0
    for folder in getattr(loader, "INDEX", ()):
        try:
            fresh += bool(loader.hook(folder))
        except ImportError:
            continue
    off = getattr(loader, "WHY", "its loader did not start")
    error = (off or "") if same else "its checksum is not that of the build"
    return {"error": error, "folders": told["folders"], "fresh": fresh}


def main():
    """Print what was seen."""
    with open(MANIFEST, encoding="utf-8") as file:
        manifest = json.load(file)
    content = manifest["content"]
    # An adopted or extended image has no recipe; the variables that it sets itself were read from its files.
    offer = content.get("recipe") or content.get("extended") or content["adopted"]
    prefix = offer["prefix"]
    declared = set(content["environment"]) | set(offer.get("sets", []))
    seen = {
        "schema": "dlcontainer/inside/1",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "interpreter": manifest["python"],
        "prefix": prefix,
        "sys_prefix": sys.prefix,
        "packages": DISTRIBUTION,
        "digest": manifest["digest"],
        "content": content,
        "verify": manifest["verify"],
        "provenance": os.path.exists(PROVENANCE),
        "leaks": leaks(declared | set(sys.argv[1:]), prefix),
        "leftovers": leftovers(),
        "pack": pack(PACK) if os.path.exists(PACK) else None,
        "imports": imports(offer["verify"]["imports"]),
    }
    print(json.dumps(seen, sort_keys=True))


if __name__ == "__main__":
    main()
