"""What an image says to the loader: its folders of libraries, and those of its C library.

Source: man pages ld.so(8), ldconfig(8): without /etc/ld.so.cache the loader reads no ld.so.conf.
musl: musl.libc.org, manual, "Dynamic linking".
"""

from collections.abc import Collection, Mapping

from dlcontainer.config.field_types import Arch
from dlcontainer.validate.static.loader import LoaderFolders

CACHE = "/etc/ld.so.cache"
# As Debian names the folders of an architecture.
TRIPLES: Mapping[Arch, str] = {
    "x86_64": "x86_64-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "ppc64le": "powerpc64le-linux-gnu",
}
_MUSL = ("/lib", "/usr/local/lib", "/usr/lib")
_MUSL_LOADERS = tuple(f"/lib/ld-musl-{name}.so.1" for name in ("x86_64", "aarch64", "powerpc64le"))


def read(
    texts: Mapping[str, str], variables: Mapping[str, str], paths: Collection[str], arch: Arch
) -> LoaderFolders:
    """Return the folders for any file, from texts of the image by path."""
    triple = TRIPLES[arch]
    glibc = (f"/lib/{triple}", f"/usr/lib/{triple}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
    is_musl = any(path in paths for path in _MUSL_LOADERS) and CACHE not in paths
    return LoaderFolders(
        library_path=folders_of(variables.get("LD_LIBRARY_PATH", "")),
        configured=_cached(texts.get(CACHE, "")),
        defaults=_MUSL if is_musl else glibc,
        lib_words=(f"lib/{triple}", "lib64", "lib"),
        platform=arch,
    )


def folders_of(text: str) -> tuple[str, ...]:
    """Split a list of folders; what is not absolute (`$HOME`, an empty word) is left out."""
    return tuple(dict.fromkeys(part.rstrip("/") for part in text.split(":") if part[:1] == "/"))


def _cached(text: str) -> tuple[str, ...]:
    """Return the folders of a cache: each of its texts that begins with / is a library's path."""
    folders = (part.rpartition("/")[0] for part in text.split("\0") if part.startswith("/"))
    return tuple(dict.fromkeys(filter(None, folders)))
