"""Locking: which questions a plan comes to, what can't be locked, and the commands on top."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.packages import carried_image, lock_resolver
from dlcontainer.packages import lockfile as locks
from dlcontainer.packages.apt.image_status import DpkgPackage
from dlcontainer.packages.host_access import HostAccess
from dlcontainer.packages.lock_resolver import Locker, Resolver
from dlcontainer.packages.lockfile import HostParts, Lock, LockedBase, OsPin, SourcePin, WheelPin
from dlcontainer.recipes import bump_journal
from dlcontainer.registry.connection import RegistryAccess
from tests import fakeregistry
from tests.fakeregistry import FakeRegistry
from tests.fakes import RecordingRunner
from tests.layers import BOOKWORM, OS_RELEASE, STATUS, packed, put
from tests.locks import deb, lock, wheel
from tests.unit.packages.test_fetch import Quiet
from tests.values import IMAGE_BASE, folder_of, host, plan_of, site_of

OS = {"name": "system", "os_packages": ["python3"]}
WHEELS = {"name": "wheels", "python_packages": {"packages": ["tool==2.0"], "upstream": "up"}}
UPSTREAMS = {"up": {"url": "https://example.org/whl", "source": "a page"}}


class Asked:
    """Stands in for apt and pip: notes what it is asked."""

    arch = "ppc64el"

    def __init__(self) -> None:
        self.questions: list[Any] = []
        self.sources: tuple[str, ...] = ("a mirror",)

    def update(self) -> None:
        self.questions.append("update")

    def assume(self, packages: Sequence[DpkgPackage]) -> None:
        self.questions.append([package.name for package in packages])

    def releases(self) -> tuple[()]:
        return ()

    def install(self, names: Sequence[str], *, stay: bool = True) -> tuple[OsPin, ...]:
        self.questions.append(list(names) if stay else (list(names), "gone again"))
        return (deb(f"p{len(self.questions)}"),)

    def resolve(self, packages: Sequence[str], upstream: str, folder: Path) -> list[WheelPin]:
        self.questions.append((list(packages), upstream))
        assert folder.is_dir()
        return [wheel()]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    both = Asked()
    way = HostAccess(
        environment={},
        apt_sources=(),
        apt_settings=(),
        pip_arguments=(),
        upstreams={"up": "https://mirror.example"},
        notes=(),
        places={},
    )

    def resolver_of(plan: Any, *_: Any) -> Resolver:
        pip: Any = None if plan.recipe.base.image else both
        apt: Any = both
        return Resolver(access=way, apt=apt, pip=pip)

    monkeypatch.setattr(lock_resolver, "resolver_of", resolver_of)
    return both


def make(tmp_path: Path, **recipe: Any) -> Lock:
    mpi = {"family": "openmpi", "mode": "swap", "name": "Open MPI", "soname": "libmpi.so.40"}
    site = site_of(arch="ppc64le", mpi=mpi)
    plan = plan_of(folder_of(tmp_path / "r", **recipe), site=site)
    locker = Locker(
        host=host(),
        runner=RecordingRunner(),
        scratch=tmp_path,
        cache=tmp_path / "cache",
        progress=Quiet(),
    )
    return lock_resolver.lock(plan, locker)


def test_the_base_then_each_step(asked: Asked, tmp_path: Path) -> None:
    made = make(tmp_path, steps=[OS, WHEELS], upstreams=UPSTREAMS, stack={"cuda": "12.4"})
    here = "?or(?archive(^bookworm$),?codename(^bookworm$)),?architecture(ppc64el)"
    assert asked.questions == [
        "update",
        ["apt", f"?narrow({here},?essential)", f"?narrow({here},?priority(required))"],
        ["python3"],
        (["tool==2.0"], "https://mirror.example"),
    ]
    assert (made.arch, made.python) == ("ppc64le", "3.11")
    assert made.host == HostParts(mpi="libmpi.so.40", nvidia_driver="525")
    assert [step.name for step in made.steps] == ["system", "wheels"]
    assert made.base.packages[0].name == "p2"
    assert locks.parse(locks.as_text(made), "x") == made
    assert lock_resolver.facts(made) == {"os_packages": 2, "python_packages": 1, "bytes": 6}


def test_what_a_snippet_is_built_with_is_locked_and_gone_again(
    asked: Asked, tmp_path: Path
) -> None:
    shell = {"name": "make", "shell": "true", "build_packages": ["gcc"]}
    source = {"url": "https://example.org/a.tar.gz", "source": "a page", "sha256": "ab" * 32}
    made = make(tmp_path, steps=[shell, OS], upstreams={"archive": source})
    assert asked.questions[2:] == [(["gcc"], "gone again"), ["python3"]]
    assert [step.name for step in made.steps] == ["make", "system"]
    assert made.sources == (SourcePin(name="archive", sha256="ab" * 32),)


def test_conda_is_refused(asked: Asked, tmp_path: Path) -> None:
    tool = {"url": "https://example.org/t.tar.bz2", "source": "a page", "sha256": "ab" * 32}
    conda = {"channels": ["up"], "packages": ["tool=2.0"], "tool": "tool"}
    with pytest.raises(ConfigError, match="cannot lock conda packages"):
        make(
            tmp_path,
            steps=[{"name": "c", "conda_packages": conda}],
            upstreams={**UPSTREAMS, "tool": tool},
        )
    assert asked.questions == []


def test_an_image_base_is_its_digest(asked: Asked, tmp_path: Path) -> None:
    made = make(tmp_path, base=IMAGE_BASE, steps=[{"name": "x", "shell": "true"}])
    assert made.base == LockedBase(image=IMAGE_BASE["image"])
    assert asked.questions == []


@pytest.mark.parametrize(
    ("step", "message"),
    [(OS, "cannot lock OS packages on this image"), (WHEELS, "cannot choose wheels for the image")],
)
def test_what_an_image_base_does_not_tell(
    asked: Asked, tmp_path: Path, step: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, base=IMAGE_BASE, steps=[step], upstreams=UPSTREAMS)


SYSTEM = {"distribution": "debian", "release": "bookworm", "glibc": "2.36", "source": "a page"}
APT = b"Package: apt\nStatus: install ok installed\nArchitecture: ppc64el\nVersion: 2.6.1\n\n"


def on_image(fake: FakeRegistry, tmp_path: Path, *layers: bytes, **system: str) -> Lock:
    reference = put(fake, layers, arch="ppc64le")
    base = {"image": str(reference), "system": {**SYSTEM, **system}}
    return make(tmp_path, base=base, steps=[OS])


def test_os_packages_on_top_of_those_of_an_image(asked: Asked, tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        made = on_image(fake, tmp_path, packed({OS_RELEASE: BOOKWORM}), packed({STATUS: APT}))
    assert asked.questions == [["apt"], "update", ["python3"]]
    assert made.base.image is not None
    assert made.base.image.startswith("docker://127.0.0.1:")
    assert (made.base.distribution, made.base.release) == ("debian", "bookworm")
    # Those of the image are the digest's: they are not fetched.
    assert made.base.packages == ()
    assert [pin.name for pin in made.os_pins] == ["p3"]
    assert locks.parse(locks.as_text(made), "x") == made


def test_an_image_of_another_release_is_not_locked(asked: Asked, tmp_path: Path) -> None:
    layer = packed({OS_RELEASE: BOOKWORM, STATUS: APT})
    with fakeregistry.serving() as fake, pytest.raises(ConfigError) as caught:
        on_image(fake, tmp_path, layer, release="trixie")
    assert caught.value.what == "the base is not debian trixie, as base.system says"
    assert caught.value.why == "its os-release says debian bookworm 12"
    assert asked.questions == []


def test_an_image_of_another_package_manager_is_not_asked(asked: Asked, tmp_path: Path) -> None:
    with fakeregistry.serving() as fake, pytest.raises(ConfigError) as caught:
        on_image(fake, tmp_path, distribution="rocky", release="9")
    assert "rocky has another package manager" in str(caught.value.why)
    assert fake.asked == []


def test_an_image_that_its_registry_has_no_more(asked: Asked, tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        digest = f"sha256:{'ab' * 32}"
        base = {"image": str(fake.reference(digest=digest)), "system": SYSTEM}
        with pytest.raises(BuildError, match="does not have this image any more"):
            make(tmp_path, base=base, steps=[OS])


def test_a_host_of_another_distribution(asked: Asked, tmp_path: Path) -> None:
    asked.sources = ()
    with pytest.raises(ConfigError, match="no apt sources of debian bookworm on this host"):
        make(tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*argv: object) -> tuple[int, str, str]:
        words = [str(word) for word in argv]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_diff_for_people(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    locks.write(old, lock())
    locks.write(new, lock(arch="aarch64", steps=lock().steps[:1]))
    code, out, _ = run("lock", "--diff", old, new)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["where", "package", "old", "new"],
        ["lock", "arch", "x86_64", "aarch64"],
        ["step", "wheels", "tool", "2.0", "-"],
    ]
    body = json.loads(run("lock", "--diff", old, old, "--json")[1])
    assert body == {"schema": "dlcontainer/lock-diff/1", "same": True, "changes": []}
    assert run("lock", "--diff", old, new, "-o", "x")[0] == 2


def test_writing_and_checking(run: Run, asked: Asked, tmp_path: Path) -> None:
    argv = (folder_of(tmp_path / "r"), "--site", "example-slurm")
    code, out, _ = run("lock", *argv, "--json")
    body = json.loads(out)
    assert (code, body["file"]) == (0, "locks/demo-1.0-example-slurm.lock.json")
    made = locks.read(tmp_path / body["file"])
    assert body["digest"] == made.digest
    code, out, _ = run("lock", "--check", body["file"], argv[0])
    # The stand-in names its packages by the number of the question.
    assert code == 1
    assert ["base", "p2", "1.3", "-"] in [line.split() for line in out.splitlines()]
    asked.questions.clear()
    code, out, _ = run("lock", "--check", body["file"], argv[0])
    assert (code, out) == (0, "nothing changed\n")
    assert run("lock", argv[0])[0] == 2
    # No mirror is asked for a recipe that a bump left between two states: that is not "changed".
    (argv[0] / bump_journal.FILE).write_text("{}")
    asked.questions.clear()
    code, out, err = run("lock", "--check", body["file"], argv[0])
    assert (code, out, asked.questions) == (3, "", [])
    assert "recipe.yaml: `recipe outdated --write` was cut off" in err
    assert "next: type it again: dlcontainer recipe outdated RECIPE --write; first it puts" in err


@pytest.mark.parametrize("option", ["--locked", "--offline"])
def test_a_build_refuses_what_is_no_lock(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut.json").write_text("{")
    name = "cut.json" if option == "--locked" else "cut"
    argv = (folder_of(tmp_path / "r"), "--site", "example-slurm")
    code, _, err = run("build", *argv, option, name)
    assert code == 3
    assert "incomplete" in err


def test_docker_does_not_start_from_a_carried_image(run: Run, tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        image = str(put(fake, [packed({"a": b""})]))
        folder = folder_of(
            tmp_path / "r", base={"image": image}, steps=[{"name": "x", "shell": "true"}]
        )
        argv = (folder, "--site", "example-slurm")
        plan = json.loads(run("plan", *argv, "--json")[1])["digest"]
        held = lock(base=LockedBase(image=image), steps=(), plan=plan)
        carried_image.fetch(image, "x86_64", RegistryAccess(), tmp_path / "air/base")
    locks.write(tmp_path / "air/lock.json", held)
    code, _, err = run("build", *argv, "--offline", "air", "--engine", "docker")
    assert code == 2
    assert "docker can't start from the base image in the bundle" in err


def test_wheels_for_an_image_whose_system_is_stated(tmp_path: Path) -> None:
    system = {
        "distribution": "ubuntu",
        "release": "noble",
        "glibc": "2.39",
        "python": "3.12",
        "source": "a page",
    }
    base = {**IMAGE_BASE, "system": system}
    plan = plan_of(folder_of(tmp_path / "r", base=base), site=site_of(routing={"apt": "default"}))
    runner = RecordingRunner()
    resolver = lock_resolver.resolver_of(plan, host(), runner, tmp_path, Quiet())
    assert resolver.pip is not None
    assert (resolver.pip.python, resolver.pip.glibc) == ("3.12", "2.39")
    bare = plan_of(folder_of(tmp_path / "b", base=IMAGE_BASE))
    assert lock_resolver.resolver_of(bare, host(), runner, tmp_path, Quiet()).pip is None


def test_a_tag_is_no_lock(asked: Asked, tmp_path: Path) -> None:
    tag = {"image": "docker://registry.example.org/base/os:1"}
    with pytest.raises(ConfigError, match="has no digest"):
        make(tmp_path, base=tag, steps=[{"name": "x", "shell": "true"}])
