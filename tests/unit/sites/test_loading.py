"""Sites over sites: `extends`, epochs and node types."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.config import SelectedDocument
from dlcontainer.errors import ConfigError
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, Site, SiteTarget
from tests.values import HOST, SITE, write_yaml

SEVERAL: dict[str, Any] = {
    **SITE,
    "sources": {"guide": "the guide"},
    "cpu": {"model": "A", "cores": 4, "sources": ["guide"]},
    "environment": {"A": "site"},
    "node_types": {
        "small": {"summary": "s", "changes": {"cpu": {"cores": 2}}},
        "big": {"summary": "b", "changes": {"cpu": {"cores": 8}, "environment": {"A": "big"}}},
    },
    "node_type": "small",
    "epochs": {
        "2021": {"summary": "o", "since": "2021-08-19", "changes": {"environment": {"B": "old"}}},
        "2024": {"summary": "n", "changes": {"environment": {"B": "new"}, "cpu": {"cores": 3}}},
    },
    "epoch": "2024",
}


def load(path: Path, target: SiteTarget = USUAL, **overrides: Any) -> SelectedDocument[Site]:
    def find(name: str) -> Path:
        other = path.with_name(f"{name}.yaml")
        if not other.exists():
            raise ConfigError(f"no site {name!r}")
        return other

    given = config.from_data(overrides, layer="user") if overrides else None
    return loading.load(
        path,
        files=loading.SiteFiles(display=lambda one: one.name, find=find),
        overrides=given,
        host=HOST,
        target=target,
    )


def test_a_node_type_lies_over_an_epoch_over_the_file(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "s.yaml", SEVERAL)
    usual = load(path).value
    assert usual.cpu is not None
    assert (usual.cpu.cores, usual.environment) == (2, {"A": "site", "B": "new"})
    other = load(path, SiteTarget(node_type="big", epoch="2021")).value
    assert other.cpu is not None
    assert (other.cpu.model, other.cpu.cores) == ("A", 8)
    assert other.environment == {"A": "big", "B": "old"}
    assert (other.node_type, other.epoch) == ("big", "2021")


def test_overrides_choose_and_win(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "s.yaml", SEVERAL)
    site = load(path, epoch="2021", environment={"A": "mine"}).value
    assert (site.epoch, site.environment) == ("2021", {"A": "mine", "B": "old"})
    # What the command line asks for comes after the user's files.
    assert load(path, SiteTarget(epoch="2024"), epoch="2021").value.environment["B"] == "new"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (SiteTarget(node_type="bog"), r"no node type 'bog' in site demo; did you mean 'big'\?"),
        (SiteTarget(epoch="1999"), r"no epoch '1999' in site demo(.|\n)*one of: 2021, 2024"),
    ],
)
def test_unknown_node_types_and_epochs(tmp_path: Path, target: SiteTarget, message: str) -> None:
    path = write_yaml(tmp_path / "s.yaml", SEVERAL)
    with pytest.raises(ConfigError, match=message):
        load(path, target)


def test_a_site_without_any_says_so(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "s.yaml", SITE)
    with pytest.raises(ConfigError, match="site demo has no node_types"):
        load(path, SiteTarget(node_type="big"))


def test_which_is_the_usual_must_be_said(tmp_path: Path) -> None:
    without = {key: value for key, value in SEVERAL.items() if key != "epoch"}
    path = write_yaml(tmp_path / "s.yaml", without)
    with pytest.raises(
        ConfigError, match=r"s.yaml:\d+:1: epoch is missing: name the default of epochs"
    ):
        load(path)


@pytest.mark.parametrize("key", ["name", "epochs", "extends"])
def test_what_a_node_type_can_not_change(tmp_path: Path, key: str) -> None:
    data = {**SEVERAL, "node_types": {"small": {"summary": "s", "changes": {key: "x"}}}}
    path = write_yaml(tmp_path / "s.yaml", data)
    with pytest.raises(ConfigError, match=f"{key} belongs to the whole site"):
        load(path)


def test_a_site_extends_another(tmp_path: Path) -> None:
    write_yaml(tmp_path / "parent.yaml", {**SEVERAL, "name": "parent", "status": "decommissioned"})
    child = {"schema": 1, "name": "child", "summary": "fewer", "extends": "parent"}
    loaded = load(write_yaml(tmp_path / "child.yaml", {**child, "environment": {"A": "child"}}))
    site = loaded.value
    assert (site.name, site.summary, site.status) == ("child", "fewer", "active")
    assert site.environment == {"A": "child", "B": "new"}
    assert str(loaded.document.origin(("cpu", "model"))).startswith("site parent (parent.yaml:")


@pytest.mark.parametrize("key", ["schema", "name"])
def test_what_a_child_lacks_is_missing_in_the_child(tmp_path: Path, key: str) -> None:
    write_yaml(tmp_path / "parent.yaml", {**SEVERAL, "name": "parent"})
    child = {"schema": 1, "name": "child", "summary": "s", "extends": "parent"}
    del child[key]
    with pytest.raises(ConfigError, match=rf"child\.yaml:\d+:1: {key}: missing"):
        load(write_yaml(tmp_path / "child.yaml", child))


@pytest.mark.parametrize("names", [["s"], ["s", "b"], ["s", "b", "c"]])
def test_extends_in_a_circle(tmp_path: Path, names: list[str]) -> None:
    for name, parent in zip(names, [*names[1:], names[0]], strict=True):
        write_yaml(tmp_path / f"{name}.yaml", {**SITE, "name": name, "extends": parent})
    chain = " -> ".join([*names, "s"])
    with pytest.raises(ConfigError, match=rf"\.yaml:\d+:1: extends: circular reference: .*{chain}"):
        load(tmp_path / "s.yaml")


def test_extends_something_unknown(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "extends": "nowhere"})
    with pytest.raises(ConfigError, match=r"s.yaml:\d+:1: extends: no site 'nowhere'"):
        load(path)


@pytest.mark.parametrize(
    ("runtime", "vendor", "key", "flag", "message"),
    [
        ("apptainer", "nvidia", "jobs", "--rocm", r"accelerator\.vendor: nvidia"),
        ("singularity", "amd", "jobs", "--nv", r"accelerator\.vendor: amd"),
        ("apptainer", "amd", "mpi", "--nv", r"accelerator\.vendor: amd"),
        ("podman-hpc", "nvidia", "jobs", "--nv", r"engine\.runtime: podman-hpc has no such flag"),
        ("container-engine", "nvidia", "jobs", "--nv", r"engine\.runtime: container-engine has no"),
        ("apptainer", "nvidia", "jobs", "--gpu", r"engine\.runtime: apptainer has no such flag"),
    ],
)
def test_a_gpu_flag_that_contradicts_the_site(
    tmp_path: Path, runtime: str, vendor: str, key: str, flag: str, message: str
) -> None:
    facts: dict[str, Any] = {
        "accelerator": {"vendor": vendor, "model": "X", "per_node": 4, "sources": ["guide"]},
        "engine": {"runtime": runtime, "sources": ["guide"]},
        "jobs": {"sources": ["guide"]},
        "mpi": {"family": "mpich", "mode": "swap", "name": "M", "sources": ["guide"]},
    }
    site = {**SITE, "sources": {"guide": "the guide"}, **facts}
    load(write_yaml(tmp_path / "right.yaml", site))
    site[key] = {**facts[key], "flags": ["--pwd=/", flag]}
    with pytest.raises(
        ConfigError, match=rf"{key}\.flags: {flag} contradicts s\.yaml:\d+:\d+: {message}"
    ):
        load(write_yaml(tmp_path / "s.yaml", site))


@pytest.mark.parametrize(
    "place",
    [
        "http://mirror.example/simple",
        "--trusted-host=mirror.example",
        "https://mirror.example --trusted-host=x",
        "-f /srv/wheels",
        "/",
        "/home/ada",
        "/srv/../root",
        "simple",
    ],
)
def test_an_index_is_an_address_or_a_folder_and_no_option(tmp_path: Path, place: str) -> None:
    routing = {"pip": {"extra_indexes": ["https://fine.example/simple", place]}}
    path = write_yaml(tmp_path / "s.yaml", {**SITE, "routing": routing})
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = path.read_text().splitlines()
    line = next(
        n
        for n, text in enumerate(lines, 1)
        if text.strip().startswith("- ") and place in text and "fine" not in text
    )
    assert f"s.yaml:{line}:7: routing.pip.extra_indexes[1]: " in str(caught.value)


@pytest.mark.parametrize("key", ["jobs", "mpi"])
@pytest.mark.parametrize(
    "word", ["; touch x", "--pwd=/", "com.x", "a`id`=1", "=1", "a|b=1", "a\tb=1"]
)
def test_what_is_no_annotation_is_refused_when_read(tmp_path: Path, key: str, word: str) -> None:
    facts: dict[str, Any] = {
        "engine": {"runtime": "container-engine", "sources": ["guide"]},
        "jobs": {"sources": ["guide"]},
        "mpi": {"family": "mpich", "mode": "swap", "name": "M", "sources": ["guide"]},
    }
    site = {**SITE, "sources": {"guide": "the guide"}, **facts}
    site[key] = {**facts[key], "flags": ["com.hooks.cxi.enabled=true", word]}
    with pytest.raises(ConfigError, match=rf"{key}\.flags.*") as caught:
        load(write_yaml(tmp_path / "s.yaml", site))
    assert "s.yaml:" in str(caught.value)
