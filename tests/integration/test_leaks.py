"""Nothing of the host's way to the outside gets into an image, nothing of the host into a run."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.planning.launch.refused_variables import TABLE
from tests.integration.world import Built, World, isolated, write_bare, write_wheel
from tests.skips import skip

# A certificate made for these tests; whoever trusts it trusts nobody: its key was thrown away.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBljCCATugAwIBAgIUKn2adqKlNcqZoNP2mR2Hw+1zol8wCgYIKoZIzj0EAwIw
HzEdMBsGA1UEAwwUUGxhbnRlZCBDQSBvZiBhIHRlc3QwIBcNMjYxMTIxMDUyNTE0
WhgPMjEyNjEwMjgwNTI1MTRaMB8xHTAbBgNVBAMMFFBsYW50ZWQgQ0Egb2YgYSB0
ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEVZbw08RtO+s2yYyuaa9DbVzH
ZTOOW9/erN+tyXR4rJNWRM1xSkk6ShPOT/ru8DwL3s2Gw+wMt53gC66R1k/sh6NT
MFEwHQYDVR0OBBYEFJYW/ZbeNtLEt5o3IAKbGGq+KQYOMB8GA1UdIwQYMBaAFJYW
/ZbeNtLEt5o3IAKbGGq+KQYOMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwID
SQAwRgIhALs2udLNL/UsfLNGlerXFVgJpmodvWFwerkLsPklmmm0AiEAzOrJKYmz
I5yxP5ryLkf9FfSfi1YwvzVAIL4IQFrXiI8=
-----END CERTIFICATE-----
"""
CERTIFICATE_LINE = CERTIFICATE.splitlines()[4]
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")

# Words that stand nowhere but in what the fixture plants.
WHEELS, LINKS, PROXY = "planted-wheel-folder", "planted-find-links", "planted.proxy.invalid"
TOKEN, SECRET = "planted-token-1f7d", "planted-secret-93ab"


@pytest.fixture(scope="module")
def planted(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    return plant(world, tmp_path_factory.mktemp("planted"))


def plant(world: World, folder: Path) -> World:
    """Give a world whose user has secrets and a way to the outside of its own."""
    own = isolated(folder, Path(world.environ["XDG_CACHE_HOME"]))
    home = Path(own.environ["HOME"])
    links = write_wheel(folder / LINKS).parent
    (folder / WHEELS).mkdir()
    # A password in an index's address; nobody listens there, and pip goes on to the folders.
    (home / "pip.conf").write_text(
        f"[global]\nindex-url = http://user:{TOKEN}@127.0.0.1:9/simple\nretries = 0\n"
        f"find-links = {links}\n"
    )
    bundle = folder / "planted-ca.pem"
    real = [Path(name).read_text() for name in BUNDLES if Path(name).is_file()]
    bundle.write_text("".join(real[:1]) + CERTIFICATE)
    kept = {k: v for k, v in own.environ.items() if not k.startswith("PIP_")}
    around = own.environ.get("no_proxy")
    variables = {
        **dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE"), str(bundle)),
        "PIP_CONFIG_FILE": str(home / "pip.conf"),
        "no_proxy": ",".join(name for name in (around, PROXY) if name),
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "APPTAINER_DOCKER_PASSWORD": SECRET,
        "APPTAINERENV_SECRET": SECRET,
        "SINGULARITYENV_SECRET": SECRET,
    }
    return World(environ={**kept, **variables}, folder=folder)


@pytest.fixture(scope="module")
def image(planted: World, tiny: Path) -> Built:
    wheels = f"site.routing.wheels=[{planted.folder / WHEELS}]"
    scratch = planted.folder / "planted scratch"
    scratch.mkdir()
    # A kept step of another test would have used nothing of what is planted.
    more = ("--set", wheels, "--tmpdir", scratch, "--no-cache")
    return planted.build(tiny, planted.folder / "out", *more)


def traces(planted: World) -> list[bytes]:
    """Name what must be found nowhere."""
    words = [WHEELS, LINKS, PROXY, TOKEN, SECRET, CERTIFICATE_LINE, str(planted.folder)]
    words += [planted.environ["HOME"], "planted scratch", "planted-ca"]
    return [word.encode() for word in words]


def test_the_planted_things_were_used(image: Built) -> None:
    log = image.log.read_text()
    # It lies in the planted folder and nowhere else; the log, which is published, names no place.
    assert "fetched in advance: dlctiny-1.0-py3-none-any.whl" in log
    assert not [word for word in (LINKS, WHEELS, TOKEN, "127.0.0.1") if word in log]
    assert [wheel["name"] for wheel in image.recorded()["python_packages"]] == ["dlctiny"]


def test_no_file_of_the_image_holds_a_trace(
    image: Built, planted: World, unsquashfs: str, tmp_path: Path
) -> None:
    offset = squashfs_offset(image.image)
    tree = tmp_path / "tree"
    argv = [unsquashfs, "-no-progress", "-quiet", "-offset", str(offset), "-dest", str(tree)]
    subprocess.run([*argv, str(image.image)], check=True, capture_output=True)
    looked, found = 0, []
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(folder) / name
            content = str(path.relative_to(tree)).encode() + b"\n"
            if path.is_symlink():
                content += os.fsencode(path.readlink())
            elif path.is_file():
                content += path.read_bytes()
                looked += 1
            found += [(path, trace) for trace in traces(planted) if trace in content]
    assert found == []
    assert looked > 3000
    assert (tree / "opt/tiny/bin/python").is_symlink()
    shutil.rmtree(tree)


def squashfs_offset(image: Path) -> int:
    """Find the file system in an image: the first superblock on a page's boundary."""
    content = image.read_bytes()
    for offset in range(0, len(content), 4096):
        if content[offset : offset + 4] == b"hsqs":
            return offset
    raise AssertionError("no squashfs")


def test_neither_metadata_nor_record_hold_a_trace(
    image: Built, planted: World, engine: Apptainer
) -> None:
    environ = dict(planted.environ)
    argv = [str(engine.program), "inspect", "--all", str(image.image)]
    done = subprocess.run(argv, env=environ, capture_output=True, check=True)
    assert b"dlctiny==1.0" in done.stdout
    deffile = [str(engine.program), "inspect", "--deffile", str(image.image)]
    text = subprocess.run(deffile, env=environ, capture_output=True, check=True).stdout
    for content in (done.stdout, text, image.record.read_bytes()):
        assert [trace for trace in traces(planted) if trace in content] == []


def test_text_and_digest_are_the_same_without(
    image: Built, planted: World, world: World, tiny: Path
) -> None:
    with_routing = ("--set", f"site.routing.wheels=[{planted.folder / WHEELS}]")
    bodies = [
        json.loads(user.run("render", tiny, "--site", "local", "--json", *more).stdout)
        for user, more in ((planted, with_routing), (world, ()))
    ]
    assert bodies[0] == bodies[1]
    assert bodies[0]["digest"] == image.body["digest"]


def test_host_does_not_change_what_validate_sees(
    pytorch_image: Built, world: World, tmp_path: Path
) -> None:
    expected = world.checks(pytorch_image.image)
    assert all(ok for ok, _ in expected.values())
    home, path = tmp_path / "home", tmp_path / "path"
    for version in ("3.11", "3.12", "3.13"):
        fake = home / f".local/lib/python{version}/site-packages/torch"
        fake.mkdir(parents=True)
        (fake / "__init__.py").write_text('__version__ = "0.0"\n')
    (path / "torch").mkdir(parents=True)
    (path / "torch/__init__.py").write_text('raise SystemExit("the host\'s torch")\n')
    maps = Path("/proc/self/maps").read_text().splitlines()
    real = next(line.split()[-1] for line in maps if "/libc.so" in line)
    spoilt = world.having(
        HOME=home,
        PYTHONPATH=path,
        PYTHONHOME_OF_OTHERS=path,
        LD_PRELOAD=f"/nonexistent/planted.so {real}",
        LD_LIBRARY_PATH=path,
        APPTAINERENV_PYTHONPATH=path,
        APPTAINERENV_LD_PRELOAD="/nonexistent/planted.so",
        SINGULARITYENV_PYTHONPATH=path,
        SINGULARITYENV_PREPEND_PATH=path,
        APPTAINER_BIND=f"{path}:/opt/pytorch",
        SINGULARITY_BIND=f"{path}:/mnt",
        APPTAINER_BINDPATH=f"{path}:/mnt",
        APPTAINER_CONTAINLIBS=real,
        OMP_NUM_THREADS="1",
    )
    assert spoilt.checks(pytorch_image.image) == expected


def test_of_each_row_of_refused_variables_none_enters_a_module_s_command(
    tiny_image: Built, world: World, engine: Apptainer, tmp_path: Path
) -> None:
    done = world.run(
        "publish", tiny_image.image, "-s", "local", "--root", tmp_path / "root", "--json"
    )
    python = Path(json.loads(done.stdout)["folder"]) / "bin/python"
    # dash itself takes no other OPTIND than a number.
    harmless = {"PATH": f"{engine.program.parent}:/usr/bin:/bin", "HOME": world.environ["HOME"]}
    harmless |= {"OPTIND": "1", "DLCONTAINER_x": SECRET}
    planted = {name.replace("*", "x"): SECRET for row in TABLE for name in row.names}
    text = "import json, os; print(json.dumps(dict(os.environ)))"
    said = subprocess.run(
        [str(python), "-c", text],
        env={**planted, "LR": "3", **harmless},
        cwd=world.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    inside = json.loads(said.stdout)
    assert inside["LR"] == "3"
    assert {name: value for name, value in inside.items() if SECRET in value} == {}


@pytest.fixture
def canaries() -> Iterator[list[Path]]:
    """Put a file into a folder of its own in the host's /tmp and /var/tmp, and nothing else."""
    folders = [
        Path(tempfile.mkdtemp(prefix="dlcontainer-canary-", dir=parent))
        for parent in ("/tmp", "/var/tmp")
    ]
    for folder in folders:
        (folder / "canary").write_text("alive")
    yield folders
    for folder in folders:
        shutil.rmtree(folder)


def seen(built: Built) -> list[str]:
    """Give what a recipe of `looking` printed, without what the shell traced."""
    return [line for line in built.log.read_text().splitlines() if not line.startswith("+")]


# Of the places where a checkout may lie: those that a step sees as other folders, and others.
CHECKOUTS = ("/tmp", "/var/tmp", "/mnt", "/root", "/home", "/opt")


@pytest.mark.parametrize("parent", CHECKOUTS)
def test_a_step_sees_nothing_of_the_engine_wherever_it_lies(
    parent: str, world: World, engine: Apptainer, tmp_path: Path
) -> None:
    own = engine.program.resolve().parents[2]
    if not (own / "record.json").is_file():
        skip("the engine here is the system's, in its own place", elsewhere="Debian or Ubuntu")
    if not os.access(parent, os.W_OK):
        skip(f"{parent} can't be written", elsewhere="a run as root")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-checkout-", dir=parent) as name:
        place = Path(name) / ".tools/apptainer"
        shutil.copytree(own, place, symlinks=True)
        lines = [f"if [ -e {name} ]; then echo SEEN {name}; fi"]
        lines += ['echo "LEFT $(ls -A /tmp /var/tmp | tr "\\n" " ")"', "ls -A / /mnt /opt"]
        recipe = write_bare(tmp_path / "a recipe", "\n".join(lines))
        search = f"{place / 'usr/bin'}:{world.environ['PATH']}"
        built = world.having(PATH=search).build(recipe, tmp_path / "out", "--no-cache")
    said = seen(built)
    # Other users' and hosts' trials may lie beside it.
    trial = f"dlcontainer/trial-{os.uname().nodename}-{os.getuid()}.json"
    tried = json.loads((Path(world.environ["XDG_CACHE_HOME"]) / trial).read_text())["program"]
    assert tried == f"{place}/usr/bin/apptainer", "another engine built it"
    assert "SEEN" not in "".join(said)
    assert "LEFT /tmp: /var/tmp:" in " ".join(" ".join(said).split())
    assert Path(name).name not in said


def test_a_build_neither_sees_nor_removes_files_of_the_host(
    canaries: list[Path], world: World, tried: EngineCapabilities, tmp_path: Path
) -> None:
    home = Path(world.environ["HOME"])
    (home / "canary").write_text("alive")
    # Exactly the canaries are looked for and removed: should the test fail, nothing else is lost.
    lines = [f"for canary in {canaries[0]} {canaries[1]} {home}/canary; do"]
    lines += ['  if [ -e "$canary" ]; then echo "SEEN $canary"; rm -rf "$canary"; fi', "done"]
    lines += ['echo "LEFT $(ls -A /tmp /var/tmp | tr "\\n" " ")"', "echo x > /tmp/written-inside"]
    recipe = write_bare(tmp_path / "a recipe", "\n".join(lines))
    # As a user has it who sets no TMPDIR: the tree itself is then unpacked in the host's /tmp.
    built = world.build(recipe, tmp_path / "out", "--tmpdir", tmp_path)
    assert [(folder / "canary").read_text() for folder in canaries] == ["alive", "alive"]
    assert (home / "canary").read_text() == "alive"
    said = " ".join(seen(built))
    assert "SEEN" not in said
    assert "LEFT /tmp: /var/tmp:" in " ".join(said.split())
    assert not Path("/tmp/written-inside").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a recipe", "out"]
