"""Ranks of the real PyTorch prove themselves inside an image, and the host judges their file."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from dlcontainer.system.machine import find_program
from tests.integration.world import Built, World, missing

RANKS = 3
PYTHON = "/opt/pytorch/bin/python"


@pytest.mark.timeout(900)
def test_ranks_of_pytorch_meet_by_env(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built, tmp_path: Path
) -> None:
    started = []
    for rank in range(RANKS):
        spec = RunSpec(
            image=pytorch_image.image,
            argv=(PYTHON, layout.PROBE, "prove", "--out", "/mnt", "--minutes", "5"),
            mode=tried.run_mode or "plain",
            environment={
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(RANKS),
                "OMP_NUM_THREADS": "1",
            },
            binds=((tmp_path, "/mnt"),),
            together=True,
        )
        started.append(
            subprocess.Popen(
                engine.run_argv(spec),
                env=apptainer.environment(world.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    ended = [(one.communicate()[0], one.returncode) for one in started]
    assert [code for _, code in ended] == [0] * RANKS, ended
    done = world.run("prove", tmp_path, "--image", pytorch_image.image, "--json")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    states = {name: finding["state"] for name, finding in findings.items()}
    assert (states["image"], states["site"]) == ("ok", "ok")
    assert findings["ranks"]["detail"].startswith(f"{RANKS} of {RANKS} ranks on ")
    assert (states["sums"], findings["sums"]["detail"]) == ("ok", "each value right over gloo")
    assert (states["network"], states["bandwidth"]) == ("not tried", "not tried")
    shown = world.run("site", "show", "local", "--proof", tmp_path).stdout
    assert "ran on its nodes: 20" in shown
    assert "ran on several nodes over its fabric: not shown" in shown
    body = (tmp_path / "proof.json").read_text()
    (tmp_path / "proof.json").write_text(body.replace('"off": 0.0', '"off": 0.5', 1))
    refused = world.run("prove", tmp_path, code=1)
    assert "changed after the job wrote it" in refused.stderr


STUB = """\
typedef struct { const char *name; void *functions[30]; } net_t;
"""


def compiled(folder: Path, name: str, text: str) -> Path:
    """Compile a shared library of a few lines of C."""
    compiler = find_program("gcc", os.environ) or find_program("cc", os.environ)
    if compiler is None:
        missing("a C compiler")
    source = folder / f"{name}.c"
    source.write_text(text)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / name, source], check=True, capture_output=True
    )
    return folder / name


def plug_in(*versions: int) -> str:
    lines = [f'const net_t ncclNetPlugin_v{one} = {{ .name = "Stub fabric" }};' for one in versions]
    return STUB + "\n".join(lines)


def asking(*versions: int) -> str:
    """Give the text of an NCCL that asks for these: their names stand in its bytes."""
    names = ", ".join(f'"ncclNetPlugin_v{one}"' for one in versions)
    return f"const char *const dlc_asked[] = {{ {names} }};\n"


@pytest.mark.parametrize(
    ("versions", "asked", "error"),
    [
        ((6, 7, 8, 9, 10), (8, 9, 10), ""),
        ((6,), (), ""),
        (
            (6,),
            (8, 9, 10),
            "_v6, and NCCL here asks for ncclNetPlugin_v8, v9, v10",
        ),
        ((), (), "has no ncclNetPlugin_vN: it is no network plug-in"),
    ],
    ids=["a plug-in", "no NCCL", "another ABI", "no plug-in"],
)
@pytest.mark.timeout(900)
def test_the_plug_in_is_found_bound_and_named(
    world: World,
    engine: Apptainer,
    tried: EngineCapabilities,
    pytorch_image: Built,
    tmp_path: Path,
    versions: tuple[int, ...],
    asked: tuple[int, ...],
    error: str,
) -> None:
    """The library is a stub that nobody calls, and so is NCCL: an image for CPUs has none."""
    host, out = tmp_path / "ofi lib", tmp_path / "out"
    for folder in (host, out):
        folder.mkdir()
    library = compiled(host, "libnccl-net.so", plug_in(*versions) or STUB)
    environment = {"NCCL_NET_PLUGIN": f"/host-ofi/{library.name}", "OMP_NUM_THREADS": "1"}
    if asked:
        compiled(host, "libnccl.so.2", asking(*asked))
        environment["LD_PRELOAD"] = "/host-ofi/libnccl.so.2"
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, layout.PROBE, "prove", "--out", "/mnt"),
        mode=tried.run_mode or "plain",
        environment=environment,
        binds=((host, "/host-ofi"), (out, "/mnt")),
        together=True,
    )
    done = subprocess.run(
        engine.run_argv(spec), env=apptainer.environment(world.environ), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (1 if error else 0), done.stderr
    judged = world.run("prove", out, "--json", code=None)
    findings = {finding["name"]: finding for finding in json.loads(judged.stdout)["findings"]}
    assert (findings["ranks"]["state"] == "failed") is bool(error)
    if error:
        assert error in findings["plug-in"]["detail"]
        return
    listed = ", ".join(f"v{one}" for one in versions)
    span = f"; NCCL asks for v{asked[0]} to v{asked[-1]}" if asked else ""
    assert findings["plug-in"]["detail"] == (
        f"Stub fabric ({listed}) of /host-ofi/libnccl-net.so{span}"
    )
