"""Facts without a source are told all at once; a file's own `source` serves them."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.config import SelectedDocument
from dlcontainer.errors import ConfigError
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, Site, SiteTarget
from tests.values import HOST, SITE, write_yaml

BARE: dict[str, Any] = {
    **SITE,
    "os": {"distribution": "rocky", "release": "9"},
    "cpu": {"model": "A", "cores": 4, "remembered": ["model"]},
    "scheduler": {
        "kind": "slurm",
        "forms": {"usual": {"summary": "s", "launcher": ["srun"], "ranks_per_node": 4}},
    },
    "filesystems": [
        {"path": "/home", "kind": "nfs", "purpose": "home"},
        {"path": "/scratch", "kind": "lustre", "purpose": "scratch"},
    ],
}
STAFF = {"sources": {"staff": "this centre's staff", "guide": "the guide"}, "source": "staff"}


def load(path: Path, target: SiteTarget = USUAL, **overrides: Any) -> SelectedDocument[Site]:
    given = config.from_data(overrides, layer="user") if overrides else None
    return loading.load(
        path,
        files=loading.SiteFiles(
            display=lambda one: one.name, find=lambda name: path.with_name(f"{name}.yaml")
        ),
        overrides=given,
        host=HOST,
        target=target,
    )


def refused(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value).splitlines()


def test_all_facts_without_a_source_are_told_at_once(tmp_path: Path) -> None:
    said = refused(write_yaml(tmp_path / "s.yaml", BARE))
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    wanted = {
        "os": ("  distribution:", "facts without a source: distribution, release"),
        "cpu": ("  cores:", "a fact without a source: cores"),
        "scheduler": ("  kind:", "a fact without a source: kind"),
        "scheduler.forms.usual": (
            "      summary:",
            "facts without a source: summary, launcher, ranks_per_node",
        ),
        "filesystems[0]": ("", "facts without a source: path, kind, purpose"),
        "filesystems[1]": ("", "facts without a source: path, kind, purpose"),
    }
    found = {line.split(": ", 2)[1]: line.split(": ", 2) for line in said if line[0] != " "}
    assert {group: words[2] for group, words in found.items()} == {
        group: words for group, (_, words) in wanted.items()
    }
    for group, (key, _) in wanted.items():
        file, number, _ = found[group][0].split(":")
        assert file == "s.yaml"
        assert lines[int(number) - 1].startswith(key), group
    assert said[-1].startswith("  next: write `source: NAME` at the top of the file")
    assert "`sources: [NAME]`" in said[-1]
    assert "`remembered: [KEY]`" in said[-1]


def test_the_source_of_a_file_serves_its_groups(tmp_path: Path) -> None:
    loaded = load(write_yaml(tmp_path / "s.yaml", {**BARE, **STAFF}))
    groups = {config.dotted(path): group.sources for path, group in loaded.value.groups()}
    served = ("os", "cpu", "scheduler", "scheduler.forms.usual", "filesystems[0]", "filesystems[1]")
    assert {group: groups[group] for group in served} == dict.fromkeys(served, ("staff",))
    # A group in which nothing is written has no facts.
    assert (groups["jobs"], groups["modules"], groups["engine"]) == ((), (), ())
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    at = lines.index("source: staff") + 1
    for path in (("os", "sources", 0), ("filesystems", 1, "sources", 0)):
        assert str(loaded.document.origin(path)) == f"site (s.yaml:{at})"


def test_a_group_s_own_sources_and_what_is_remembered_stay(tmp_path: Path) -> None:
    own = {
        "os": {**BARE["os"], "sources": ["guide"]},
        "cpu": {"model": "A", "cores": 4, "remembered": ["model", "cores"]},
    }
    site = load(write_yaml(tmp_path / "s.yaml", {**BARE, **STAFF, **own})).value
    assert site.os is not None
    assert site.cpu is not None
    assert (site.os.sources, site.cpu.sources) == (("guide",), ())


def test_the_source_is_the_file_s_own(tmp_path: Path) -> None:
    parent = {**BARE, **STAFF, "name": "parent"}
    write_yaml(tmp_path / "parent.yaml", parent)
    child: dict[str, Any] = {"schema": 1, "name": "child", "summary": "c", "extends": "parent"}
    child |= {"os": {"release": "9.4"}, "cpu": {"cores": 8}}
    path = write_yaml(tmp_path / "child.yaml", child)
    # What the child writes is not the parent's to vouch for.
    [line] = [line for line in refused(path) if line[0] != " "]
    assert line.endswith("cpu: a fact without a source: cores")
    path = write_yaml(path, {**child, "sources": {"us": "our own"}, "source": "us"})
    site = load(path).value
    assert site.os is not None
    assert site.cpu is not None
    # A fact of the parent's and one of the child's stand in `os`: so do the sources of both.
    assert (site.os.sources, site.cpu.sources) == (("staff", "us"), ("us",))


def test_a_child_adds_its_source_to_those_of_a_group(tmp_path: Path) -> None:
    cpu = {"model": "A", "cores": 4, "sources": ["guide"]}
    write_yaml(tmp_path / "parent.yaml", {**BARE, **STAFF, "cpu": cpu, "name": "parent"})
    child: dict[str, Any] = {"schema": 1, "name": "child", "summary": "c", "extends": "parent"}
    child |= {"cpu": {"cores": 8}, "sources": {"us": "our own"}, "source": "us"}
    loaded = load(write_yaml(tmp_path / "child.yaml", child))
    assert loaded.value.cpu is not None
    assert loaded.value.cpu.sources == ("guide", "us")
    assert str(loaded.document.origin(("cpu", "sources", 0))).startswith("site parent (parent")
    assert str(loaded.document.origin(("cpu", "sources", 1))).startswith("site (child.yaml:")


def test_epochs_and_node_types_are_served_and_change_no_source(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"memory": {"gb": 64}}
    epoch = {"epoch": "new", "epochs": {"new": {"summary": "n", "changes": changes}}}
    site = load(write_yaml(tmp_path / "s.yaml", {**BARE, **STAFF, **epoch})).value
    assert site.memory is not None
    assert site.memory.sources == ("staff",)
    changes["source"] = "guide"
    [line] = refused(write_yaml(tmp_path / "s.yaml", {**BARE, **STAFF, **epoch}))
    assert "source belongs to the whole site" in line


def test_a_user_s_own_settings_need_no_source(tmp_path: Path) -> None:
    path = write_yaml(tmp_path / "s.yaml", SITE)
    assert load(path, cpu={"model": "A", "cores": 4}).value.cpu is not None
    path = write_yaml(path, {**BARE, **STAFF})
    changed = load(path, source="guide").value
    assert changed.os is not None
    assert changed.os.sources == ("guide",)


def test_names_that_sources_does_not_have(tmp_path: Path) -> None:
    wrong = {
        **BARE,
        **STAFF,
        "source": "staf",
        "os": {**BARE["os"], "sources": ["guide", "giude"]},
        "trust": {"keyrings": ["/etc/a.pgp"], "sources": ["nowhere at all"]},
    }
    said = refused(write_yaml(tmp_path / "s.yaml", wrong))
    told = [line.split(": ", 1)[1] for line in said if line[0] != " "]
    assert told == [
        "source: 'staf' is not in 'sources'; did you mean 'staff'?",
        "os.sources[1]: 'giude' is not in 'sources'; did you mean 'guide'?",
        "trust.sources[0]: 'nowhere at all' is not in 'sources'; known: guide, staff",
    ]
    lines = (tmp_path / "s.yaml").read_text().splitlines()
    assert said[0].startswith(f"s.yaml:{lines.index('source: staf') + 1}:1: ")


@pytest.mark.parametrize("wrong", [["staff"], {"staff": "x"}, 3])
def test_a_source_that_is_no_name(tmp_path: Path, wrong: object) -> None:
    said = refused(write_yaml(tmp_path / "s.yaml", {**BARE, **STAFF, "source": wrong}))
    assert "source: expected text" in said[0]
