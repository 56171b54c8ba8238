"""Sites: strict facts, with their sources; a host's own facts below what is written."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.errors import ConfigError
from dlcontainer.sites import loading
from dlcontainer.sites.site import Site
from tests.values import HOST, SITE, host, shipped_site, site_of, write_yaml


def no_other(name: str) -> Path:
    raise ConfigError(f"no site {name!r}")


def load(path: Path, **changes: Any) -> Site:
    given = config.from_data(changes, layer="user") if changes else None
    return loading.load(
        path,
        files=loading.SiteFiles(display=lambda _: "s.yaml", find=no_other),
        overrides=given,
        host=HOST,
    ).value


def test_the_smallest_site(tmp_path: Path) -> None:
    site = load(write_yaml(tmp_path / "it's.yaml", SITE))
    assert (site.name, site.status, site.facts, site.accelerator) == (
        "demo",
        "active",
        "written",
        None,
    )
    assert (site.scheduler.kind, site.engine.kind, site.routing.apt) == (
        "none",
        "apptainer",
        "auto",
    )


@pytest.mark.parametrize("name", ["local", "example-slurm"])
def test_shipped_sites_are_valid(name: str) -> None:
    site = shipped_site(name).value
    assert (site.name, site.arch, site.default_recipe) == (name, "x86_64", "pytorch")


def test_facts_of_the_host_lie_below_what_is_written(tmp_path: Path) -> None:
    written = {key: SITE[key] for key in ("schema", "name", "summary", "default_recipe")}
    path = write_yaml(
        tmp_path / "here.yaml", {**written, "facts": "host", "os": {"kernel": "5.0-mine"}}
    )
    loaded = loading.load(
        path,
        files=loading.SiteFiles(display=lambda _: "here.yaml", find=no_other),
        overrides=None,
        host=HOST,
    )
    site, origin = loaded.value, loaded.document.origin
    assert site.arch == "x86_64"
    assert site.os is not None
    assert (site.os.release, site.os.glibc, site.os.kernel) == ("bookworm", "2.36", "5.0-mine")
    assert site.cpu is not None
    assert (site.cpu.model, site.cpu.cores) == (HOST.cpu_model, 8)
    assert site.base == {"distribution": "debian", "release": "bookworm"}
    assert origin(("os", "glibc")).layer == "host"
    assert str(origin(("os", "kernel"))).startswith("site (here.yaml:")


def test_without_facts_of_the_host_none_are_taken(tmp_path: Path) -> None:
    site = load(write_yaml(tmp_path / "s.yaml", SITE))
    assert (site.os, site.cpu, site.base) == (None, None, None)


def test_a_host_that_says_little() -> None:
    bare = host(distribution=None, release=None, glibc=None)
    assert "glibc" not in loading.host_facts(bare).data["os"]  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"host: os.distribution: missing"):
        shipped_site("local", on=bare)


def test_an_architecture_that_nothing_is_built_for() -> None:
    with pytest.raises(ConfigError, match=r"host: arch: expected one of: 'x86_64'.*'armv7l'"):
        shipped_site("local", on=host(arch="armv7l"))


def test_overrides_come_last(tmp_path: Path) -> None:
    engine = {"tmpdir": "/a", "module": "m", "remembered": ["tmpdir", "module"]}
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "engine": engine})
    site = load(path, engine={"tmpdir": "/b"}, status="example")
    assert (site.engine.tmpdir, site.engine.module, site.status) == ("/b", "m", "example")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schemas": 1}, r"schemas: unknown key; did you mean 'schema'\?"),
        ({"schema": 2}, r"schema: expected one of: 1, got 2"),
        ({"arch": "x86"}, r"arch: expected one of: 'x86_64', 'ppc64le', 'aarch64', got 'x86'"),
        ({"cpu": {"model": "a", "cores": 0}}, r"cpu.cores: must be greater than 0, got 0"),
        ({"cpu": {"model": "a", "cores": "8"}}, r"cpu.cores: expected a whole number"),
        (
            {"network": {"kind": "ethernet", "model": "a", "busbw_min": 0.0}},
            r"network.busbw_min: must be greater than 0",
        ),
        ({"os": {"distribution": "debian", "release": 12}}, r'os.release: .*quote it: "12"'),
        (
            {"modules": {"remembered": ["rot"]}},
            r"'remembered' names 'rot', which is not a key of this group",
        ),
        ({"routing": {"proxies": "x"}}, r"routing.proxies: unknown key; did you mean 'proxy'\?"),
        ({"routing": {"pip": "never"}}, r"routing.pip: .*'auto', 'default'"),
        ({"routing": {"wheels": ["wheels"]}}, r"routing.wheels\[0\]: must be an absolute path"),
        ({"routing": {"plain_http": ["http://a.b"]}}, r"plain_http\[0\]: not a registry"),
        ({"environment": {"A-B": "1"}}, r"environment.A-B: .*not a variable's name"),
        ({"environment": {"A": "x\ty"}}, r"environment.A: must be one printable line"),
        ({"filesystems": [{"path": "/a", "kind": "nfs", "purpose": "tmp"}]}, r"purpose: expected"),
        ({"engine": {"kind": "lxc"}}, r"engine.kind: expected one of: 'apptainer', 'docker'"),
        ({"name": "It's"}, r"name: not a name of a-z"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        site_of(**changes)


def test_a_file_names_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("schema: 1\nname: demo\nsumary: x\narch: x86_64\ndefault_recipe: demo\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).splitlines() == [
        "s.yaml:1:1: summary: missing; expected text",
        "s.yaml:3:1: sumary: unknown key; did you mean 'summary'?",
    ]


@pytest.mark.parametrize("half", [{"version_variable": "V"}, {"known_versions": ["1"]}])
def test_known_versions_are_of_a_variable(half: dict[str, object]) -> None:
    mpi = {"family": "mpich", "mode": "swap", "name": "M"}
    site_of(mpi={**mpi, "version_variable": "V", "known_versions": ["1", "2"]})
    with pytest.raises(
        ConfigError, match="'version_variable' and 'known_versions' must be given together"
    ):
        site_of(mpi={**mpi, **half})
