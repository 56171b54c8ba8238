"""Clean sessions under Apptainer, Docker and Podman, root's or a user's: none is refused.

`dlcontainer bench` starts containers with Apptainer. Where the container is another engine's, that
`exec` of the image is carried out by it, with the same environment, on the same image in its store.
"""

import json
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.oci import OCI_KINDS
from tests.integration import accounts, standin
from tests.integration.accounts import Account
from tests.integration.oci import daemons
from tests.integration.oci.daemons import Service
from tests.integration.truth import bench
from tests.integration.world import World, missing
from tests.judging import SESSIONS, by_chance

pytestmark = [
    pytest.mark.long,  # whose each fact is: tests/unit/bench/samples/test_owners.py
    pytest.mark.timeout(1800),
]
with_each_service = pytest.mark.parametrize("service", OCI_KINDS, indirect=True, scope="session")

# Nothing stands for the instance that a mount is shared by: the session leaves that series out.
SHIM = """\
#!/usr/bin/env python3
import json, os, sys
run, name, sif, engine = json.loads(SETTLED)
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
PROBES = pytest.mark.parametrize(("probe", "more"), [("import", ()), ("train", TRAIN)])
ACCOUNT = "dlcontainer-clean"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image, as a file and in an engine's store, and whoever runs sessions of it."""

    world: World
    image: Path
    recipe: Path
    # Apptainer, and the words that run a container of the other engine.
    engine: Path
    run: tuple[str, ...] = ()
    # Who runs the sessions, where that is not who runs the tests.
    account: Account | None = None

    def through(self, folder: Path, *more: str) -> World:
        """Give a user whose Apptainer runs the image in the other engine, with more words."""
        shim = folder / "bin" / self.engine.name
        shim.parent.mkdir()
        settled = json.dumps([[*self.run, *more], NAME, str(self.image), str(self.engine)])
        shim.write_text(SHIM.replace("SETTLED", repr(settled)))
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
    tried: EngineCapabilities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Subject:
    """Put the image's tree into an engine's store."""
    own = _stored(service, (engine, tried), built, tmp_path_factory.mktemp(service.kind))
    run = [*own, "run", "--rm", "--network", "host"]
    if service.kind == "podman":
        run += ["--http-proxy=false", *_limits()]
    return replace(built, run=tuple(run))


@pytest.fixture(scope="module")
def user(built: Subject, engine: Apptainer) -> Iterator[Subject]:
    """Give an ordinary user with subordinate ids a copy of the image and of all that made it."""
    with accounts.with_ids(ACCOUNT) as account, accounts.world_of(account, engine) as world:
        copies = {path: world.folder / path.name for path in (built.image.parent, _made(built))}
        for path, copy in copies.items():
            accounts.given(account, shutil.copytree(path, copy))
        made = copies[_made(built)]
        yield Subject(
            world=world.having(PIP_FIND_LINKS=made / "wheels"),
            image=copies[built.image.parent] / built.image.name,
            recipe=made / built.recipe.name,
            engine=engine.program,
            account=account,
        )


def _made(built: Subject) -> Path:
    """Give the folder of the recipe and its wheels."""
    return built.recipe.parent


@pytest.fixture(scope="module")
def rootless(
    built: Subject,
    user: Subject,
    engine: Apptainer,
    tried: EngineCapabilities,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Subject]:
    """Put the image's tree into the store of the user's own Podman, which sets its own limits."""
    with daemons.running("podman", user.account) as service:
        own = _stored(service, (engine, tried), built, tmp_path_factory.mktemp("rootless"))
        run = (*own, "run", "--rm", "--network", "host", "--http-proxy=false")
        yield replace(user, run=run)


def _stored(
    service: Service, unpacking: tuple[Apptainer, EngineCapabilities], built: Subject, folder: Path
) -> list[str]:
    """Put an image's tree into an engine's store; give the words that call that engine."""
    program = shutil.which(service.kind)
    if program is None:
        missing(service.kind)
    socket = f"unix://{service.socket}"
    own = [program, *(["--host"] if service.kind == "docker" else ["--remote", "--url"]), socket]
    engine, tried = unpacking
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
    return own


def _limits() -> list[str]:
    """Give the limits that root's Podman sets, as far as they may be set on any machine.

    It asks for 1048576 files and as many processes as the kernel numbers, and its `run` fails where
    root may not raise limits (no CAP_SYS_RESOURCE): "error setting rlimit type 7: operation not
    permitted". Without root it asks for no more than the user has.
    """
    processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={processes}:{processes}"]


@with_each_service
@PROBES
def test_nothing_planted_is_not_refused(
    subject: Subject, tmp_path: Path, probe: str, more: tuple[object, ...]
) -> None:
    facts = _clean(subject, subject.through(tmp_path), tmp_path, probe, *more)
    # It was this engine, which has a filter of system calls, and no other.
    assert facts["seccomp"] == "2"


@PROBES
def test_nothing_planted_is_not_refused_with_apptainer(
    built: Subject, tmp_path: Path, probe: str, more: tuple[object, ...]
) -> None:
    facts = _clean(built, built.world, tmp_path, probe, *more)
    assert "APPTAINER_CONTAINER" in facts["variables"]


@PROBES
def test_nothing_planted_is_not_refused_with_a_user_s_apptainer(
    user: Subject, probe: str, more: tuple[object, ...]
) -> None:
    facts = _clean(user, user.world, _folder(user, f"apptainer-{probe}"), probe, *more)
    assert "APPTAINER_CONTAINER" in facts["variables"]
    assert facts["namespaces"]["user"] == "another"


@PROBES
def test_nothing_planted_is_not_refused_with_a_user_s_podman(
    rootless: Subject, probe: str, more: tuple[object, ...]
) -> None:
    folder = _folder(rootless, f"podman-{probe}")
    facts = _clean(rootless, rootless.through(folder), folder, probe, *more)
    # The filter is Podman's, the namespace the user's: root's Podman is in the machine's.
    assert (facts["seccomp"], facts["namespaces"]["user"]) == ("2", "another")


def _folder(user: Subject, name: str) -> Path:
    """Make a folder that the user can write to."""
    folder = user.world.folder / name
    folder.mkdir()
    assert user.account is not None
    return accounts.given(user.account, folder)


def _clean(
    subject: Subject, world: World, folder: Path, probe: str, *more: object
) -> Mapping[str, Any]:
    """Run a session, which nothing may refuse; give what the container attests."""
    options = ("--recipe", subject.recipe, "--pairs", 8, "--controls", 0, *more)
    for number in range(SESSIONS):
        found = bench(world, probe, subject.image, folder / f"{number}.jsonl", *options)
        if not by_chance(found.verdict.reasons):
            break
    assert [item for item in found.differences if item.refuses] == []
    assert found.verdict.word != "NOT COMPARABLE", found.verdict.reasons
    return next(stack.facts for stack in found.series.stacks if stack.arm == "container")


@with_each_service
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
