"""Package managers by base, conda environments, interpreters and upstreams, as commands."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import package_managers, step_commands, texts
from dlcontainer.formats.step_commands import CommandBlock
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.distributions import MANAGERS, Manager, manager_of
from tests.values import IMAGE_BASE, TEMPLATES, folder_of, plan_of, site_of

ALL: tuple[Manager, ...] = ("apt", "dnf", "yum", "zypper")
HASH = "ab" * 32
UPSTREAMS = {
    "tool": {"url": "https://example.org/tool.tar.bz2", "sha256": HASH, "source": "a page"},
    "one": {"url": "https://example.org/one", "source": "a page"},
    "two": {"url": "https://example.org/two", "source": "a page"},
}
CONDA = {"tool": "tool", "channels": ["two", "one"], "packages": ["python=3.9", "a_b=1.0=py_0"]}


def image_of(distribution: str, release: str = "8") -> dict[str, Any]:
    system = {"distribution": distribution, "release": release, "source": "a page"}
    return {**IMAGE_BASE, "system": system}


def steps(tmp_path: Path, *given: dict[str, Any], **recipe: Any) -> Plan:
    return plan_of(folder_of(tmp_path, steps=list(given), **recipe))


def first(plan: Plan) -> CommandBlock:
    return step_commands.image_blocks(plan)[0]


@pytest.mark.parametrize(
    ("base", "install"),
    [
        (image_of("ubuntu", "focal"), "apt-get install --yes --no-install-recommends aa bb=1.0-2"),
        (image_of("rhel"), "dnf install --assumeyes --setopt=install_weak_deps=False aa bb-1.0-2"),
        (image_of("centos", "7"), "yum install --assumeyes aa bb-1.0-2"),
        (
            image_of("opensuse-leap", "15.6"),
            "zypper --non-interactive install --no-recommends aa bb=1.0-2",
        ),
        (
            {"distribution": "debian", "release": "trixie"},
            "apt-get install --yes --no-install-recommends aa bb=1.0-2",
        ),
    ],
)
def test_each_base_has_its_package_manager(tmp_path: Path, base: Any, install: str) -> None:
    plan = steps(tmp_path, {"name": "os", "os_packages": ["aa", "bb=1.0-2"]}, base=base)
    manager = install.split(maxsplit=1)[0]
    lines = [line for block in step_commands.image_blocks(plan) for line in block.commands]
    assert install in lines
    others = {"apt-get", "dnf", "yum", "zypper"} - {manager}
    assert not [line for line in lines if line.split()[0] in others]


def test_an_image_that_states_no_system_is_refused_packages(tmp_path: Path) -> None:
    plan = steps(tmp_path, {"name": "os", "os_packages": ["aa"]}, base=IMAGE_BASE)
    with pytest.raises(
        ConfigError, match=r"step 'os': the distribution of its OS packages .*\n.*\n.*base.system"
    ):
        step_commands.image_blocks(plan)
    without = steps(tmp_path, {"name": "s", "shell": "true"}, base=IMAGE_BASE)
    assert step_commands.image_blocks(without)[-1].commands == (
        "rm -rf /var/cache/ldconfig/aux-cache",
    )


def test_managers_of_old_releases() -> None:
    assert (manager_of("rhel", "7.9"), manager_of("rhel", "8.2")) == ("yum", "dnf")
    assert set(MANAGERS.values()) < set(ALL)
    with pytest.raises(KeyError):
        manager_of("plan9", "4")


@pytest.mark.parametrize("manager", [*ALL, None])
def test_nothing_of_the_hosts_is_cleaned(manager: Manager | None) -> None:
    # Engines bind the host's /tmp, /var/tmp and home while they build.
    words = " ".join(package_managers.cleaning(manager)).split()
    removed = [word for word in words if word.startswith("/")]
    assert removed
    assert all(word.startswith(("/var/lib/apt/", "/var/cache/", "/var/log/")) for word in removed)


def test_a_conda_environment_asks_only_its_channels(tmp_path: Path) -> None:
    block = first(steps(tmp_path, {"name": "c", "conda_packages": CONDA}, upstreams=UPSTREAMS))
    text = "\n".join(block.commands)
    assert text.count(HASH) == 1
    assert "sha256sum --check --strict" in text
    create = next(line for line in block.commands if " create " in line)
    assert create.endswith(
        ' --prefix /opt/demo --override-channels --channel "$DLC_UPSTREAM_TWO"'
        ' --channel "$DLC_UPSTREAM_ONE" python=3.9 a_b=1.0=py_0'
    )
    assert block.commands[:3] == (
        ': "${DLC_UPSTREAM_TOOL=https://example.org/tool.tar.bz2}"',
        ': "${DLC_UPSTREAM_TWO=https://example.org/two}"',
        ': "${DLC_UPSTREAM_ONE=https://example.org/one}"',
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tool": "one"}, r"upstreams.one: sha256 is required, because builds run this program"),
        ({"channels": ["three"]}, r"uses 'three', which is not in 'upstreams'"),
        ({"packages": ["pytorch"]}, r"not a pinned conda package .*'pytorch'"),
        ({"packages": ["a=1; touch x"]}, r"not a pinned conda package"),
    ],
)
def test_conda_steps_that_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        steps(tmp_path, {"name": "c", "conda_packages": CONDA | changes}, upstreams=UPSTREAMS)


def test_a_snippet_that_names_an_upstream_gets_it(tmp_path: Path) -> None:
    snippet = 'curl "$DLC_UPSTREAM_ONE" "${DLC_UPSTREAM_TOOL:?gone}"'
    block = first(steps(tmp_path, {"name": "s", "shell": snippet}, upstreams=UPSTREAMS))
    assert set(block.commands[:-1]) == {
        ': "${DLC_UPSTREAM_TOOL=https://example.org/tool.tar.bz2}"',
        ': "${DLC_UPSTREAM_ONE=https://example.org/one}"',
        "prefix=/opt/demo",
    }
    assert block.commands[-1] == snippet


def test_the_interpreter_of_the_environment(tmp_path: Path) -> None:
    pip = {"name": "p", "python_packages": {"packages": ["tool==2.0"]}}
    assert "|| /usr/bin/python3 -m venv" in first(steps(tmp_path, pip)).commands[0]
    other = first(steps(tmp_path, pip, interpreter="/usr/bin/python3.11"))
    assert other.commands[0] == (
        "[ -x /opt/demo/bin/python ] || /usr/bin/python3.11 -m venv /opt/demo"
    )


def test_the_path_of_a_base_image_is_kept(tmp_path: Path) -> None:
    plan = steps(tmp_path, {"name": "s", "shell": "true"}, base=IMAGE_BASE)
    assert '    export PATH=/opt/demo/bin:"$PATH"\n' in texts.text(plan, "apptainer", [TEMPLATES])
    assert 'ENV PATH="/opt/demo/bin:$PATH"\n' in texts.text(plan, "dockerfile", [TEMPLATES])


@pytest.mark.parametrize(
    ("mode", "stack", "expected"),
    [
        ("compile", {"mpi": {"family": "spectrum", "name": "Spectrum MPI"}}, ["ARG MPI_ROOT"]),
        ("compile", {}, []),
        ("swap", {"mpi": {"family": "spectrum", "name": "Spectrum MPI"}}, []),
    ],
)
def test_where_the_hosts_mpi_is_bound_is_an_argument(
    tmp_path: Path, mode: str, stack: Any, expected: list[str]
) -> None:
    mpi = {"family": "spectrum", "mode": mode, "name": "IBM Spectrum MPI", "root": "$MPI_ROOT"}
    folder = folder_of(tmp_path, steps=[{"name": "s", "shell": "true"}], stack=stack)
    plan = plan_of(folder, site=site_of(mpi=mpi, arch="ppc64le"))
    lines = texts.text(plan, "dockerfile", [TEMPLATES]).splitlines()
    assert [line for line in lines if line.startswith("ARG M")] == expected


def test_commands_are_text_already() -> None:
    assert all(isinstance(line, Text) for line in package_managers.install("dnf", ["a"]))
