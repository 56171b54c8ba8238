"""A small signed apt repository of the tests' own, on the loopback: packages in any versions."""

import hashlib
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.debs import deb
from tests.skips import skip

SUITE = "stable"
# A mirror's state, as its Release file has it; the tests move it on.
DATE = "Fri, 02 Jan 2026 00:00:00 UTC"


@dataclass(kw_only=True)
class Repository:
    """A folder of packages with an index that is signed; `url` is where it is served."""

    folder: Path
    home: Path
    url: str = ""
    _packages: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The line of a sources.list."""
        return f"deb [signed-by={self.folder / 'key.gpg'}] {self.url} {SUITE} main"

    def offer(self, name: str, version: str, depends: str = "", *, size: int = 0) -> None:
        """Put a package into the pool that leaves its version in a file."""
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
        control += f"Depends: {depends}\n" if depends else ""
        control += f"Installed-Size: {size // 1024}\nMaintainer: T <t@example.org>\n"
        control += "Description: made up\n"
        files = {f"opt/{name}.txt": f"{version}\n".encode(), f"opt/{name}.bin": b"x" * size}
        self._packages[(name, version)] = (deb(files, control), control)

    def withdraw(self, name: str, version: str) -> None:
        """Take a version out, as a mirror does that holds the newest alone."""
        del self._packages[(name, version)]

    def publish(self, date: str = DATE) -> None:
        """Write the index and sign it."""
        top = self.folder / "dists" / SUITE
        (self.folder / "pool").mkdir(parents=True, exist_ok=True)
        (top / "main/binary-amd64").mkdir(parents=True, exist_ok=True)
        stanzas = []
        for (name, version), (data, control) in sorted(self._packages.items()):
            path = f"pool/{name}_{version}_all.deb"
            (self.folder / path).write_bytes(data)
            sha256 = hashlib.sha256(data).hexdigest()
            stanzas.append(f"{control}Filename: {path}\nSize: {len(data)}\nSHA256: {sha256}\n")
        listed = "\n".join(stanzas).encode()
        (top / "main/binary-amd64/Packages").write_bytes(listed)
        sha256 = hashlib.sha256(listed).hexdigest()
        (top / "Release").write_text(
            f"Origin: Tests\nSuite: {SUITE}\nCodename: {SUITE}\nDate: {date}\n"
            "Architectures: amd64\nComponents: main\n"
            f"SHA256:\n {sha256} {len(listed)} main/binary-amd64/Packages\n"
        )
        self._gpg("--yes", "--clearsign", "--output", top / "InRelease", top / "Release")

    def make_key(self) -> None:
        """Make the key that signs the index, and export what apt trusts."""
        self.home.mkdir(mode=0o700, parents=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._gpg("--quick-generate-key", "tests <t@example.org>", "rsa2048", "sign", "never")
        self._gpg("--output", self.folder / "key.gpg", "--export")

    def _gpg(self, *argv: str | Path) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--passphrase", ""]
        try:
            subprocess.run([*command, *map(str, argv)], check=True, capture_output=True)
        except FileNotFoundError:
            skip("no gpg here; apt-get install gnupg")


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Repository]:
    """Serve an empty repository; what it signs with is gone with the folder."""
    repository = Repository(folder=folder / "repository", home=folder / "gnupg")
    repository.make_key()
    handler = partial(_Handler, directory=str(repository.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        repository.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield repository
        finally:
            server.shutdown()
            thread.join()
            environ: Mapping[str, str] = {**os.environ, "GNUPGHOME": str(repository.home)}
            subprocess.run(["gpgconf", "--kill", "all"], env=environ, check=False)
