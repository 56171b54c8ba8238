"""What tests with real tools share: an isolated user, the command line, small recipes, a wheel."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from dlcontainer.config.field_types import ARCHES, DEBIAN_ARCH
from dlcontainer.system.machine import missing_packages, read_host
from tests.skips import Elsewhere, skip

# Short steps without any package of the distribution's, for what is not about Python.
BARE = """\
schema: 1
name: bare
version: "1.0"
summary: A root tree and a file, for tests
space_mb: 300
base: {distribution: debian, release: bookworm}
prefix: /opt/bare
steps:
  - name: note
    files: {note.txt: /opt/bare/note.txt}
  - name: work
    shell: |
WORK
exposes: [sh]
environment: {BARE: "a b'c"}
verify: {script: verify.py}
"""

# A Python, an environment and one wheel that the tests make themselves.
TINY = """\
schema: 1
name: tiny
version: "1.0"
summary: A Python and one small wheel, for tests
space_mb: 300
base: {distribution: debian, release: bookworm}
prefix: /opt/tiny
steps:
  - name: system
    os_packages: [python3, python3-venv]
  - name: wheel
    python_packages:
      packages: [dlctiny==1.0]
exposes: [python]
verify:
  script: verify.py
  imports: {dlctiny: "1.0"}
"""

VERIFY = """\
import json
import dlctiny
print(json.dumps({"ok": True, "what": "answer", "answer": dlctiny.ANSWER}))
"""


# The first two take long enough to be kept.
STEPPED = """\
schema: 1
name: stepped
version: "1.0"
summary: A recipe of several steps, for tests
space_mb: 300
base: {distribution: debian, release: bookworm}
prefix: /opt/stepped
versions: {first: "1", second: "1", third: "1"}
steps:
  - {name: first, shell: "echo {{ versions.first }} > /opt/first; sleep 2"}
  - {name: second, shell: "echo {{ versions.second }} > /opt/second; sleep 2"}
  - {name: third, shell: "echo {{ versions.third }} > /opt/third"}
exposes: [sh]
verify: {script: verify.py}
"""


def missing(what: str) -> NoReturn:
    """Say what a test lacks: on a laptop it is skipped, in CI it fails."""
    skip(f"no {what} here; type `make setup`")


def require_twin() -> None:
    """Need what a native twin of the tiny recipe is made with; as a user one can't install it."""
    lacking = missing_packages(("python3", "python3-venv"), read_host(os.environ))
    if lacking:
        # Root's set-up installs them: that they are missing then is no reason to skip in CI.
        elsewhere: Elsewhere | None = None if os.geteuid() == 0 else "a run as root"
        skip(f"no native twin: apt-get install {' '.join(lacking)}", elsewhere=elsewhere)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What `dlcontainer build --json` said, read."""

    image: Path
    record: Path
    log: Path
    sbom: Path
    body: Mapping[str, Any]

    def recorded(self) -> dict[str, Any]:
        return dict(json.loads(self.record.read_text()))

    def steps(self, *, kept: bool) -> list[str]:
        """Name the steps that were taken from the cache, or those that were run."""
        work = self.recorded()["work"]
        return [step["name"] for step in work if (step["seconds"] is None) is kept]


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A user of dlcontainer with a home and a TMPDIR of its own."""

    environ: Mapping[str, str]
    folder: Path
    # How the command line is called; a test may give another interpreter.
    program: tuple[str, ...] = (str(Path(sys.executable).with_name("dlcontainer")),)
    # How long a command may take, s; what compiles takes longer.
    patience_s: float = 600

    def having(self, **variables: str | Path) -> "World":
        """Give the same world with other variables."""
        changes = {name: str(value) for name, value in variables.items()}
        return replace(self, environ={**self.environ, **changes})

    def run(
        self,
        *argv: str | Path,
        code: int | None = 0,
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command line to its end; the exit code must be `code` unless that is None."""
        done = subprocess.run(
            [*self.program, *map(str, argv)],
            env=dict(self.environ),
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout or self.patience_s,
            check=False,
        )
        assert code in (None, done.returncode), f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def build(self, recipe: str | Path, output: Path, *argv: str | Path) -> Built:
        """Build for site local."""
        done = self.run("build", recipe, "--site", "local", "-o", output, "--json", *argv)
        body = json.loads(done.stdout)
        # What stays in an engine's store is no file.
        paths = {key: Path(body[key] or os.devnull) for key in ("image", "record", "log", "sbom")}
        return Built(body=body, **paths)

    def base(self) -> Path:
        """Give the base that this world has made of the host's own release and architecture."""
        host = read_host(self.environ)
        arch = next(DEBIAN_ARCH[arch] for arch in ARCHES if arch == host.arch)
        name = f"{host.distribution}-{host.release}-{arch}"
        return Path(self.environ["XDG_CACHE_HOME"]) / "dlcontainer/bases" / name / "base.sqfs"

    def checks(self, image: Path, *, code: int = 0) -> dict[str, tuple[bool, str]]:
        """Validate an image; give each check's outcome and detail."""
        body = json.loads(self.run("validate", image, "--json", code=code).stdout)
        assert body["ok"] is (code == 0)
        return {check["name"]: (check["ok"], check["detail"]) for check in body["checks"]}


def isolated(folder: Path, cache: Path) -> World:
    """Make a world in a folder: nothing of this user's home but where pip finds packages."""
    home, tmp = folder / "home", folder / "tmp"
    tmp.mkdir(parents=True)
    for name in (".config/pip/pip.conf", ".pip/pip.conf"):
        there = Path(os.environ.get("HOME", "/")) / name
        if there.is_file():
            (home / name).parent.mkdir(parents=True)
            shutil.copyfile(there, home / name)
    home.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "APPTAINER", "SINGULARITY", "LD_", "PYTHON"))
    }
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp)}
    return World(environ={**kept, **own}, folder=folder)


def write_bare(folder: Path, work: str = "true", *, space_mb: int = 300) -> Path:
    """Write the recipe without packages, with a snippet as its work."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(f"      {line}" for line in work.splitlines())
    text = BARE.replace("WORK", lines).replace("space_mb: 300", f"space_mb: {space_mb}")
    (folder / "recipe.yaml").write_text(text)
    (folder / "note.txt").write_text("a note\n")
    (folder / "verify.py").write_text("")
    return folder


def write_tiny(folder: Path) -> Path:
    """Write the recipe with a Python and a wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(TINY)
    (folder / "verify.py").write_text(VERIFY)
    return folder


def write_wheel(folder: Path, version: str = "1.0") -> Path:
    """Make the wheel of the module dlctiny."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"dlctiny-{version}.dist-info"
    files = {
        "dlctiny.py": f'__version__ = "{version}"\nANSWER = 42\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: dlctiny\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    rows = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        rows.append(f"{name},sha256={digest.rstrip(b'=').decode()},{len(text)}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"dlctiny-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path
