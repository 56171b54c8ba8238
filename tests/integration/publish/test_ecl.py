"""The execution control list in the real Apptainer, in a private copy of it with its own keyring.

Apptainer 1.4.5 asks both files without setuid as well; there a user may take another engine.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.publish import ecl
from tests.integration.publish.tools import clean_home
from tests.integration.world import Built
from tests.skips import skip
from tests.trees import put


class Engine:
    """A copy of the engine, by hard links, with a configuration of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        prefix = program.parents[2]
        if prefix == Path("/"):
            skip("the engine is the system's: its configuration is not the test's to change")
        shutil.copytree(prefix, folder / "engine", symlinks=True, copy_function=os.link)
        self.environ = {**clean_home(folder), "APPTAINER_CACHEDIR": str(folder / "cache")}
        self.program = folder / "engine" / program.relative_to(prefix)
        (self.etc,) = {path.resolve() for path in (folder / "engine").rglob("etc/apptainer")}

    def run(self, *argv: object, code: int = 0, stdin: str = "") -> str:
        done = subprocess.run(
            [self.program, "--nocolor", *map(str, argv)],
            env=self.environ, capture_output=True, text=True, timeout=300, check=False,
            input=stdin,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def configure(self, name: str, text: str) -> None:
        """Replace a file: the one that is there has another name elsewhere."""
        (self.etc / name).unlink()
        (self.etc / name).write_text(text)


def test_signed_images_of_the_tree_run(
    engine: Apptainer, tiny_image: Built, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        skip("only root has a global keyring", elsewhere="a run as root")
    own = Engine(engine.program.resolve(), tmp_path)
    own.run("key", "newpair", "-N", "a centre", "-E", "a@example.org", "-C", "", "-P", "",
            "--push=false")  # fmt: skip
    (key,) = re.findall(r"\b[0-9A-F]{40}\b", own.run("key", "list"))
    own.run("key", "export", tmp_path / "public.asc", stdin="0\n")
    own.run("key", "import", "--global", tmp_path / "public.asc")
    root, image, unsigned = (tmp_path / name for name in ("root", "signed.sif", "unsigned.sif"))
    root.mkdir()
    for path in (image, unsigned):
        shutil.copyfile(tiny_image.image, path)
    own.run("sign", image)
    put(root, image)
    put(root, unsigned, "2.0")
    signed, other = (
        (root / f"modules/lmod/demo/{version}.lua").resolve().parent / "image.sif"
        for version in ("1.0", "2.0")
    )
    limits = ecl.read(root, [key], "whitelist")
    own.configure("ecl.toml", ecl.ecl(limits))
    conf = (own.etc / "apptainer.conf").read_text()
    own.configure("apptainer.conf", f"{conf}\n{ecl.apptainer_conf(limits)}")
    python = ("python3", "-c", "pass")
    own.run("exec", "--userns", signed, *python)
    assert "ECL" in own.run("exec", "--userns", other, *python, code=255)
    # The same bytes elsewhere: both files are of places too.
    elsewhere = ("exec", "--userns", image, *python)
    assert "not in an allowed configured path" in own.run(*elsewhere, code=255)
    own.configure("apptainer.conf", conf)
    assert "not part of any execgroup" in own.run(*elsewhere, code=255)
    # Of another key, and without any.
    own.configure("ecl.toml", ecl.ecl(ecl.read(root, ["0" * 40], "whitelist")))
    assert "required entities" in own.run("exec", "--userns", signed, *python, code=255)
    own.configure("ecl.toml", ecl.ecl(ecl.read(root, [], "whitelist")))
    own.run("exec", "--userns", signed, *python)
    assert "ECL" in own.run("exec", "--userns", other, *python, code=255)
    # What docs say: a release that was collected ends each start until the list is written again.
    (root / "releases" / other.parent.name).rename(tmp_path / "collected")
    assert "no such file" in own.run("exec", "--userns", signed, *python, code=255)
