"""Made-up wheels and source archives, in a folder and behind an index of the standard library.

Both resolvers are answered without a network. Each source archive has a `setup.py` that leaves a
mark: a resolver that runs it is seen.
"""

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ANY = "py3-none-any"
MARKERS = (
    'm-arm; platform_machine == "aarch64"',
    'm-intel; platform_machine == "x86_64"',
    'm-new; python_version >= "3.12"',
    'm-old; python_version < "3.12"',
)


def wheel(
    folder: Path,
    name: str,
    version: str,
    requires: Sequence[str] = (),
    *,
    tag: str = ANY,
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel; without `modules` it has one of the package's name."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    files = dict(modules or {f"{name.replace('-', '_')}/__init__.py": f"version = {version!r}\n"})
    needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        f"Tag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in files)
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return path


def sdist(folder: Path, name: str, version: str, mark: Path) -> Path:
    """Write a source archive whose `setup.py` writes into `mark`."""
    path = folder / f"{name}-{version}.tar.gz"
    texts = {
        "PKG-INFO": f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n",
        "setup.py": f"open({str(mark)!r}, 'a').write({name!r})\n"
        f"import distutils.core\ndistutils.core.setup(name={name!r}, version={version!r})\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for file, text in texts.items():
            member = tarfile.TarInfo(f"{name}-{version}/{file}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def sha256(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fill(folder: Path, mark: Path) -> Path:
    """Fill a folder with the packages of the tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for python in ("cp311", "cp312"):
        for arch in ("x86_64", "aarch64"):
            for version in ("2.2.6", "2.3.5"):
                tag = f"{python}-{python}-manylinux_2_28_{arch}"
                wheel(folder, "numpy", version, tag=tag)
    for version in ("2.13.0", "2.14.0"):
        wheel(folder, "torch", version, ["numpy", "filelock>=3.10", "nvidia-cublas==13.0"])
    wheel(folder, "torch", "2.13.0+cpu", ["numpy", "filelock>=3.10"])
    wheel(folder, "torchvision", "0.28.0", ["torch==2.13.0", "numpy"])
    wheel(folder, "torchvision", "0.28.0+cpu", ["torch==2.13.0", "numpy"])
    for name in ("nvidia-cublas", "m-arm", "m-intel", "m-new", "m-old", "einops"):
        wheel(folder, name, "13.0" if name == "nvidia-cublas" else "1.0")
    for version in ("3.9", "3.20", "3.29"):
        wheel(folder, "filelock", version)
    wheel(folder, "marked", "1.0", MARKERS)
    wheel(folder, "oldnum", "1.0", ["numpy<2.3"])
    wheel(folder, "oldlock", "1.0", ["filelock<3.10"])
    wheel(folder, "midlock", "1.0", ["filelock<3.25"])
    wheel(folder, "needs-lost", "1.0", ["lost-and-gone"])
    wheel(folder, "early", "1.0.dev1")
    wheel(folder, "patched", "2.1.0")
    sdist(folder, "patched", "2.1.1", mark)
    wheel(folder, "ancient", "0.3.1")
    sdist(folder, "ancient", "0.19.8", mark)
    sdist(folder, "sources-only", "1.0", mark)
    # The newest of these needs what has no wheel; an old one did not.
    wheel(folder, "config", "0.11.3")
    wheel(folder, "config", "1.3.2", ["sources-only"])
    wheel(folder, "mended", "1.3.1")
    wheel(folder, "mended", "1.3.2", ["sources-only"])
    wheel(folder, "sees", "1.0", ["eyes"])
    wheel(folder, "eyes", "1.0", ["torchvision==0.28.0"])
    wheel(folder, "nvidia-ml-py", "13.0")
    only = "cp311-cp311-manylinux_2_28_x86_64"
    wheel(folder, "intel-only", "1.0", tag=only)
    return folder


@dataclass
class Index:
    """A simple index over a folder of files: which names are yanked, what it answers to all."""

    url: str
    folder: Path
    yanked: dict[str, str] = field(default_factory=dict)
    status: int = 200
    asked: list[str] = field(default_factory=list)
    # What a request had to show, where the index wants a password.
    authorizations: list[str] = field(default_factory=list)
    password: str | None = None

    def page(self, name: str) -> bytes | None:
        """Return the page of a name; None where there is no file of it."""
        stem = name.replace("-", "_")
        files = [
            path.name
            for path in sorted(self.folder.iterdir())
            if path.name.replace("-", "_").startswith(f"{stem}_")
            and path.name[len(stem) + 1].isdigit()
        ]
        links = [
            f'<a href="/files/{file}#sha256={sha256(self.folder / file)}"'
            + (f' data-yanked="{self.yanked[file]}"' if file in self.yanked else "")
            + f">{file}</a>"
            for file in files
        ]
        text = "<!DOCTYPE html><html><body>" + "<br>".join(links) + "</body></html>"
        return text.encode() if links else None


class _Handler(http.server.BaseHTTPRequestHandler):
    index: Index

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        index = self.index
        index.asked.append(self.path)
        index.authorizations.append(self.headers.get("Authorization", ""))
        status, body = index.status, b""
        if index.password is not None and not self.headers.get("Authorization"):
            status = 401
        if status == 200:
            kind, _, name = self.path.strip("/").partition("/")
            path = index.folder / Path(name).name.replace("%2B", "+")
            content = index.page(name) if kind == "simple" else path.read_bytes()
            status, body = (200, content) if content is not None else (404, b"")
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="tests"')
        kind = "text/html" if self.path.startswith("/simple") else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Index]:
    """Serve a folder's files as an index on a port of the loopback."""
    handler = type("Handler", (_Handler,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index = Index(url=f"http://127.0.0.1:{server.server_port}/simple", folder=folder)
        handler.index = index  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
