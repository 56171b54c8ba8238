"""A build from an image that its bundle carries: as from its registry, which is not asked."""

import errno
import os
from pathlib import Path

import pytest

from dlcontainer.build import preparation
from dlcontainer.build.backends import select
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.context import BuildContext, BuildFolders, BuildRun, BuildStart
from dlcontainer.errors import BuildError
from dlcontainer.formats import apptainer
from dlcontainer.packages import carried_image
from dlcontainer.packages.bundle import Bundle
from dlcontainer.packages.lockfile import LockedBase
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.registry import base_image, pull
from dlcontainer.registry.base_image import BaseImage
from dlcontainer.registry.connection import RegistryAccess
from dlcontainer.system import background, digests
from dlcontainer.system.progress import StepProgress
from tests import fakeregistry
from tests.fakes import Quiet, RecordingRunner
from tests.layers import packed, put
from tests.locks import lock
from tests.values import TEMPLATES, execution_of, folder_of, plan_of


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    with fakeregistry.serving() as fake:
        reference = put(fake, [packed({"a": b"b"})], in_index=True)
        made = plan_of(folder_of(tmp_path / "r", base={"image": str(reference)}))
        carried_image.fetch(str(reference), "x86_64", RegistryAccess(), tmp_path / "air/base")
    return made


def bundle_of(plan: Plan, folder: Path) -> Bundle:
    image = str(plan.recipe.base.reference)
    locked = lock(plan, base=LockedBase(image=image), steps=())
    carried = carried_image.of(image, "x86_64", folder / "base")
    return Bundle(folder=folder, lock=locked, image=carried)


def started_from(plan: Plan, tmp_path: Path) -> BaseTree | BaseImage:
    work = tmp_path / "work"
    work.mkdir()
    runner = RecordingRunner(strict=True)
    context = BuildContext(
        execution=execution_of(tmp_path, runner),
        templates=(TEMPLATES,),
        bundle=bundle_of(plan, tmp_path / "air"),
    )
    with background.beside(runner) as beside:
        run = BuildRun(
            folders=BuildFolders(output=tmp_path, staging=tmp_path, work=work),
            steps=StepProgress(Quiet()),
            background=beside,
        )
        return preparation.base(plan, context, PreparedRouting.nothing(work), run)


def test_it_starts_from_the_carried_image(plan: Plan, tmp_path: Path) -> None:
    # The registry is gone by now: asked, it would not answer.
    base = started_from(plan, tmp_path)
    assert isinstance(base, BaseImage)
    assert base.layout == tmp_path / "work/base-image"
    assert (base.layout / "blobs/sha256" / base.platform_digest.removeprefix("sha256:")).is_file()
    origin = BuildStart(routed=PreparedRouting.nothing(tmp_path), base=base)
    text = apptainer.origin(plan, select.carried(origin))
    assert text.startswith("Bootstrap: oci\nFrom: base-image\n%setup\n")
    assert apptainer.origin(plan).startswith("Bootstrap: docker\nFrom: 127.0.0.1:")


def test_it_is_recorded_as_its_registry_has_it(tmp_path: Path) -> None:
    with fakeregistry.serving() as fake:
        reference = put(fake, [packed({"a": b"b"})], in_index=True)
        plan = plan_of(folder_of(tmp_path / "r", base={"image": str(reference)}))
        carried_image.fetch(str(reference), "x86_64", RegistryAccess(), tmp_path / "air/base")
        pulled = base_image.check(reference, "x86_64", RegistryAccess())
    carried = started_from(plan, tmp_path)
    assert isinstance(carried, BaseImage)
    assert (carried.name, carried.tag, carried.digest, carried.platform_digest) == (
        pulled.name,
        pulled.tag,
        pulled.digest,
        pulled.platform_digest,
    )


def test_a_disk_that_does_not_give_back_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with fakeregistry.serving() as fake:
        reference = put(fake, [packed({"a": b"b"})], in_index=True)
        carried_image.fetch(str(reference), "x86_64", RegistryAccess(), tmp_path / "air/base")
    monkeypatch.setattr(pull, "pull", lambda *_: None)
    monkeypatch.setattr(digests, "of_file", fails)
    with pytest.raises(BuildError, match="differs from what was just written") as raised:
        carried_image.fetch(str(reference), "x86_64", RegistryAccess(), tmp_path / "air/base")
    assert "can't be read: Input/output error" in str(raised.value.why)
