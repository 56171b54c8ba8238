"""Every reader of bytes that somebody else wrote, with a file that it reads."""

import gzip
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import config
from dlcontainer.adopt import vetting
from dlcontainer.bench.report import inputs
from dlcontainer.bench.samples import reader as session
from dlcontainer.build.cache import step_notes
from dlcontainer.errors import DlcontainerError
from dlcontainer.formats import apptainer_metadata
from dlcontainer.image import bill_file, checks_file, libraries, open_trace, record, sif
from dlcontainer.image.contents import elf, packages_of
from dlcontainer.image.contents.layered_tree import LayeredTree
from dlcontainer.image.contents.rpm import RpmReader
from dlcontainer.image.contents.scan import _release
from dlcontainer.image.gpu_binaries import gpu_sections
from dlcontainer.lab.filesystem import strace
from dlcontainer.packages import lockfile
from dlcontainer.packages.apt import debs, image_status
from dlcontainer.proof import proof, reach
from dlcontainer.publish import checksums
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import contents, generation, journal
from dlcontainer.recipes import recipe
from dlcontainer.recipes.base import System
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.registry import archive, base_image, layer_files, oci_layout, pull
from dlcontainer.registry.oci_layout import DamagedLayoutError
from dlcontainer.sites.site import Site
from dlcontainer.system import foreign_files, machine
from dlcontainer.vulnerabilities import allowed, bill_packages
from dlcontainer.vulnerabilities import database as osv_database
from dlcontainer.vulnerabilities import records as osv_records
from tests import benchseries, elves, findings, layers, publishing
from tests import debs as made
from tests.fakes import RecordingRunner
from tests.locks import lock
from tests.sifs import write_sif
from tests.unit.image.contents.test_elf import library
from tests.unit.proof import cases
from tests.unit.vulnerabilities import cases as vulnerable
from tests.values import RECIPE, SITE, write_yaml

Read = Callable[[Path], object]
KEY = "ab" * 32
_STATE = {"time": "2026-11-21T12:00:00Z", "who": "ada", "what": "publish", "state": "done"}


_LINES = [{**_STATE, "left": number, "entered": number + 1} for number in (0, 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """How a file is read, a file that is right, and what beside our errors a caller expects."""

    read: Read
    seed: Callable[[Path], object]
    raises: tuple[type[Exception], ...] = ()
    name: str = "file"


def outcome(reader: Reader, path: Path) -> str:
    """Read a file: "read", or the message of a refusal; anything else is raised."""
    expected: tuple[type[Exception], ...] = (DlcontainerError, *reader.raises)
    try:
        reader.read(path)
    except expected as error:
        refusal = error
    else:
        return "read"
    text = str(refusal)
    if isinstance(refusal, DlcontainerError):
        assert refusal.exit_code in range(1, 10), text
        assert text.strip(), repr(refusal)
        # The cap of a line, and the words around it.
        assert max(map(len, text.split("\n"))) <= 2300, text[:3000]
    return text or type(refusal).__name__


def _site(path: Path) -> object:
    return config.validate(config.load(path, layer="site"), Site)


def _recipe(path: Path) -> object:
    return config.validate(recipe.read(path, display=str(path)), Recipe)


def _sif(path: Path) -> object:
    for part in sif.parts(path):
        sif.read(path, part)
    return sif.arch(path), sif.tree(path), sif.head(path)


def _session(path: Path) -> object:
    series = session.read(path)
    for sample in series.samples:
        for metric in ("wall_s", "import_s", "counts.files"):
            sample.figure(metric)
    return series.seal


def _session_seed(path: Path) -> object:
    return benchseries.write(path, benchseries.Plan(pairs=2, control_pairs=1))


def _in_folder(of: Callable[[Folder], object], name: str) -> Read:
    """Let a reader find the file under the name that it has in a published tree."""

    def read(path: Path) -> object:
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            with Folder.at(Path(scratch)) as folder:
                return of(folder)

    return read


def _bill(path: Path) -> object:
    text = path.read_bytes()
    return bill_file.names(text), bill_file.restricted(text)


def _packages(at: str) -> Read:
    """Read a file as one of an image's databases."""

    def read(path: Path) -> object:
        reader = RpmReader(runner=RecordingRunner(), environ={})
        return packages_of({at: path}, reader, path.parent)[0]

    return read


def _layout(path: Path) -> object:
    body = path.read_bytes()
    digest = base_image.sha256(body)
    with tempfile.TemporaryDirectory() as scratch:
        blobs = Path(scratch) / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        (blobs / digest.removeprefix("sha256:")).write_bytes(body)
        return oci_layout.follow(Path(scratch), digest, "x86_64")


def _archive(path: Path) -> object:
    with tempfile.TemporaryDirectory() as scratch:
        return archive.unpack(path, "x86_64", Path(scratch) / "out", 10**8)


def _layer(path: Path) -> object:
    with tempfile.TemporaryDirectory() as scratch:
        blobs = Path(scratch) / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        (blobs / KEY).write_bytes(path.read_bytes())
        vetting.require_layers(
            Path(scratch), {"layers": [{"digest": f"sha256:{KEY}"}]}, 10**8, path
        )
    chunks = iter([path.read_bytes()])
    return layer_files.read(chunks, ["/etc/os-release"], layer_files.Bounds(layer=10**8))


def _status(path: Path) -> object:
    text = path.read_text(errors="replace")
    files = {"/var/lib/dpkg/status": text, "/usr/lib/os-release": layers.BOOKWORM.decode()}
    stated = System(distribution="debian", release="bookworm", source="a page")
    return image_status.read(files, stated, "docker://example.org/a/b")


def _host(path: Path) -> object:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("etc/os-release", "proc/cpuinfo", "proc/meminfo"):
            target = Path(scratch) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
        return machine.read_host({}, root=Path(scratch))


def _data(data: bytes | str) -> Callable[[Path], object]:
    body = data.encode() if isinstance(data, str) else data
    return lambda path: path.write_bytes(body)


def _json(value: object) -> Callable[[Path], object]:
    return _data(json.dumps(value, indent=1))


def _record_seed(path: Path) -> object:
    with tempfile.TemporaryDirectory() as scratch:
        made = publishing.image_of(Path(scratch))
        return path.write_bytes(made.with_suffix(".json").read_bytes())


def _oci(path: Path) -> object:
    config_, layer = json.dumps({"architecture": "amd64"}).encode(), gzip.compress(b"")
    manifest = json.dumps(
        {
            "config": {"digest": base_image.sha256(config_), "size": len(config_)},
            "layers": [{"digest": base_image.sha256(layer), "size": len(layer)}],
        }
    ).encode()
    index = {"manifests": [{"digest": base_image.sha256(manifest), "size": len(manifest)}]}
    blobs = {
        "blobs/sha256/" + base_image.sha256(body).removeprefix("sha256:"): body
        for body in (config_, layer, manifest)
    }
    return path.write_bytes(layers.tar({**blobs, "index.json": json.dumps(index).encode()}))


_MANIFEST = {
    "config": {"digest": f"sha256:{KEY}", "size": 2},
    "layers": [{"digest": f"sha256:{KEY}", "size": 2}],
}
_GENERATION = {
    "schema": "dlcontainer/generation/1",
    "number": 1,
    "base": 0,
    "what": "publish",
    "who": "ada",
    "time": "2026-11-21T12:00:00Z",
    "entries": [
        {
            "name": "demo",
            "version": "1.0",
            "digest": KEY,
            "default": True,
            "aliases": ["new"],
            "deprecated": {"message": "old", "removal": "2027-01-01"},
        }
    ],
}
_RELEASE = {
    "schema": contents.SCHEMA,
    "name": "demo",
    "version": "1.0",
    "image": KEY,
    "folder": "/sw/releases/x",
}
_NOTE = {
    "key": KEY,
    "name": "work",
    "maker": "ada",
    "made": "2026-11-21T12:00:00Z",
    "size": 1,
    "packages": [{"name": "tiny", "version": "1"}],
    "sha256": KEY,
}
_VALIDATED = {"schema": checks_file.VALIDATED, "ok": True, "plan": KEY, "date": "2026-11-21"}
_LIBRARIES = {
    "schema": libraries.SCHEMA,
    "libraries": [{"path": "/opt/libx.so", "soname": "libx.so", "needed": ["libc.so.6"]}],
}
_BILL = {"bomFormat": "CycloneDX", "components": [{"name": "tiny", "version": "1"}]}
_ALLOWED = {
    "schema": 1,
    "allowed": [{"id": "CVE-2026-1", "reason": "a test", "expires": "2027-01-01"}],
}
_HOST = "ID=debian\nVERSION_ID=12\nmodel name : A\nMemTotal: 32000 kB\nMemAvailable: 30000 kB\n"
_CALLS = '12 openat(AT_FDCWD, "/a\\x20b", O_RDONLY) = 3</a b>\n12 read(3</a b>, "x", 9) = 1\n'
_ODD = (ValueError, KeyError, TypeError)


def _bill_packages(path: Path) -> None:
    bill_packages.read(path.read_bytes())
    list(bill_packages.listed(path.read_bytes()))


def _osv_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", json.dumps(vulnerable.COVER))


_ELF = elves.Elf(
    needed=("libc.so.6",),
    soname="x.so",
    rpath="/opt/lib",
    runpath="$ORIGIN",
    needs={"libc.so.6": ("GLIBC_2.34",)},
    versions=("x.so", "X_1"),
    sections={
        ".nv_fatbin": elves.fatbin(("elf", 90, 0x100000), ("ptx", 80, 0)),
        ".hip_fatbin": elves.bundle("gfx90a:xnack-")
        + elves.packed(elves.bundle("gfx942"), zlib.compress(elves.bundle("gfx942"))),
    },
)

READERS: Mapping[str, Reader] = {
    "site": Reader(read=_site, seed=lambda path: write_yaml(path, SITE), name="site.yaml"),
    "recipe": Reader(read=_recipe, seed=lambda path: write_yaml(path, RECIPE), name="recipe.yaml"),
    "lock": Reader(read=lockfile.read, seed=lambda path: lockfile.write(path, lock())),
    "record": Reader(read=record.read, seed=_record_seed),
    "sif": Reader(read=_sif, seed=write_sif),
    "proof": Reader(
        read=proof.read, seed=lambda path: cases.write(path, cases.content()), name="proof.json"
    ),
    "validated": Reader(read=lambda path: reach.read([path]), seed=_json(_VALIDATED)),
    "session": Reader(read=_session, seed=_session_seed),
    "finding": Reader(read=inputs.read, seed=lambda path: findings.write(path, findings.storm())),
    "journal": Reader(
        read=_in_folder(journal.read, journal.FILE),
        seed=_data(
            "".join(json.dumps({**_STATE, "left": n, "entered": n + 1}) + "\n" for n in (0, 1))
        ),
    ),
    "generation": Reader(
        read=_in_folder(lambda folder: generation.read(folder, 1), "1/generation.json"),
        seed=_json(_GENERATION),
    ),
    "release": Reader(read=_in_folder(contents.described, contents.FILE), seed=_json(_RELEASE)),
    "checksums": Reader(
        read=lambda path: checksums.read(path.read_bytes()),
        seed=_data(checksums.text({"image.sif": KEY, "bin/python": KEY})),
        raises=(ValueError,),
    ),
    "step-note": Reader(
        read=lambda path: step_notes.read(path.read_bytes(), KEY),
        seed=_json(_NOTE),
        raises=(ValueError,),
    ),
    "bill": Reader(
        read=lambda path: bill_file.names(path.read_bytes()), seed=_json(_BILL), raises=_ODD
    ),
    "bill-packages": Reader(read=_bill_packages, seed=_data(vulnerable.bill())),
    "osv-record": Reader(
        read=lambda path: osv_records.parse(path.read_bytes()),
        seed=_json(vulnerable.COVER),
        raises=(ValueError,),
    ),
    "osv-folder": Reader(
        read=lambda path: list(osv_database.read(path)), seed=_json(vulnerable.COVER), name="a.json"
    ),
    "osv-zip": Reader(
        read=lambda path: list(osv_database.read(path)), seed=_osv_zip, name="all.zip"
    ),
    "allow-list": Reader(
        read=allowed.load, seed=lambda path: write_yaml(path, _ALLOWED), name="allowed.yaml"
    ),
    "libraries": Reader(
        read=lambda path: libraries.read(path.read_text(errors="replace")),
        seed=_json(_LIBRARIES),
        raises=_ODD,
    ),
    "trace": Reader(read=open_trace.read, seed=_data(f"{open_trace.HEADER}\nopt/a.py\nopt/b.py\n")),
    "dpkg": Reader(read=_packages("/var/lib/dpkg/status"), seed=_data(layers.BASH)),
    "dist-info": Reader(
        read=_packages("/opt/a/x-1.dist-info/METADATA"), seed=_data("Name: x\nVersion: 1\n\nlong")
    ),
    "egg-info": Reader(read=_packages("/opt/x.egg-info"), seed=_data("Name: x\nVersion: 1\n")),
    "conda": Reader(
        read=_packages("/opt/conda-meta/x.json"),
        seed=_json({"name": "x", "version": "1", "paths_data": {"paths": [{"size_in_bytes": 3}]}}),
    ),
    "os-release": Reader(
        read=lambda path: _release({"/etc/os-release": path}), seed=_data(layers.BOOKWORM)
    ),
    "base-status": Reader(read=_status, seed=_data(layers.BASH)),
    "host": Reader(read=_host, seed=_data(_HOST)),
    "elf": Reader(
        read=lambda path: (elf.libraries({"/x.so": path}), elf.version_needs(path)),
        seed=lambda path: path.write_bytes(library(wide=True, order="<")),
        raises=(ValueError,),
    ),
    "elf-object": Reader(
        read=elf.read_object,
        seed=lambda path: path.write_bytes(_ELF.data()),
        raises=(ValueError,),
    ),
    "device-code": Reader(
        read=gpu_sections.read, seed=lambda path: path.write_bytes(_ELF.data()), raises=(OSError,)
    ),
    "layers": Reader(
        read=lambda path: LayeredTree(layers=[path, path], most_bytes=10**8).entries(),
        seed=lambda path: path.write_bytes(
            gzip.compress(layers.tar({"etc/.wh.a": b"", "a": b"1"}))
        ),
    ),
    "deb": Reader(read=debs.control, seed=lambda path: path.write_bytes(made.deb({"a": b"b"}))),
    "manifest": Reader(
        read=lambda path: pull.parts(foreign_files.loads(path.read_bytes()), path),
        seed=_json(_MANIFEST),
        raises=(ValueError,),
    ),
    "layout": Reader(read=_layout, seed=_json(_MANIFEST), raises=(DamagedLayoutError,)),
    "archive": Reader(read=_archive, seed=_oci),
    "layer": Reader(
        read=_layer,
        seed=lambda path: path.write_bytes(gzip.compress(layers.tar({"etc/os-release": b"ID=a"}))),
        raises=(layer_files.RefusedLayerError,),
    ),
    "environment": Reader(
        read=lambda path: apptainer_metadata.exported(
            dict.fromkeys(apptainer_metadata.ENVIRONMENT, path.read_text(errors="replace"))
        ),
        seed=_data('export A="b c"\nexport B=${B:-"x"}\n'),
    ),
    "strace": Reader(
        read=lambda path: strace.total(strace.calls(path.read_text(errors="replace").splitlines())),
        seed=_data(
            '12 openat(AT_FDCWD, "/a\\x20b", O_RDONLY) = 3</a b>\n12 read(3</a b>, "x", 9) = 1\n'
        ),
    ),
}
