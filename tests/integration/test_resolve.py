"""Resolving with the real uv and pip, on made-up wheels: a folder, and an index on the loopback."""

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from dlcontainer.errors import BuildError, ConfigError, DlcontainerError, MisfitError
from dlcontainer.packages.pip.pip_config import PipSettings
from dlcontainer.packages.resolve import resolvers
from dlcontainer.packages.resolve.index_access import IndexAccess
from dlcontainer.packages.resolve.resolution import (
    ParentPin,
    Resolution,
    ResolveRequest,
    Target,
)
from dlcontainer.packages.resolve.resolve import Asker, resolve
from dlcontainer.packages.resolve.wishes import Wish, WishList
from dlcontainer.system import machine
from dlcontainer.system.process import ProcessRunner
from tests import wheelhouse
from tests.skips import skip

HERE = Target(python=resolvers.python_here(), arch=platform.machine(), glibc="2.36")
INTEL = Target(python="3.11", arch="x86_64", glibc="2.36")
ARM = Target(python="3.12", arch="aarch64", glibc="2.39")
PINS = (
    ParentPin(requirement=Requirement("torch==2.13.0+cpu"), origin="r.yaml:58", strength="hard"),
    ParentPin(requirement=Requirement("numpy==2.3.5"), origin="r.yaml:59", strength="soft"),
    ParentPin(requirement=Requirement("filelock==3.20"), origin="r.yaml:60", strength="soft"),
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder of wheels, and who asks; `mark` is there once foreign code ran."""

    asker: Asker
    mark: Path

    def resolve(self, *lines: str, target: Target = INTEL, **changes: Any) -> Resolution:
        """Resolve lines of a file."""
        wishes = tuple(
            Wish(requirement=Requirement(line), origin=f"req.txt:{number}")
            for number, line in enumerate(lines, 1)
        )
        listed = WishList(path=Path("req.txt"), format="requirements", wishes=wishes)
        pins = changes.pop("pins", ())
        verified = changes.pop("verified", frozenset())
        may_change = changes.pop("may_change", frozenset())
        request = ResolveRequest(
            wishes=replace(listed, **changes),
            target=target,
            pins=pins,
            verified=verified,
            may_change=may_change,
        )
        return resolve(request, self.asker)

    def having(self, **changes: Any) -> "Bench":
        """Return the bench with other settings of pip."""
        settings = replace(self.asker.access.settings, **changes)
        access = replace(self.asker.access, settings=settings)
        return replace(self, asker=replace(self.asker, access=access))


def chosen(resolution: Resolution) -> dict[str, str]:
    return {pin.name: pin.version for pin in resolution.pins}


def short(error: pytest.ExceptionInfo[DlcontainerError]) -> str:
    """Return an error's text, which has six lines at most."""
    text = str(error.value)
    assert len(text.splitlines()) <= 6, text
    return text


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mark") / "ran"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, mark: Path) -> Path:
    return wheelhouse.fill(tmp_path_factory.mktemp("a wheel,house"), mark)


@pytest.fixture
def both(tmp_path: Path, wheels: Path, mark: Path) -> Iterator[Bench]:
    """Give a bench whose resolver a test chooses; no foreign code has run at its end."""
    folder = tmp_path / "work"
    folder.mkdir()
    host = machine.read_host(os.environ)
    asker = Asker(
        access=IndexAccess(
            settings=PipSettings(find_links=(str(wheels),), no_index=True), environment={}
        ),
        host=host,
        runner=ProcessRunner(environ=os.environ),
        folder=folder,
        cache=tmp_path / "cache",
        note=lambda _: None,
    )
    yield Bench(asker=asker, mark=mark)
    assert not mark.exists(), f"a resolver ran {mark.read_text()}"


@pytest.fixture
def uv(both: Bench) -> Bench:
    if resolvers.find_uv(both.asker.host, both.asker.runner) is None:
        skip("uv is not here: pip install 'dlcontainer[dev]'")
    return both


@pytest.fixture
def pip(both: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(resolvers, "find_uv", lambda host, runner: None)
    return both


@pytest.fixture(params=["uv", "pip"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Give both resolvers, where the road differs: pip takes seconds for what uv does at once."""
    bench = request.getfixturevalue(request.param)
    assert isinstance(bench, Bench)
    return bench


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (ARM, {"m-arm", "m-new"}),
        (replace(ARM, python="3.11"), {"m-arm", "m-old"}),
        (replace(INTEL, python="3.12"), {"m-intel", "m-new"}),
        (INTEL, {"m-intel", "m-old"}),
    ],
)
def test_markers_are_those_of_the_target(uv: Bench, target: Target, names: set[str]) -> None:
    assert chosen(uv.resolve("marked", target=target)).keys() == {"marked", *names}
    assert chosen(uv.resolve(*wheelhouse.MARKERS, target=target)).keys() == names


def test_pip_answers_for_its_own_target_alone(pip: Bench) -> None:
    names = chosen(pip.resolve("marked", target=HERE)).keys()
    is_old = sys.version_info < (3, 12)
    assert ("m-old" in names, "m-new" in names) == (is_old, not is_old)
    assert ("m-arm" in names, "m-intel" in names) == (
        HERE.arch == "aarch64",
        HERE.arch == "x86_64",
    )
    for target in (replace(HERE, arch="ppc64le"), replace(HERE, python="3.99")):
        with pytest.raises(MisfitError, match="no resolver here") as error:
            pip.resolve("marked", target=target)
        assert "-m pip install 'uv>=0.13'" in short(error)


def test_a_platform_that_uv_does_not_know(uv: Bench) -> None:
    trixie = Target(python="3.12", arch="x86_64", glibc="2.41")
    assert chosen(uv.resolve("numpy", target=trixie)) == {"numpy": "2.3.5"}
    with pytest.raises(MisfitError, match=r"no wheel for Python 3.12 on x86_64 \(glibc 2.17\)"):
        uv.resolve("numpy", target=replace(trixie, glibc="2.17"))


def test_the_parent_s_pins_are_not_repeated(bench: Bench) -> None:
    resolution = bench.resolve("torch", "torchvision==0.28.0+cpu", "einops", target=HERE, pins=PINS)
    assert chosen(resolution) == {"einops": "1.0", "torchvision": "0.28.0+cpu"}
    assert [pin.asked_at for pin in resolution.pins] == ["req.txt:3", "req.txt:2"]
    assert resolution.changes == ()
    assert resolution.resolver.split()[0] in {"uv", "pip"}


def test_a_pin_whose_index_is_out_of_reach(uv: Bench) -> None:
    torch = replace(PINS[0], requirement=Requirement("torch==2.13.0+cu126"))
    resolution = uv.resolve("torch", "einops", target=HERE, pins=(torch,))
    # Neither the public wheel nor the CUDA libraries that it needs.
    assert chosen(resolution) == {"einops": "1.0"}


def test_a_wheel_linked_to_another_torch(uv: Bench) -> None:
    torch = replace(PINS[0], requirement=Requirement("torch==2.13.0+rocm6.4"))
    with pytest.raises(MisfitError, match="built for another torch") as error:
        uv.resolve("torchvision", target=HERE, pins=(torch,))
    assert "req.txt:1" in short(error)
    cuda = replace(PINS[0], requirement=Requirement("torch==2.13.0+cu126"))
    with_cuda = uv.resolve("torchvision<=0.28.0", target=HERE, pins=(cuda,))
    assert "not known to be built for +cu126" in " ".join(with_cuda.notes)


def test_a_wheel_linked_to_another_torch_that_nobody_asked_for(uv: Bench) -> None:
    torch = replace(PINS[0], requirement=Requirement("torch==2.13.0+rocm6.4"))
    with pytest.raises(MisfitError, match=r"built for another torch .*, and sees needs it") as e:
        uv.resolve("einops", "sees", target=HERE, pins=(torch,))
    assert short(e).startswith("req.txt:2: ")


def test_local_parts(uv: Bench) -> None:
    same = uv.resolve("torch==2.13.0+cpu", "einops", target=HERE, pins=PINS)
    assert chosen(same) == {"einops": "1.0"}
    with pytest.raises(MisfitError, match=r"a build for \+cu126, this variant is \+cpu") as error:
        uv.resolve("einops", "torch==2.13.0+cu126", target=HERE, pins=PINS)
    assert short(error).startswith("req.txt:2: ")
    assert "r.yaml:58" in short(error)
    alone = uv.resolve("torch==2.13.0+cpu", target=HERE)
    assert chosen(alone)["torch"] == "2.13.0+cpu"


def test_a_hard_pin_is_contradicted(uv: Bench) -> None:
    with pytest.raises(MisfitError, match=r"torch>=2.14 contradicts torch==2.13.0\+cpu") as error:
        uv.resolve("einops", "torch>=2.14", target=HERE, pins=PINS)
    assert short(error).startswith("req.txt:2: ")
    assert "r.yaml:58" in short(error)


def test_the_second_rung_changes_soft_pins(uv: Bench) -> None:
    resolution = uv.resolve("oldnum", target=HERE, pins=PINS)
    assert chosen(resolution) == {"numpy": "2.2.6", "oldnum": "1.0"}
    (change,) = resolution.changes
    assert (change.name, change.before, change.after) == ("numpy", "2.3.5", "2.2.6")
    assert change.origin == "r.yaml:59"


def test_a_soft_pin_that_need_not_change_stays(uv: Bench) -> None:
    # Left to itself filelock would become 3.29.
    resolution = uv.resolve("oldnum", "filelock", target=HERE, pins=PINS)
    assert [change.name for change in resolution.changes] == ["numpy"]


def test_a_verified_package_changes_only_where_allowed(bench: Bench) -> None:
    verified = frozenset({"NumPy", "torch"})
    with pytest.raises(MisfitError, match=r"numpy 2\.3\.5 → 2\.2\.6") as error:
        bench.resolve("oldnum", target=HERE, pins=PINS, verified=verified)
    assert "--allow-change numpy" in short(error)
    allowed = bench.resolve(
        "oldnum", target=HERE, pins=PINS, verified=verified, may_change=frozenset({"numpy"})
    )
    assert [change.name for change in allowed.changes] == ["numpy"]


def test_a_changed_pin_that_the_framework_does_not_take(uv: Bench) -> None:
    # The made-up wheel of torch has no needs; the public version has: filelock>=3.10.
    with pytest.raises(MisfitError, match=r"filelock 3.9, which torch==2.13.0\+cpu") as error:
        uv.resolve("oldlock", target=HERE, pins=PINS)
    assert "next: " in short(error)


def test_two_wishes_exclude_each_other(uv: Bench) -> None:
    with pytest.raises(MisfitError, match="no versions fit") as error:
        uv.resolve("oldnum", "einops", "numpy>=2.3", target=HERE)
    text = short(error)
    assert "(req.txt:3)" in text
    assert "numpy<2.3" in text
    assert "we can conclude" not in text


def test_constraints_bound_and_ask_for_nothing(uv: Bench) -> None:
    cap = Wish(requirement=Requirement("numpy<2.3"), origin="c.txt:1")
    other = Wish(requirement=Requirement("filelock<3.25"), origin="c.txt:2")
    resolution = uv.resolve("numpy", target=HERE, constraints=(cap, other))
    assert chosen(resolution) == {"numpy": "2.2.6"}


def test_the_host_s_caps_are_kept(uv: Bench) -> None:
    cap = Wish(requirement=Requirement("filelock<3.25"), origin="/etc/caps:1")
    access = replace(uv.asker.access, caps=(cap,))
    capped = replace(uv, asker=replace(uv.asker, access=access))
    assert chosen(capped.resolve("filelock", target=HERE)) == {"filelock": "3.20"}
    with pytest.raises(MisfitError, match="no versions fit") as error:
        capped.resolve("filelock>3.25", target=HERE)
    assert "/etc/caps:1" in short(error)


def test_an_ancient_wheel_is_refused(bench: Bench) -> None:
    with pytest.raises(MisfitError, match=r"newest wheel is 0\.3\.1, .* 0\.19\.8") as e:
        bench.resolve("einops", "ancient", target=HERE)
    assert short(e).startswith("req.txt:2: ")


def test_an_old_wheel_that_is_named(uv: Bench) -> None:
    by_name = uv.resolve("ancient==0.3.1", target=HERE)
    assert chosen(by_name) == {"ancient": "0.3.1"}
    patched = uv.resolve("patched", target=HERE)
    assert "patched 2.1.0 is chosen: 2.1.1 has no wheel" in patched.notes


def test_an_ancient_version_that_needs_no_archive(bench: Bench) -> None:
    with pytest.raises(MisfitError, match=r"config: 1\.3\.2 needs sources-only") as e:
        bench.resolve("einops", "config", target=HERE)
    assert short(e).startswith("req.txt:2: ")
    assert "pip wheel --no-deps 'sources-only" in short(e)
    assert "config==0.11.3" in short(e)


def test_an_old_patch_release_that_needs_no_archive(uv: Bench) -> None:
    resolution = uv.resolve("mended", target=HERE)
    assert chosen(resolution) == {"mended": "1.3.1"}
    assert "mended 1.3.1 is chosen: 1.3.2 needs sources-only" in " ".join(resolution.notes)
    old = uv.resolve("config<1", target=HERE)
    assert (chosen(old), old.notes) == ({"config": "0.11.3"}, ())


def test_source_archives_that_another_package_needs(uv: Bench) -> None:
    with pytest.raises(MisfitError, match="sources-only: source archives only") as error:
        uv.resolve("einops", "config>1", target=HERE)
    assert short(error).startswith("req.txt:2: ")


def test_source_archives_alone(bench: Bench) -> None:
    with pytest.raises(MisfitError, match="sources-only: source archives only, no wheel") as error:
        bench.resolve("einops", "sources-only", target=HERE)
    assert short(error).startswith("req.txt:2: ")


def test_a_name_that_nobody_has(uv: Bench) -> None:
    with pytest.raises(ConfigError, match="the package index has no einop") as error:
        uv.resolve("einops", "einop", target=HERE)
    text = short(error)
    assert text.startswith("req.txt:2: ")
    assert "einops (req.txt:1)" in text


def test_a_name_that_another_package_needs(uv: Bench) -> None:
    with pytest.raises(MisfitError, match="the package index has no lost-and-gone") as error:
        uv.resolve("needs-lost")
    assert "needs-lost" in short(error)


def test_prereleases_only_by_name(bench: Bench) -> None:
    with pytest.raises(DlcontainerError):
        bench.resolve("early", target=HERE)
    assert chosen(bench.resolve("early==1.0.dev1", target=HERE)) == {"early": "1.0.dev1"}


def test_no_wheel_for_the_machine(uv: Bench) -> None:
    with pytest.raises(MisfitError, match=r"intel-only: no wheel for Python 3\.12 on aarch64") as e:
        uv.resolve("intel-only", target=ARM)
    assert "manylinux_2_28_x86_64" in short(e) or "cp311" in short(e)


def test_hashes_of_the_file(bench: Bench, wheels: Path) -> None:
    path = wheels / "einops-1.0-py3-none-any.whl"
    right = frozenset({wheelhouse.sha256(path)})

    def locked(hashes: frozenset[str]) -> tuple[Wish, ...]:
        requirement = Requirement("einops==1.0")
        return (Wish(requirement=requirement, origin="req.txt:7", hashes=hashes),)

    # Reported by pips from 23 on, for a wheel in a folder too.
    resolution = bench.resolve(target=HERE, wishes=locked(right), is_locked=True)
    assert chosen(resolution) == {"einops": "1.0"}
    with pytest.raises(ConfigError, match="has none of the hashes in the file") as error:
        bench.resolve(target=HERE, wishes=locked(frozenset({"0" * 64})))
    assert short(error).startswith("req.txt:7: ")


def test_a_hash_is_compared_with_the_file_that_is_installed(bench: Bench, wheels: Path) -> None:
    """A version has a wheel for each Python and machine: another one's hash is none of this."""

    def of(python: str, arch: str) -> frozenset[str]:
        name = f"numpy-2.3.5-{python}-{python}-manylinux_2_28_{arch}.whl"
        return frozenset({wheelhouse.sha256(wheels / name)})

    def locked(hashes: frozenset[str]) -> Resolution:
        wish = Wish(requirement=Requirement("numpy==2.3.5"), origin="req.txt:7", hashes=hashes)
        return bench.resolve(target=HERE, wishes=(wish,), is_locked=True)

    python = f"cp{HERE.python.replace('.', '')}"
    right = of(python, HERE.arch)
    assert chosen(locked(right)) == {"numpy": "2.3.5"}
    others = of("cp312" if python == "cp311" else "cp311", HERE.arch) | of(python, "aarch64")
    with pytest.raises(ConfigError, match="has none of the hashes in the file") as error:
        locked(others - right)
    assert short(error).startswith("req.txt:7: ")


def test_what_a_closure_lacks_is_said(bench: Bench) -> None:
    resolution = bench.resolve("sees==1.0", "torchvision==0.28.0+cpu", "einops==1.0",
        target=HERE, pins=PINS, is_locked=True)  # fmt: skip
    assert "eyes" in chosen(resolution)
    (note,) = (note for note in resolution.notes if "not in the file" in note)
    assert note.startswith("1 package is not in the file and needed here, without a hash of it: ")
    assert "eyes 1.0" in note
    whole = bench.resolve("einops==1.0", target=HERE, pins=PINS, is_locked=True)
    assert not any("not in the file" in note for note in whole.notes)


def test_what_pip_freeze_lists_of_another_build(uv: Bench) -> None:
    """Libraries of devices go, as of a lock; what people ask for of the same makers stays."""
    lines = ("torch==2.13.0", "nvidia-cublas==13.0", "nvidia-ml-py==13.0", "einops==1.0")
    resolution = uv.resolve(*lines, target=HERE, pins=PINS)
    assert chosen(resolution) == {"einops": "1.0", "nvidia-ml-py": "13.0"}
    assert "left out 1 device libraries" in " ".join(resolution.notes)
    # A library that was asked for by itself is taken.
    alone = uv.resolve("torch", "nvidia-cublas==13.0", target=HERE, pins=PINS)
    assert chosen(alone) == {"nvidia-cublas": "13.0"}


def test_the_framework_is_the_reason_before_its_libraries(uv: Bench) -> None:
    blas = ParentPin(
        requirement=Requirement("nvidia-cublas==12.8"), origin="r.yaml:61", strength="hard"
    )
    with pytest.raises(MisfitError, match=r"torch==2\.2\.1 contradicts torch==2\.13\.0") as error:
        uv.resolve("nvidia-cublas==12.1", "torch==2.2.1", target=HERE, pins=(*PINS, blas))
    assert short(error).startswith("req.txt:2: ")
    with pytest.raises(MisfitError, match=r"nvidia-cublas==12\.1 contradicts"):
        uv.resolve("nvidia-cublas==12.1", "torch", target=HERE, pins=(*PINS, blas))


def test_a_closure_from_a_laptop(uv: Bench) -> None:
    lines = ("torch==2.13.0", "nvidia-cublas==13.0", "einops==1.0", 'm-arm==1.0; os_name == "nt"')
    resolution = uv.resolve(*lines, target=HERE, pins=PINS, is_locked=True)
    assert chosen(resolution) == {"einops": "1.0"}
    assert "nvidia-cublas" in " ".join(resolution.notes)
    with pytest.raises(MisfitError, match="contradicts"):
        uv.resolve("torch==2.14.0", target=HERE, pins=PINS, is_locked=True)


def test_the_python_of_the_file(uv: Bench) -> None:
    with pytest.raises(MisfitError, match=r"wants Python >=3.13, the base has Python 3.11") as e:
        uv.resolve("einops", python=">=3.13")
    assert short(e).startswith("req.txt: ")
    here = uv.resolve("einops", target=HERE, python=f">={HERE.python}.5")
    assert "shows at the build" in " ".join(here.notes)


def test_no_address_reaches_a_resolver(both: Bench, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text(f"open({str(both.mark)!r}, 'w')\n")
    with pytest.raises(ConfigError, match="an address instead of a version") as error:
        both.resolve(f"mine @ file://{project}", target=HERE)
    assert short(error).startswith("req.txt:1: ")


def test_no_python_of_the_project_is_run(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver looks for a Python in the current folder, and runs it; ours stands elsewhere."""
    project = tmp_path / "project"
    python = project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch '{bench.mark}'\nexit 1\n")
    python.chmod(0o755)
    (project / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (project / "pip").mkdir()
    (project / "pip/__main__.py").write_text(f"open({str(bench.mark)!r}, 'w')\n")
    (project / "uv.toml").write_text("index-url = 'http://127.0.0.1:9'\n")
    monkeypatch.chdir(project)
    environ = {**os.environ, "VIRTUAL_ENV": str(project / ".venv"), "UV_OFFLINE": "nonsense"}
    asker = replace(bench.asker, host=machine.read_host(environ))
    assert chosen(replace(bench, asker=asker).resolve("einops", target=HERE)) == {"einops": "1.0"}


def test_an_index(bench: Bench, wheels: Path) -> None:
    with wheelhouse.serving(wheels) as index:
        index.yanked["einops-1.0-py3-none-any.whl"] = "it is broken"
        online = bench.having(find_links=(), no_index=False, index=index.url)
        resolution = online.resolve("einops==1.0", target=HERE)
        assert chosen(resolution) == {"einops": "1.0"}
        assert "it is broken" in " ".join(resolution.notes)
        assert "/simple/einops/" in index.asked


def test_an_index_that_has_no_such_name(uv: Bench, wheels: Path) -> None:
    with wheelhouse.serving(wheels) as index:
        online = uv.having(find_links=(), no_index=False, index=index.url)
        with pytest.raises(ConfigError, match="the package index has no nosuch"):
            online.resolve("nosuch", target=HERE)


@pytest.mark.parametrize("status", [401, 403, 503])
def test_an_index_that_does_not_answer(bench: Bench, wheels: Path, status: int) -> None:
    with wheelhouse.serving(wheels) as index:
        index.status = status
        address = index.url.replace("http://", "http://ada:s3kret-Word@")
        online = bench.having(find_links=(), no_index=False, index=address, retries="0")
        with pytest.raises(BuildError, match=f"the package index answers {status}") as error:
            online.resolve("einops", target=HERE)
    text = short(error)
    assert "s3kret" not in text
    assert "127.0.0.1" in text


def test_a_password_is_no_word_of_a_command(bench: Bench, wheels: Path) -> None:
    commands: list[str] = []
    with wheelhouse.serving(wheels) as index:
        index.password = "wanted"
        address = index.url.replace("http://", "http://ada:s3kret-Word@")
        runner = ProcessRunner(environ=os.environ, echo=commands.append)
        asker = replace(bench.asker, runner=runner)
        online = replace(bench, asker=asker).having(find_links=(), no_index=False, index=address)
        assert chosen(online.resolve("einops", target=HERE)) == {"einops": "1.0"}
    assert commands
    assert not [command for command in commands if "s3kret" in command]


def test_an_index_that_is_out_of_reach(uv: Bench) -> None:
    # Port 9 of the loopback: nothing listens there.
    online = uv.having(
        find_links=(), no_index=False, index="http://127.0.0.1:9/simple", retries="0"
    )
    with pytest.raises(BuildError, match="cannot reach the package index") as error:
        online.resolve("einops", target=HERE)
    assert "127.0.0.1" in short(error)


def test_a_folder_that_is_an_index(uv: Bench, wheels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mirror/simple/einops"
    folder.mkdir(parents=True)
    name = "einops-1.0-py3-none-any.whl"
    (folder / name).write_bytes((wheels / name).read_bytes())
    (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')
    online = uv.having(find_links=(), no_index=False, index=str(folder.parent))
    assert chosen(online.resolve("einops", target=HERE)) == {"einops": "1.0"}


def test_no_wish_is_left_for_the_target(both: Bench) -> None:
    assert both.resolve('einops; os_name == "nt"', target=HERE).pins == ()
