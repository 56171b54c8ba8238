"""An image that is there already: of this plan, this engine, this outcome, whole; else none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import write_record
from dlcontainer.build.backends import oci_backend
from dlcontainer.build.backends.oci_export import ExportedImage, ExportTarget
from dlcontainer.build.base import carried_base, root_tree
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.cache import previous
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.build.context import BuildContext
from dlcontainer.build.write_record import BuildFacts
from dlcontainer.engines.engine import Outcome
from dlcontainer.image import record
from dlcontainer.planning.plan import Plan
from dlcontainer.system import digests
from tests.fakeoci import DIGEST, FakeClient, image
from tests.fakes import RecordingRunner
from tests.values import HOST, TRIAL, execution_of, folder_of, plan_of

BASE = BaseTree(path=Path("/x"), sha256="ab", made_at="2026-01-01T00:00:00Z", cached=True)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(root_tree, "recall", lambda *_: BASE)
    return plan_of(folder_of(tmp_path))


def context_of(tmp_path: Path, client: FakeClient | None = None, **route: Any) -> BuildContext:
    return BuildContext(
        execution=execution_of(tmp_path, RecordingRunner()),
        templates=(),
        oci=client,
        export=ExportTarget(**route),
    )


def client_with(plan: Plan) -> FakeClient:
    client = FakeClient()
    name = oci_backend.image_name(plan, OciStore(client=client, arch="x86_64"))
    client.store[name] = image(name, id="sha256:" + "77" * 32, total=99)
    return client


def write(plan: Plan, context: BuildContext, output: Path) -> previous.BuildOutputs:
    """Write what a build would have left."""
    there = previous.places(plan, context, output)
    output.mkdir(exist_ok=True)
    for path in there.files:
        path.write_text("content")
    stored = context.oci.store if isinstance(context.oci, FakeClient) else {}
    delivered = [
        ExportedImage(
            engine="docker 20.10.24", name=name, id=one.id, size=one.total, pushed=None, digest=None
        )
        for name, one in stored.items()
    ]
    facts = BuildFacts(
        plan=plan,
        host=HOST,
        trial=TRIAL,
        image=there.image or output / "none",
        base=BASE,
        text="",
        provenance={},
        packages=(),
        done=(),
        steps=(),
        seconds=1.0,
        outcome=context.export.outcome,
        delivered=delivered[0] if delivered else None,
    )
    write_record.write(there.record, facts)
    return there


@pytest.mark.parametrize(
    ("outcome", "names"),
    [
        ("sif", [".sif", ".json", ".log", ".cdx.json"]),
        ("docker-archive", [f".docker-archive{end}" for end in (".tar", ".json", ".log")]),
        ("image", [".image.json", ".image.log", ".image.cdx.json"]),
    ],
)
def test_each_outcome_has_files_of_its_own(
    plan: Plan, tmp_path: Path, outcome: Outcome, names: list[str]
) -> None:
    there = previous.places(plan, context_of(tmp_path, outcome=outcome), tmp_path)
    assert {f"{plan.name}{name}" for name in names} <= {path.name for path in there.files}
    assert (there.image is None) is (outcome == "image")
    if there.image is not None:
        assert record.beside(there.image) == there.record


@pytest.mark.parametrize("outcome", ["sif", "docker-archive", "image"])
def test_what_is_there_is_found_by_its_own_engine_alone(
    plan: Plan, tmp_path: Path, outcome: Outcome
) -> None:
    context = context_of(tmp_path, client_with(plan), outcome=outcome)
    there = write(plan, context, tmp_path / "out")
    written = previous.found(plan, context, there)
    assert written is not None
    assert written.engine.builder == "docker"
    if outcome == "image":
        assert (written.image.sha256, written.image.size) == ("77" * 32, 99)
    other = context_of(tmp_path, FakeClient(daemon=replace(FakeClient().daemon, kind="podman")))
    assert previous.found(plan, replace(other, export=context.export), there) is None
    assert previous.found(plan, context_of(tmp_path), there) is None


def test_who_wants_it_in_a_registry_gets_it_there(plan: Plan, tmp_path: Path) -> None:
    context = context_of(tmp_path, client_with(plan))
    there = write(plan, context, tmp_path / "out")
    pushing = replace(context, export=ExportTarget(registry="e.org/ns"))
    assert previous.found(plan, pushing, there) is None


def test_an_image_that_left_the_store_is_made_anew(plan: Plan, tmp_path: Path) -> None:
    client = client_with(plan)
    context = context_of(tmp_path, client, outcome="image")
    there = write(plan, context, tmp_path / "out")
    client.store.clear()
    assert previous.found(plan, context, there) is None


def test_a_changed_file_is_made_anew(plan: Plan, tmp_path: Path) -> None:
    context = context_of(tmp_path)
    there = write(plan, context, tmp_path / "out")
    assert previous.found(plan, context, there) is not None
    assert there.image is not None
    there.image.write_text("changed")
    assert previous.found(plan, context, there) is None


def test_where_it_is_in_a_registry() -> None:
    delivered = ExportedImage(
        engine="docker 1", name="n", id="i", size=1, pushed="e.org:1/ns/a:t", digest=DIGEST
    )
    assert delivered.reference == f"e.org:1/ns/a@{DIGEST}"
    assert replace(delivered, pushed=None).reference is None


def test_nothing_newer_keeps_it(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then neither the base's age counts nor an order that is not given again; all else does."""
    context = context_of(tmp_path)
    there = write(plan, context, tmp_path / "out")
    body = json.loads(there.record.read_text())
    body["image"]["sha256"] = digests.of_file(there.image) if there.image else ""
    body["engine"] |= {"builder": "apptainer", "order": "ab" * 32}
    there.record.write_text(json.dumps(body))
    monkeypatch.setattr(root_tree, "recall", lambda *_: None)
    assert previous.found(plan, context, there) is None
    assert previous.found(plan, context, there, is_newest=True) is not None
    assert previous.found(plan, replace(context, level=15), there, is_newest=True) is None
    # A base that is handed over is another where its record says so.
    handed = replace(context, base=tmp_path / "a base")
    for base, is_kept in ((BASE, True), (replace(BASE, sha256="99" * 32), False)):
        monkeypatch.setattr(carried_base, "peek", lambda *_, base=base: base)
        assert (previous.found(plan, handed, there, is_newest=True) is not None) is is_kept
    body["engine"]["order"] = None
    there.record.write_text(json.dumps(body))
    # No base of the cache is asked for.
    assert previous.found(plan, handed, there) is None
    monkeypatch.setattr(carried_base, "peek", lambda *_: BASE)
    assert previous.found(plan, handed, there) is not None
