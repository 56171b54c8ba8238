"""Foreign images, made here: small trees of other makers' habits, packed as OCI archives."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI = (MANIFEST, CONFIG, LAYER)
# What Docker calls the same three, and vendors' registries still give.
DOCKER = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.container.image.v1+json",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
RELEASE = 'ID=debian\nVERSION_ID="13"\n'
# Where the Python of `with_python` under /usr looks for packages: Debian's has a folder of its own.
PACKAGES = (
    "/usr/lib/python3/dist-packages"
    if "deb_system" in sysconfig.get_scheme_names()
    else f"/usr/lib/python{sysconfig.get_python_version()}/site-packages"
)
_PROGRAMS = ("/bin/sh", "/bin/sed", "/usr/bin/env", "/usr/bin/sha256sum")
_UNUSED = (
    *("test", "idlelib", "lib2to3", "config-*", "ensurepip", "pydoc_data", "turtledemo"),
    *("__pycache__", "dist-packages", "site-packages"),
    "sitecustomize.py",  # Debian's is a link to a file of the host's
)


def skeleton(tree: Path) -> Path:
    """Make the folders of a merged tree, without any program."""
    for name in ("bin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for name in ("dev", "etc", "opt", "proc", "root", "sys", "tmp", "var/tmp"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/os-release").write_text(RELEASE)
    return tree


def with_python(tree: Path, prefix: str = "/usr") -> Path:
    """Put this host's own Python and the programs that checks need into a tree, under a prefix."""
    version = f"python{sysconfig.get_python_version()}"
    standard = Path(sysconfig.get_path("stdlib"))
    program = (standard.parent.parent / "bin" / version).resolve()
    home = tree / prefix.lstrip("/")
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(program, home / "bin" / version)
    (home / "bin/python3").symlink_to(version)
    shutil.copytree(
        standard, home / "lib" / version, ignore=shutil.ignore_patterns(*_UNUSED), symlinks=True
    )
    for name in _PROGRAMS:
        shutil.copy(name, tree / "usr/bin" / Path(name).name)
    modules = sorted((home / "lib" / version / "lib-dynload").glob("*.so"))
    for library in _needed([program, *map(Path, _PROGRAMS), *modules]):
        target = tree / "usr" / ("lib64" if library.name.startswith("ld-linux") else "lib")
        shutil.copy(library, target / library.name)
    return tree


def _needed(programs: list[Path]) -> set[Path]:
    said = subprocess.run(
        ["ldd", *programs], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
    ).stdout
    return {Path(name) for name in re.findall(r"(/\S+\.so\S*)(?= \()", said)}


def distribution(tree: Path, folder: str, name: str, version: str) -> None:
    """Note a Python distribution as pip does, with a module that has this version."""
    info = tree / folder.lstrip("/") / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    module = info.parent / name
    module.mkdir()
    (module / "__init__.py").write_text(f"__version__ = {version!r}\n")


def layer(tree: Path) -> bytes:
    """Pack a tree as a tar: all files root's."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(tree.iterdir()):
            tar.add(path, arcname=path.name, filter=_root)
    return packed.getvalue()


def _root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def oci(
    path: Path,
    *layers: bytes,
    arch: str = "amd64",
    env: tuple[str, ...] = (),
    types: tuple[str, str, str] = OCI,
    history: Sequence[str] = (),
) -> str:
    """Write an OCI archive of an image of these tars; give its manifest's digest."""
    packed = [gzip.compress(one, compresslevel=1, mtime=0) for one in layers]
    config = json.dumps(
        {
            "architecture": arch,
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", *env]},
            "rootfs": {"type": "layers", "diff_ids": [sha256(one) for one in layers]},
            "history": [{"created_by": line} for line in history],
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": types[0],
            "config": described(config, types[1]),
            "layers": [described(one, types[2]) for one in packed],
        }
    ).encode()
    files = {f"blobs/sha256/{sha256(one)[7:]}": one for one in (config, manifest, *packed)}
    index = {"schemaVersion": 2, "manifests": [described(manifest, types[0])]}
    files["index.json"] = json.dumps(index).encode()
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    write_tar(path, files)
    return sha256(manifest)


def described(body: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": sha256(body), "size": len(body)}


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))


def spoiled(path: Path, target: Path, change: Mapping[str, bytes]) -> None:
    """Copy an archive with other bytes under the names of `change`."""
    with tarfile.open(path) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
    write_tar(target, {**files, **change})


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def links(**given: str) -> bytes:
    """Give a layer of symbolic links: `opt__x="/host"` is /opt/x."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, target in given.items():
            entry = tarfile.TarInfo(os.fspath(name.replace("__", "/")))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return packed.getvalue()
