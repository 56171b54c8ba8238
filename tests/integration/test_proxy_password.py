"""A proxy with a password: it serves, and nobody else on the machine gets to read the password."""

import base64
import contextlib
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.system import machine
from tests.integration import accounts
from tests.integration.world import World, isolated, missing, write_bare, write_tiny, write_wheel

USER, SECRET = "planted", "planted-proxy-password"


@dataclass(kw_only=True, slots=True)
class Proxy:
    """A forward proxy for http:// that lets in only who knows the password."""

    address: str
    served: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    said = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
    proxy = Proxy(address="")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: object) -> None:
            pass

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_CONNECT(self) -> None:
            proxy.refused.append(self.path)
            self._answer(405, b"")

        def do_GET(self) -> None:
            if self.headers.get("Proxy-Authorization") != f"Basic {said}":
                proxy.refused.append(self.path)
                self._answer(407, b"")
                return
            proxy.served.append(self.path)
            asked = urllib.request.Request(self.path, method=self.command)
            try:
                with urllib.request.urlopen(asked, timeout=60) as reply:
                    self._answer(reply.status, reply.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, b"")
            except OSError:
                self._answer(502, b"")

        def do_HEAD(self) -> None:
            self.do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy.address = f"http://{USER}:{SECRET}@127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield proxy
        server.shutdown()


@dataclass(kw_only=True, slots=True)
class Seen:
    """What another user could read in the list of processes."""

    programs: set[str] = field(default_factory=set)
    leaks: set[bytes] = field(default_factory=set)


@contextlib.contextmanager
def watching() -> Iterator[Seen]:
    """Read all command lines again and again while something is at work."""
    seen, done = Seen(), threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    line = path.read_bytes()
                    seen.programs |= {
                        Path(word.decode(errors="replace")).name for word in line.split(b"\0")[:6]
                    }
                    if SECRET.encode() in line:
                        seen.leaks.add(line)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def needs_plain_mirrors(world: World) -> None:
    """The test's proxy speaks http:// alone."""
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"],
        env=dict(world.environ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if not any(uri.startswith("http://") for uri in found):
        missing("apt mirror that is reached by http://")


def holds_secret(base: Path, folder: Path) -> list[Path]:
    tree = folder / "unpacked"
    program = machine.find_program("unsquashfs", {"PATH": "/usr/bin:/bin:/usr/sbin"})
    assert program is not None
    subprocess.run(
        [str(program), "-quiet", "-no-progress", "-no-xattrs", "-d", str(tree), str(base)],
        check=True,
        capture_output=True,
    )
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def behind(world: World, proxy: Proxy, wheels: Path) -> World:
    around = world.environ.get("PIP_FIND_LINKS", "")
    return world.having(
        http_proxy=proxy.address, no_proxy="127.0.0.1", PIP_FIND_LINKS=f"{around} {wheels}".strip()
    )


def base_is_made_in_secret(world: World, recipe: Path, proxy: Proxy, folder: Path) -> None:
    with watching() as seen:
        built = world.build(recipe, world.folder / "out")
    assert "mmdebstrap" in seen.programs
    assert seen.leaks == set()
    # The password was of use: apt came through, and never without it.
    assert [path for path in proxy.served if path.endswith(".deb")]
    assert proxy.refused == []
    assert holds_secret(world.base(), folder) == []
    assert SECRET not in built.log.read_text()
    assert list(Path(world.environ["TMPDIR"]).iterdir()) == []


@pytest.mark.long
def test_a_base(engine: Apptainer, proxy: Proxy, tmp_path: Path) -> None:
    world = behind(isolated(tmp_path / "world", tmp_path / "cache"), proxy, tmp_path)
    needs_plain_mirrors(world)
    base_is_made_in_secret(world, write_bare(tmp_path / "recipe"), proxy, tmp_path)


@pytest.mark.long
def test_a_base_of_a_user_with_subordinate_ids(
    engine: Apptainer, proxy: Proxy, tmp_path: Path
) -> None:
    with accounts.with_ids("dlcproxy") as account, accounts.world_of(account, engine) as user:
        path = f"{engine.program.parent}:{user.environ['PATH']}"
        world = behind(user.having(PATH=path), proxy, user.folder)
        needs_plain_mirrors(world)
        recipe = accounts.given(account, write_bare(user.folder / "recipe"))
        base_is_made_in_secret(world, recipe, proxy, tmp_path)


@pytest.mark.long
def test_a_lock_and_its_bundle(engine: Apptainer, proxy: Proxy, tmp_path: Path) -> None:
    own = isolated(tmp_path / "world", tmp_path / "cache")
    wheels = write_wheel(tmp_path / "wheels").parent
    world = behind(own, proxy, wheels)
    needs_plain_mirrors(world)
    recipe, lock = write_tiny(tmp_path / "recipe"), tmp_path / "tiny.lock.json"
    with watching() as seen:
        world.run("lock", recipe, "--site", "local", "-o", lock)
        world.run("fetch", recipe, "--site", "local", "--locked", lock, "-o", tmp_path / "bundle")
    assert {"apt-get", "pip"} <= seen.programs
    assert seen.leaks == set()
    assert [path for path in proxy.served if path.endswith(".deb")]
    assert proxy.refused == []
    files = [path for path in (tmp_path / "bundle").rglob("*") if path.is_file()]
    assert not [path for path in [lock, *files] if SECRET.encode() in path.read_bytes()]
