"""The backend of Docker and Podman, on an engine that is none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import build_steps
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.backends.oci_backend import OciBackend, OciWork
from dlcontainer.build.backends.oci_export import ExportTarget, OciExporter
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep
from dlcontainer.engines.oci import OciKind
from dlcontainer.errors import BuildError
from dlcontainer.formats import build_context, labels
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import CommandFailedError
from tests.fakeoci import FakeClient, daemon, image
from tests.values import folder_of, plan_of

STEPS = [{"name": "one", "shell": "echo 1"}, {"name": "two", "shell": "echo 2"}]
PACKAGES = ({"name": "tool", "version": "2.0", "sha256": "ab"},)
BASE = "b" * 64


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path / "recipe", steps=STEPS, environment={"A": "a b'c"}))


@pytest.fixture
def todo(plan: Plan, tmp_path: Path) -> list[BuildStep]:
    build_context.stage(plan, tmp_path / "context")
    return build_steps.work(plan, tmp_path / "context", {})


def work_of(plan: Plan, folder: Path, **changes: Any) -> OciWork:
    (folder / "routing").mkdir()

    def tar(where: Path) -> Path:
        (where / "base.tar").write_text("the base's tar")
        return where / "base.tar"

    given: dict[str, Any] = {
        "plan": plan,
        "base": tar,
        "base_key": BASE,
        "binds": ((folder / "routing", "/mnt"), (folder / "wheels", "/mnt/folder-0")),
        "folder": folder,
        "log": folder / "log",
        "on_line": lambda line: None,
    }
    return OciWork(**{**given, **changes})


IMAGE = OciExporter(
    target=ExportTarget(outcome="image"),
    packer=None,
    folder=Path("/none"),
    log=Path("/none"),
    on_line=lambda line: None,
)


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def backend(client: FakeClient, plan: Plan, tmp_path: Path) -> Iterator[OciBackend]:
    with oci_backend.opened(client, work_of(plan, tmp_path), IMAGE) as opened:
        yield opened


def test_the_base_is_imported_once(backend: OciBackend, client: FakeClient, tmp_path: Path) -> None:
    backend.begin(None)
    backend.begin(None)
    assert client.named("import") == [("import", "the base's tar", f"dlcontainer/steps:{BASE}")]
    assert not (tmp_path / "base.tar").exists()


def test_a_base_of_another_machine_is_refused(
    client: FakeClient, plan: Plan, tmp_path: Path
) -> None:
    client.store["host/base@sha256:1"] = image("base", arch="ppc64le")
    work = work_of(plan, tmp_path, base="host/base@sha256:1")
    wrong = pytest.raises(
        BuildError, match="docker reads the base as ppc64le; the plan needs amd64"
    )
    with oci_backend.opened(client, work, IMAGE) as backend, wrong:
        backend.begin(None)
    assert client.running == {}


def test_a_base_of_a_registry_is_pulled_once(
    client: FakeClient, plan: Plan, todo: list[BuildStep], tmp_path: Path
) -> None:
    work = work_of(plan, tmp_path, base="host/base@sha256:1", plain_http=True)
    with oci_backend.opened(client, work, IMAGE) as backend:
        backend.begin(None)
        backend.begin(None)
        backend.run(todo[0])
        backend.keep(todo[0], ())
        backend.finish(tmp_path / "none", tmp_path / "bill")
    assert client.named("pull") == [("pull", "host/base@sha256:1", "True")]
    assert backend.delivered is not None
    made = client.store[backend.delivered.name]
    # As a Dockerfile has it: what the base says stays where the plan says nothing.
    assert made.environment["BASE"] == "1"
    assert made.entrypoint == ("/entry",)


def test_a_step_runs_in_a_bare_environment_with_its_files_and_binds(
    backend: OciBackend, client: FakeClient, todo: list[BuildStep], tmp_path: Path
) -> None:
    seen: list[str] = []

    def look(argv: tuple[str, ...]) -> None:
        script = tmp_path / "routing/step.sh"
        seen.extend([script.read_text()] if script.exists() else [])

    client.on_execute = look
    backend.begin(None)
    backend.run(todo[-1])
    (script, clean) = client.named("execute")
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert script[1:] == ("/usr/bin/env", "-i", path, "TERM=dumb", "/bin/sh", "/mnt/step.sh")
    assert "/tmp/*" in clean[-1]
    assert "/var/tmp/*" in clean[-1]
    assert layout.MANIFEST in seen[0]
    assert list((tmp_path / "routing").iterdir()) == []
    (spec,) = client.running.values()
    assert [target for _, target in spec.binds] == ["/mnt", "/mnt/folder-0"]
    assert (tmp_path / "log").read_text() == "a line\nand more\n" * 2


def test_each_kept_step_is_a_layer_over_the_one_before(
    backend: OciBackend, client: FakeClient, todo: list[BuildStep]
) -> None:
    backend.begin(None)
    for step in todo[:2]:
        backend.run(step)
        backend.keep(step, PACKAGES)
    names = [f"dlcontainer/steps:{key}" for key in (BASE, todo[0].key, todo[1].key)]
    assert [words[1] for words in client.named("start")] == [f"sha256:{n}" for n in names[:2]]
    assert [words[1] for words in client.named("commit")] == names[1:]
    assert client.running == {}


def test_a_kept_step_is_recalled_with_all_that_is_known_of_it(
    backend: OciBackend, todo: list[BuildStep]
) -> None:
    backend.begin(None)
    backend.run(todo[0])
    backend.keep(todo[0], PACKAGES)()
    assert backend.recall(todo[0].key) == CachedStep(
        key=todo[0].key,
        name="one",
        maker="ada",
        made_at="2026-11-21T10:11:12Z",
        size=7,
        packages=PACKAGES,
    )
    assert backend.recall(todo[1].key) is None


def test_a_kept_step_that_is_gone_is_said_to_be(backend: OciBackend, client: FakeClient) -> None:
    with pytest.raises(DamagedError):
        backend.begin(CachedStep(key="k", name="one", maker="ada", made_at="", size=1))
    assert client.named("start") == []


def test_a_failed_step_says_its_last_lines_and_stays_to_look_at(
    backend: OciBackend, client: FakeClient, todo: list[BuildStep]
) -> None:
    client.codes = [137]
    backend.begin(None)
    with pytest.raises(CommandFailedError, match="'step one'` ended with exit code 137") as caught:
        backend.run(todo[0])
    assert caught.value.completed.stdout == "a line\nand more\n"
    (container,) = client.running
    *words, shell = backend.shell_command()[0]
    assert words == ["engine", "exec", container, "-c"]
    # It sees what the step saw.
    assert todo[0].script.startswith(shell.partition("set +eu\n")[0])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BuildError("x")])
def test_whatever_ends_a_build_no_container_is_left(
    client: FakeClient, plan: Plan, todo: list[BuildStep], tmp_path: Path, error: BaseException
) -> None:
    def build() -> None:
        with oci_backend.opened(client, work_of(plan, tmp_path), IMAGE) as backend:
            backend.begin(None)
            backend.run(todo[0])
            assert client.running
            raise error

    with pytest.raises(type(error)):
        build()
    assert client.running == {}


@pytest.mark.parametrize(("kind", "before"), [("docker", ""), ("podman", "localhost/")])
def test_the_image_says_what_the_plan_says(
    plan: Plan, todo: list[BuildStep], tmp_path: Path, kind: OciKind, before: str
) -> None:
    client = FakeClient(daemon=daemon(kind))
    with oci_backend.opened(client, work_of(plan, tmp_path), IMAGE) as backend:
        backend.begin(None)
        backend.finish(tmp_path / "none", tmp_path / "bill")
    name = f"{before}dlcontainer/{plan.name}:{plan.digest[:12]}"
    made = client.store[name]
    assert made.environment["A"] == "a b'c"
    assert made.environment["PATH"].startswith(f"{plan.recipe.prefix}/bin:/usr/local/sbin")
    assert made.labels == labels.labels(plan)
    assert client.running == {}
    assert not (tmp_path / "none").exists()


def test_what_an_engine_adds_of_its_own_is_refused(
    client: FakeClient, plan: Plan, tmp_path: Path
) -> None:
    client.adds = {"http_proxy": "http://secret@proxy"}
    with oci_backend.opened(client, work_of(plan, tmp_path), IMAGE) as backend:
        backend.begin(None)
        with pytest.raises(
            BuildError, match=r"variables differ from those of the plan: http_proxy"
        ):
            backend.finish(tmp_path / "none", tmp_path / "bill")
    assert [words[0] for words in client.calls[-1:]] == ["untag"]
    assert list(client.store) == [f"dlcontainer/steps:{BASE}"]


def test_only_containers_of_dead_processes_go(client: FakeClient, plan: Plan) -> None:
    mine = oci_backend.container_name()
    machine, pid, started = mine.split("-")[1:4]
    dead = f"dlcontainer-{machine}-{pid}-1{started}-aa"
    for name in (mine, dead, f"dlcontainer-other-{pid}-1-aa", "somebody-elses"):
        client.running[name] = None  # type: ignore[assignment]
    assert oci_backend.reap(client) == [dead]
    assert dead not in client.running
    assert len(client.running) == 3


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("demo-1.0-local", "demo-1.0-local"), ("a..b-1.0+c_X-", "a-b-1.0-c-x"), ("a.-b", "a-b")],
)
def test_names_are_what_registries_take(plan: Plan, name: str, wanted: str) -> None:
    assert oci_backend.repository_of(name) == f"dlcontainer/{wanted}"


def test_kept_results_are_listed_and_dropped(backend: OciBackend, todo: list[BuildStep]) -> None:
    backend.begin(None)
    backend.run(todo[0])
    backend.keep(todo[0], ())
    store = backend.store
    assert [(key, store.kept(key, image).name) for key, image in store.images()] == [
        (BASE, ""),
        (todo[0].key, "one"),
    ]
    store.drop(todo[0].key)
    assert [key for key, _ in store.images()] == [BASE]


def test_a_result_for_another_machine_is_not_taken(backend: OciBackend, client: FakeClient) -> None:
    client.store["dlcontainer/steps:k"] = image("dlcontainer/steps:k", arch="ppc64le")
    assert backend.recall("k") is None
    client.store["dlcontainer/steps:k"] = image("x", comment=json.dumps({"step": "s"}))
    assert backend.recall("k") is not None
