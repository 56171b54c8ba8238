"""Sessions with nothing planted whose container is Docker's or Podman's: none is refused.

`dlcontainer bench` starts containers with Apptainer. Here its `exec` of the image is carried out by
another engine, with the same environment, on the same image in that engine's store.
"""

import json
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import Trial
from dlcontainer.engines.oci import OCI_KINDS
from tests.integration import standin
from tests.integration.oci.daemons import Service
from tests.integration.truth import bench
from tests.integration.world import World, missing

pytestmark = [
    pytest.mark.long,  # whose each fact is: tests/unit/bench/samples/test_owners.py
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("service", OCI_KINDS, indirect=True, scope="session"),
]

# Nothing stands for the instance that a mount is shared by: the session leaves that series out.
SHIM = """\
#!{python}
import json, os, sys
run, name, sif, engine = json.loads({settled!r})
words = sys.argv[1:]
if "instance" in words:
    sys.exit("no instances here")
if sif in words and "/opt/dlcontainer/probe" in words:
    image = words.index(sif)
    variables = [words[i + 1] for i in range(image) if words[i] == "--env"]
    options = [word for variable in variables for word in ("--env", variable)]
    words = [*run, *options, name, *words[image + 1 :]]
    os.execv(words[0], words)
os.execv(engine, [engine, *words])
"""
NAME = "localhost/clean:1"
TRAIN = ("--steps", 5, "--threads", 1, "--device", "cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image, as a file and in an engine's store, and whoever runs sessions of it."""

    world: World
    image: Path
    recipe: Path
    # Apptainer, and the words that run a container of the other engine.
    engine: Path
    run: tuple[str, ...] = ()

    def through(self, folder: Path, *more: str) -> World:
        """Give a user whose Apptainer runs the image in the other engine, with more words."""
        shim = folder / "bin" / self.engine.name
        shim.parent.mkdir()
        settled = json.dumps([[*self.run, *more], NAME, str(self.image), str(self.engine)])
        shim.write_text(SHIM.format(python=sys.executable, settled=settled))
        shim.chmod(0o755)
        return self.world.having(PATH=f"{shim.parent}:{self.world.environ['PATH']}")


@pytest.fixture(scope="module")
def built(world: World, engine: Apptainer, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Build the stand-in, with Apptainer: what builds it is not what this is about."""
    folder = tmp_path_factory.mktemp("clean")
    recipe, wheels = standin.write(folder / "standin", standin.ASLEEP)
    own = world.having(PIP_FIND_LINKS=wheels)
    image = own.build(recipe, folder / "image").image
    return Subject(world=own, image=image, recipe=recipe, engine=engine.program)


@pytest.fixture(scope="module")
def subject(
    built: Subject,
    service: Service,
    engine: Apptainer,
    tried: Trial,
    tmp_path_factory: pytest.TempPathFactory,
) -> Subject:
    """Put the image's tree into an engine's store."""
    program = shutil.which(service.kind)
    if program is None:
        missing(service.kind)
    socket = f"unix://{service.socket}"
    own = [program, *(["--host"] if service.kind == "docker" else ["--remote", "--url"]), socket]
    folder = tmp_path_factory.mktemp(service.kind)
    tree, archive = folder / "tree", folder / "tree.tar"
    for argv in (
        engine.unpack_argv(built.image, tree, str(tried.build_mode)),
        ["tar", "-C", str(tree), "-cf", str(archive), "."],
        [*own, "import", str(archive), NAME],
    ):
        subprocess.run(
            argv, env=dict(built.world.environ), check=True, capture_output=True, timeout=300
        )
    shutil.rmtree(tree)
    archive.unlink()
    run = [*own, "run", "--rm", "--network", "host"]
    if service.kind == "podman":
        run += ["--http-proxy=false", *_limits()]
    return replace(built, run=tuple(run))


def _limits() -> list[str]:
    """Give the limits that root's Podman sets, as far as they may be set on any machine."""
    processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


@pytest.mark.parametrize(("probe", "more"), [("import", ()), ("train", TRAIN)])
def test_nothing_planted_is_not_refused(
    subject: Subject, tmp_path: Path, probe: str, more: tuple[object, ...]
) -> None:
    options = ("--recipe", subject.recipe, "--pairs", 8, "--controls", 0, *more)
    world = subject.through(tmp_path)
    found = bench(world, probe, subject.image, tmp_path / "x.jsonl", *options)
    stacks = {stack.arm: stack.facts for stack in found.series.stacks}
    # It was this engine, which has a filter of system calls, and no other.
    assert stacks["container"]["seccomp"] == "2"
    assert [item for item in found.differences if item.refuses] == []
    assert found.verdict.word != "NOT COMPARABLE", found.verdict.reasons


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("--ulimit=nofile=640:640", "limits.nofile"),
        ("--ulimit=data=4294967296", "limits.data"),
        ("--pids-limit=64", "cgroup.processes"),
    ],
)
def test_a_limit_that_somebody_gives_the_container_is_refused(
    subject: Subject, tmp_path: Path, words: str, fact: str
) -> None:
    if fact == "limits.nofile" and "podman" in subject.run[0]:
        # A limit may be given once.
        subject = replace(subject, run=tuple(w for w in subject.run if "nofile" not in w))
    world = subject.through(tmp_path, words)
    options = ("--recipe", subject.recipe, "--pairs", 1, "--controls", 0)
    found = bench(world, "import", subject.image, tmp_path / "x.jsonl", *options)
    assert [item.name for item in found.differences if item.refuses] == [fact]
    assert found.verdict.word == "NOT COMPARABLE"
