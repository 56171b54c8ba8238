"""How far a site got: only what a file shows, with its date, and whose file it is."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ChecksFailedError
from dlcontainer.image import checks_file
from dlcontainer.planning.built_for import named
from dlcontainer.proof import reach
from tests.unit.proof.cases import GPUS, PLAN, content, gpu_site, image, rank, write
from tests.values import site_of

NOT_SHOWN = [
    "built: not shown",
    "validated: not shown",
    "ran on its GPUs: not shown",
    "ran on several nodes over its fabric: not shown",
]


def lines(*paths: Path) -> list[str]:
    site = gpu_site()
    return reach.lines(reach.read(paths, site.engine.builders), site)[1:]


def validated(path: Path, **changes: Any) -> Path:
    body = {
        "schema": checks_file.VALIDATED,
        "ok": True,
        "date": "2026-11-20T10:00:00Z",
        "plan": PLAN,
        "site": named(gpu_site()),
    }
    path.write_text(json.dumps({**body, **changes}))
    return path


def one_node() -> dict[str, Any]:
    ranks = [rank(number) for number in range(GPUS)]
    for own in ranks:
        own["collective"] = {**own["collective"], "size": GPUS}
    return content(ranks, asked=GPUS, job={}, date="2026-11-21T10:00:00Z")


def test_without_a_file_nothing_is_shown() -> None:
    assert lines() == NOT_SHOWN


def test_a_proof_over_two_nodes_shows_all_but_the_validation(tmp_path: Path) -> None:
    assert lines(write(tmp_path / "proof.json", content())) == [
        "built: 2026-11-22, an image for it ran in a job",
        "validated: not shown",
        "ran on its GPUs: 2026-11-22, 4 a node, each trained as the CPU does: NVIDIA A100",
        "ran on 2 nodes over its fabric: 2026-11-22, NCCL named the fabric on every rank",
    ]


def test_one_node_shows_nothing_of_the_fabric(tmp_path: Path) -> None:
    shown = lines(write(tmp_path / "proof.json", one_node()))
    assert shown[2].startswith("ran on its GPUs: 2026-11-21")
    assert shown[3] == "ran on several nodes over its fabric: not shown"


def test_a_validation_counts_for_its_site(tmp_path: Path) -> None:
    own = validated(tmp_path / "checks.json")
    assert lines(own)[1] == "validated: 2026-11-20, no check of validate failed"
    other = validated(tmp_path / "other.json", site="elsewhere", plan="01" * 32)
    assert lines(other) == NOT_SHOWN


@pytest.mark.parametrize("change", [{"ok": False}, {"plan": None}])
def test_a_validation_that_failed_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ChecksFailedError, match="a check failed"):
        lines(validated(tmp_path / "checks.json", **change))


def test_a_folder_of_jobs_is_read(tmp_path: Path) -> None:
    for name, body in (("proof-1", one_node()), ("proof-2", content())):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "proof.json", body)
    validated(tmp_path / "checks.json")
    (tmp_path / "record.json").write_text("{}")
    shown = lines(tmp_path)
    assert [line.partition(":")[2][:11] for line in shown[:4]] == [
        " 2026-11-22",
        " 2026-11-20",
        " 2026-11-22",
        " 2026-11-22",
    ]
    assert shown[4] == (
        f"not counted: {tmp_path}/record.json: not a proof of version dlcontainer/proof/1"
    )


def test_an_edited_proof_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "proof.json", content())
    path.write_text(path.read_text().replace("n2", "n3"))
    with pytest.raises(ChecksFailedError, match="changed after the job wrote it"):
        lines(path)


@pytest.mark.parametrize(
    "change",
    [
        {"image": None},
        {"image": image(site="elsewhere")},
        {"ranks": [rank(0)]},
        {"ranks": [rank(number, nccl=None) for number in range(8)]},
    ],
)
def test_what_a_proof_does_not_show_is_not_said(tmp_path: Path, change: dict[str, Any]) -> None:
    shown = lines(write(tmp_path / "proof.json", content(**change)))
    assert shown[3] == NOT_SHOWN[3]


def test_a_file_of_a_stranger_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "proof.json", content())
    monkeypatch.setattr(os, "getuid", lambda: 7)
    monkeypatch.setattr(reach, "_TRUSTED", frozenset())
    with pytest.raises(ChecksFailedError, match="anyone can write a proof") as caught:
        lines(path)
    assert "engine.builders" in str(caught.value)


def test_a_site_of_cpus_has_nodes_and_no_gpus() -> None:
    shown = reach.lines(reach.EvidenceFiles(), site_of().value)
    assert shown[3] == "ran on its nodes: not shown"


def test_a_folder_of_bad_files_is_counted_and_not_listed(tmp_path: Path) -> None:
    for number in range(300):
        path = tmp_path / f"{number:03}.json"
        path.write_text('{"schema": "dlcontainer/validate/1", "ok": false}')
    said = reach.lines(reach.read([tmp_path]), site_of().value)
    bad = [line for line in said if line.startswith("not counted: ")]
    assert len(bad) == 6
    assert bad[-1] == "not counted: 295 more"
