"""Which variables a wrapper hands to the engine: hostile names and values, two shells."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.planning.launch.refused_variables import TABLE
from tests.integration.publish.test_wrapper_modes import Fake, fake

HAND = "APPTAINERENV_"
SHOWN = (
    f"#!{sys.executable} -IS\n"
    """\
import json, os
shown = {k: v for k, v in os.environb.items()}
with open(__file__ + ".json", "w", encoding="latin-1") as file:
    json.dump({k.decode("latin-1"): v.decode("latin-1") for k, v in shown.items()}, file)
"""
)
# One of each pattern of the table.
PLANTED = {name.replace("*", "x"): "planted" for row in TABLE for name in row.names}
# What this process, the shells and the test's own set-up need.
KEPT = (
    "OPTIND",
    "PATH",
    "HOME",
    "BASHx",
    "SHELLOPTS",
    "_",
    "DLCONTAINER_x",
    "LD_x",
    "IFS",
    "UID",
    "EUID",
    "PPID",
)
HOSTILE = {
    "NEWLINE": "a\nexport LD_LIBRARY_PATH=/evil\nexport dlc_name=x\nexport APPTAINERENV_LR=evil\n",
    "QUOTES": "'\"$(touch CANARY)`touch CANARY`\\ ${HOME} \\\\$",
    "EMPTY": "",
    "SPACES": "  a  b\t",
    "GLOB": "* ? [a]",
}


def shelf_with(tmp_path: Path, shell: str) -> Fake:
    there = fake(tmp_path, modules={"pass_environment": ["PERL5*"]})
    there.program.write_text(SHOWN)
    path = Path(there.shelf.python)
    path.write_text(path.read_text().replace("#!/bin/sh", f"#!{shell}", 1))
    return there


def handed(there: Fake, environ: dict[bytes, bytes]) -> dict[str, bytes]:
    """Run the wrapper in an environment of bytes; give what the engine gets for the image."""
    mine = {k.encode(): v.encode() for k, v in there.shelf.environ.items()}
    mine[b"DLCONTAINER_RUN_MODE"] = b"plain"
    argv = [there.shelf.python, "-c", "0"]
    subprocess.run(argv, env={**mine, **environ}, check=True, cwd=there.shelf.environ["HOME"])
    seen = json.loads(Path(f"{there.program}.json").read_text(encoding="latin-1"))
    assert not {name for name in seen if name.startswith(("APPTAINER_", "SINGULARITY"))}
    found = {name: value for name, value in seen.items() if name.startswith(HAND)}
    return {name.removeprefix(HAND): value.encode("latin-1") for name, value in found.items()}


@pytest.fixture(params=["/bin/sh", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    found = shutil.which(request.param)
    assert found is not None
    return f"{found} --posix" if request.param == "bash" else found


def test_what_the_table_says_stays_outside(tmp_path: Path, shell: str) -> None:
    there = shelf_with(tmp_path, shell)
    planted = {name: value for name, value in PLANTED.items() if name not in KEPT}
    assert len(planted) > 100
    given = {**planted, "LR": "3", "PYTHONHASHSEED": "0", "LAB_1": "x", "APPTAINER_BIND": "/etc"}
    got = handed(there, {k.encode(): v.encode() for k, v in given.items()})
    assert {got["LR"], got["PYTHONHASHSEED"], got["LAB_1"]} == {b"3", b"0", b"x"}
    # The wrapper's own word for it, and the site's wish.
    assert {name for name in planted if name in got} == {"PYTHONNOUSERSITE", "PERL5x"}
    assert got["PYTHONNOUSERSITE"] == b"1"
    asked = handed(
        there, {b"DLCONTAINER_PASS": b"LD_AUDIT,LANG IFS", b"LD_AUDIT": b"", b"IFS": b"x"}
    )
    assert "LD_AUDIT" in asked
    assert "LANG" in asked
    assert "IFS" not in asked


def test_hostile_values_arrive_and_nothing_runs(tmp_path: Path, shell: str) -> None:
    there = shelf_with(tmp_path, shell)
    given = {k.encode(): v.encode() for k, v in HOSTILE.items()}
    given |= {b"BYTES": b"\xff\xfe $x\n", b"LR": b"3", b"BASH_FUNC_f%%": b"() { touch CANARY; }"}
    given |= {b"A.B": b"1", b"A B": b"1", b"\xff": b"1", b"-x": b"1", b"1A": b"1"}
    got = handed(there, given)
    for name, value in given.items():
        text = name.decode("latin-1")
        if text.isidentifier() and text.isascii():
            # The engine evaluates a value as a shell does between double quotes.
            assert unquoted(got[text]) == value
        else:
            assert text not in got
    assert not {"LD_LIBRARY_PATH", "dlc_name"} & {*got}
    assert not list(tmp_path.rglob("CANARY"))


def unquoted(value: bytes) -> bytes:
    for mark in (b"$", b"`"):
        value = value.replace(b"\\" + mark, mark)
    return value.replace(b"\\\\", b"\\")


def test_debugging_names_what_stays_outside_once(tmp_path: Path) -> None:
    there = fake(tmp_path)
    variables: dict[str, Any] = {
        "DLCONTAINER_DEBUG": "1",
        "CONDA_PREFIX": "/c",
        "LD_ORIGIN_PATH": "/x",
        "LR": "3",
    }
    variables["SSL_CERT_FILE"] = "/etc/not-shown.pem"
    said = there.shelf.run(there.shelf.python, **variables).stderr
    (line,) = [line for line in said.splitlines() if "stay outside" in line]
    names = line.partition("outside: ")[2].split()
    assert {"CONDA_PREFIX", "LD_ORIGIN_PATH", "LANG", "SSL_CERT_FILE"} == {*names}
    assert "dlcontainer site environment" in said
    assert "LR" not in names
    assert there.shelf.run(there.shelf.python, SLURM_PROCID="1", **variables).stderr == ""
    del variables["DLCONTAINER_DEBUG"]
    assert there.shelf.run(there.shelf.python, **variables).stderr == ""
