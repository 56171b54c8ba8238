"""A real registry with TLS of an own CA and a password, and what is pushed to it."""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from dlcontainer.bench.samples import hash_chain
from dlcontainer.cli import main
from dlcontainer.system import machine
from tests.integration.world import missing
from tests.processes import poll
from tests.signers import Authority
from tests.values import ROOT

USER, PASSWORD = "publisher", "canary-4711-password"
_TIMEOUT_S = 30
_SETTINGS = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {folder}/storage}}
  delete: {{enabled: true}}
http:
  addr: "{address}"
  tls: {{certificate: {certificate}, key: {key}}}
auth:
  htpasswd: {{realm: tests, path: {folder}/htpasswd}}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Secured:
    """A registry, its CA, and a file with the login."""

    address: str
    ca: Path
    login: Path

    def place(self, name: str) -> str:
        return f"oras://{self.address}/{name}"

    @property
    def options(self) -> list[str]:
        return ["--login", str(self.login), "--ca", str(self.ca)]

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        """Ask as anybody with the login could."""
        with requests.Session() as session:
            session.trust_env = False
            url = f"https://{self.address}/v2/{path}"
            auth = (USER, PASSWORD)
            return session.request(
                method, url, auth=auth, verify=str(self.ca), timeout=_TIMEOUT_S, **more
            )


def _hashed(password: str) -> str:
    """Hash a password as `htpasswd -B` does, by the C library."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    hashed: bytes = library.crypt(password.encode(), b"$2y$05$abcdefghijklmnopqrstuu")
    return hashed.decode()


@contextlib.contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Run a real registry: TLS, a password, storage in a folder."""
    program = machine.find_program("docker-registry", os.environ)
    if program is None:
        missing("docker-registry")
    authority = Authority.made(folder / "ca")
    server = authority.server()
    (folder / "htpasswd").write_text(f"{USER}:{_hashed(PASSWORD)}\n")
    login = folder / "login"
    login.write_text(f"{USER}:{PASSWORD}\n")
    login.chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    settings = folder / "config.yml"
    settings.write_text(
        _SETTINGS.format(
            folder=folder, address=address, certificate=server.public, key=server.private
        )
    )
    with (
        (folder / "registry.log").open("wb") as log,
        subprocess.Popen([program, "serve", settings], stdout=log, stderr=log) as process,
    ):
        try:
            assert poll(lambda: _answers(port), 60), (folder / "registry.log").read_text()
            yield Secured(address=address, ca=authority.roots, login=login)
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def session_of(image: Path, path: Path) -> Path:
    """Write a recorded session as if it had been measured on this image."""
    record = json.loads(image.with_suffix(".json").read_text())
    seal, lines = "", []
    for text in (ROOT / "tests/recorded/bench/equal.jsonl").read_text().splitlines():
        fields = json.loads(text)
        del fields["chain"]
        if fields["kind"] == "session":
            own = {"plan_digest": record["digest"], "image_sha256": record["image"]["sha256"]}
            fields["declared"] |= own
            declared = hash_chain.canonical(fields["declared"])
            fields["declared_sha256"] = hash_chain.digest(declared)
        line, seal = hash_chain.encode(fields, seal)
        lines.append(line)
    path.write_text("".join(lines))
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a command ended, in this process."""

    code: int
    out: str
    err: str

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.out))


def typed(capsys: Any, *words: object) -> Ran:
    """Type a command."""
    code = main._run([str(word) for word in words], as_json=False)
    said = capsys.readouterr()
    return Ran(code=code, out=said.out, err=said.err)
