"""Sessions with nothing planted whose container is Docker's: none is refused.

`dlcontainer bench` starts containers with Apptainer. Here its `exec` of the image is carried out by
another engine, with the same environment, on the same image in that engine's store.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import Trial
from tests.integration import standin
from tests.integration.oci.daemons import Service
from tests.integration.truth import bench
from tests.integration.world import World, missing

# Not Podman: where root may not raise limits its `run` fails, since it asks for more processes.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("service", ["docker"], indirect=True, scope="session"),
]

# Nothing stands for the instance that a mount is shared by: the session leaves that series out.
SHIM = """\
#!{python}
import json, os, sys
run, name, sif, engine, service = json.loads({settled!r})
words = sys.argv[1:]
if "instance" in words:
    sys.exit("no instances here")
if sif in words and "/opt/dlcontainer/probe" in words:
    image = words.index(sif)
    variables = [words[i + 1] for i in range(image) if words[i] == "--env"]
    options = [word for variable in variables for word in ("--env", variable)]
    words = [*run, *options, name, *words[image + 1 :]]
    os.execve(words[0], words, {{**os.environ, **service}})
os.execv(engine, [engine, *words])
"""
TRAIN = ("--steps", 5, "--threads", 1, "--device", "cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image, as a file and in an engine's store, and whoever runs sessions of it."""

    world: World
    image: Path
    recipe: Path


@pytest.fixture(scope="module")
def built(world: World, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Build the stand-in, with Apptainer: what builds it is not what this is about."""
    folder = tmp_path_factory.mktemp("clean")
    recipe, wheels = standin.write(folder / "standin", standin.ASLEEP)
    own = world.having(PIP_FIND_LINKS=wheels)
    return Subject(world=own, image=own.build(recipe, folder / "image").image, recipe=recipe)


@pytest.fixture(scope="module")
def subject(
    built: Subject,
    service: Service,
    engine: Apptainer,
    tried: Trial,
    tmp_path_factory: pytest.TempPathFactory,
) -> Subject:
    """Put the image's tree into an engine's store; give a user whose Apptainer runs it there."""
    program = shutil.which("docker")
    if program is None:
        missing("docker")
    run = [program, "run", "--rm", "--network", "host"]
    variables = {"DOCKER_HOST": f"unix://{service.socket}"}
    name, folder = "localhost/clean:1", tmp_path_factory.mktemp(service.kind)
    tree, archive = folder / "tree", folder / "tree.tar"
    own = built.world.having(**variables)
    for argv in (
        engine.unpack_argv(built.image, tree, str(tried.build_mode)),
        ["tar", "-C", str(tree), "-cf", str(archive), "."],
        [program, "import", str(archive), name],
    ):
        subprocess.run(argv, env=dict(own.environ), check=True, capture_output=True, timeout=300)
    shutil.rmtree(tree)
    archive.unlink()
    shim = folder / "bin" / engine.program.name
    shim.parent.mkdir()
    settled = json.dumps([run, name, str(built.image), str(engine.program), variables])
    shim.write_text(SHIM.format(python=sys.executable, settled=settled))
    shim.chmod(0o755)
    return replace(built, world=own.having(PATH=f"{shim.parent}:{own.environ['PATH']}"))


@pytest.mark.parametrize(("probe", "more"), [("import", ()), ("train", TRAIN)])
def test_nothing_planted_is_not_refused(
    subject: Subject, tmp_path: Path, probe: str, more: tuple[object, ...]
) -> None:
    options = ("--recipe", subject.recipe, "--pairs", 8, "--controls", 0, *more)
    found = bench(subject.world, probe, subject.image, tmp_path / "x.jsonl", *options)
    stacks = {stack.arm: stack.facts for stack in found.series.stacks}
    # It was this engine, which has a filter of system calls, and no other.
    assert stacks["container"]["seccomp"] == "2"
    assert [item for item in found.differences if item.refuses] == []
    assert found.verdict.word != "NOT COMPARABLE", found.verdict.reasons
