"""`lock` and `fetch` with the real apt and pip, and servers that lie or have lost a file."""

import functools
import hashlib
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages import download
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.apt.apt_resolver import Apt
from dlcontainer.packages.host_access import HostAccess
from dlcontainer.packages.lockfile import WheelPin
from dlcontainer.packages.pip.pip_resolver import Pip
from dlcontainer.system import machine
from dlcontainer.system.process import ProcessRunner
from tests.integration.world import World, missing, write_wheel

STANZA = """\
Package: gone
Version: 1:2.0
Architecture: amd64
Description: listed, and not there
Filename: ./gone_2.0_amd64.deb
Size: 9
SHA256: {sha256}
"""


@pytest.fixture(scope="module")
def apt_world(world: World, wheels: Path) -> World:
    for name in ("apt-get", "mmdebstrap"):
        if machine.find_program(name, world.environ) is None:
            missing(name)
    found = f"{world.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    return world.having(PIP_FIND_LINKS=found)


@pytest.fixture(scope="module")
def locked(apt_world: World, tiny: Path) -> Path:
    """Lock the tiny recipe, once."""
    path = apt_world.folder / "a lock.json"
    apt_world.run("lock", tiny, "--site", "local", "-o", path)
    return path


@pytest.fixture(scope="module")
def fetched(apt_world: World, tiny: Path, locked: Path) -> Path:
    """Fetch what the lock names, once."""
    folder = apt_world.folder / "an air gap"
    apt_world.run("fetch", tiny, "--site", "local", "--locked", locked, "-o", folder)
    return folder


def test_the_lock_is_what_the_recipe_comes_to(locked: Path, wheels: Path) -> None:
    made = locks.read(locked)
    assert {"bash", "libc6", "apt"} <= {pin.name for pin in made.base.packages}
    system, framework = made.steps
    names = {pin.name for pin in system.os_packages}
    assert {"python3", "python3-venv"} <= names
    assert any(re.fullmatch(r"libpython3\.\d+-stdlib", name) for name in names)
    assert not names & {pin.name for pin in made.base.packages}
    wheel = wheels / "dlctiny-1.0-py3-none-any.whl"
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert framework.python_packages == (
        WheelPin(name="dlctiny", version="1.0", file=wheel.name, sha256=sha256),
    )
    assert {release.suite for release in made.base.mirror} >= {machine.read_host({}).release}
    assert all(release.date for release in made.base.mirror)


def test_what_moved_is_said(apt_world: World, tiny: Path, locked: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    (line,) = (one for one in locked.read_text().splitlines() if '"name": "bash"' in one)
    version = json.loads(line.rstrip(","))["version"]
    old.write_text(locked.read_text().replace(line, line.replace(version, "5.0-1")))
    done = apt_world.run("lock", "--check", old, tiny, "--json", code=1)
    changes = json.loads(done.stdout)["changes"]
    assert changes == [{"part": "base", "name": "bash", "old": "5.0-1", "new": version}]


def test_the_folder_is_whole_and_apt_would_take_it(fetched: Path, locked: Path) -> None:
    made = locks.read(locked)
    assert locks.read(fetched / "lock.json") == made
    debs = {path.name for path in (fetched / "debs").iterdir()}
    assert debs == {pin.file for pin in made.os_pins}
    listed = (fetched / "Packages").read_text()
    assert listed.count("\nSHA256: ") == len(debs)
    assert not (fetched / ".part").exists()


def test_a_spoilt_folder_builds_nothing(
    apt_world: World, tiny: Path, fetched: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(fetched, tmp_path / "copy")
    wheel = next((copy / "wheels").iterdir())
    wheel.write_bytes(wheel.read_bytes() + b"x")
    argv = ("build", tiny, "--site", "local", "-o", tmp_path / "out", "--offline", copy)
    done = apt_world.run(*argv, code=5)
    assert f"wheels/{wheel.name} has the checksum" in done.stderr
    (copy / "lock.json").write_text((copy / "lock.json").read_text()[:900])
    assert "incomplete or damaged lock file" in apt_world.run(*argv, code=3).stderr
    assert not (tmp_path / "out").exists()


@dataclass
class Server:
    """A loopback server: what it has, and which addresses it answers otherwise."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, served: dict[str, bytes], *args: object) -> None:
        self.served = served
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        body = self.served.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_request(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    files: dict[str, bytes] = {}
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, files))
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield Server(url=f"http://127.0.0.1:{httpd.server_port}", files=files)
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def pip(world: World, server: Server) -> Pip:
    # The proxy of this machine, if it has one, does not lead to a server of its own.
    environ = {**world.environ, "no_proxy": "127.0.0.1", "PIP_RETRIES": "0"}
    arguments = ("--index-url", f"{server.url}/simple", "--trusted-host", "127.0.0.1")
    return Pip(
        python="3.11",
        arch="aarch64",
        glibc="2.36",
        arguments=(*arguments, "--retries", "0", "--no-cache-dir"),
        environment={"no_proxy": "127.0.0.1"},
        host=machine.read_host(environ),
        runner=ProcessRunner(environ=environ),
        on_line=lambda _: None,
    )


def serve_wheel(server: Server, tmp_path: Path, tag: str = "py3-none-any") -> WheelPin:
    data = write_wheel(tmp_path / "made").read_bytes()
    name = f"dlctiny-1.0-{tag}.whl"
    server.files["/simple/dlctiny/"] = f'<a href="/files/{name}">{name}</a>'.encode()
    server.files[f"/files/{name}"] = data
    sha256 = hashlib.sha256(data).hexdigest()
    return WheelPin(name="dlctiny", version="1.0", file=name, sha256=sha256)


def test_an_index_that_lies_about_a_wheel(world: World, server: Server, tmp_path: Path) -> None:
    pin = serve_wheel(server, tmp_path)
    folder = tmp_path / "to"
    folder.mkdir()
    pip(world, server).download([pin], (), folder)
    assert hashlib.sha256((folder / pin.file).read_bytes()).hexdigest() == pin.sha256
    (folder / pin.file).unlink()
    server.files[f"/files/{pin.file}"] += b"x"
    with pytest.raises(BuildError, match="wrong checksum"):
        pip(world, server).download([pin], (), folder)
    assert list(folder.iterdir()) == []


def test_an_index_that_has_lost_a_wheel(world: World, server: Server, tmp_path: Path) -> None:
    pin = serve_wheel(server, tmp_path)
    del server.files[f"/files/{pin.file}"]
    with pytest.raises(BuildError, match="cannot fetch") as caught:
        pip(world, server).download([pin], (), tmp_path)
    assert "404" in str(caught.value.why)


def test_a_wheel_that_is_not_built_for_the_architecture(
    world: World, server: Server, tmp_path: Path
) -> None:
    serve_wheel(server, tmp_path, "cp311-cp311-manylinux_2_28_x86_64")
    with pytest.raises(MisfitError) as caught:
        pip(world, server).resolve(["dlctiny==1.0"], "", tmp_path)
    assert "on aarch64" in caught.value.what
    assert "dlctiny==1.0: there are wheels of cp311 for manylinux_2_28_x86_64" in str(
        caught.value.why
    )


def test_an_archive_comes_by_the_way_of_the_site(server: Server, tmp_path: Path) -> None:
    server.files["/mirror/a"] = b"archive"
    way = HostAccess(
        environment={},
        apt_sources=(),
        apt_settings=(),
        pip_arguments=(),
        upstreams={},
        notes=(),
        places={"https://example.org/a": f"{server.url}/mirror/a"},
    )
    download.download("https://example.org/a", tmp_path / "a", way, print)
    assert (tmp_path / "a").read_bytes() == b"archive"
    with pytest.raises(BuildError, match="cannot fetch") as caught:
        download.download(f"{server.url}/gone", tmp_path / "b", way, print)
    assert "404" in str(caught.value.why)


@pytest.fixture
def apt(apt_world: World, server: Server, tmp_path: Path) -> Apt:
    environ = apt_world.environ
    folder = tmp_path / "apt 'folder'"
    folder.mkdir()
    return Apt(
        folder=folder,
        arch="amd64",
        sources=[AptSource(uri=f"{server.url}/", suite="./", components=(), keyring=None)],
        settings=[
            'Acquire::AllowInsecureRepositories "true";',
            'APT::Get::AllowUnauthenticated "true";',
            'Acquire::http::Proxy "DIRECT";',
        ],
        host=machine.read_host(environ),
        environment={},
        runner=ProcessRunner(environ=environ),
        on_line=lambda _: None,
    )


def test_a_mirror_that_lists_what_it_has_not(apt: Apt, server: Server, tmp_path: Path) -> None:
    server.files["/./Packages"] = STANZA.format(sha256="ab" * 32).encode()
    apt.update()
    (pin,) = apt.install(["gone"])
    assert (pin.version, pin.sha256) == ("1:2.0", "ab" * 32)
    assert apt.offered(["gone", "never"]) == [pin]
    with pytest.raises(BuildError, match="cannot fetch an OS package") as caught:
        apt.download([pin], tmp_path)
    assert "404" in str(caught.value.why)
    with pytest.raises(MisfitError, match="no OS package never for amd64"):
        apt.install(["never"])


def test_a_mirror_that_is_down(apt: Apt) -> None:
    with pytest.raises(BuildError, match="lists of the apt mirrors"):
        apt.update()
