"""An image without a digest: refused, with the line that pins it."""

import pytest

from dlcontainer import config
from dlcontainer.build.base import pinning
from dlcontainer.errors import Mark
from dlcontainer.registry.connection import RegistryAccess
from tests.fakeregistry import NAME, serving
from tests.values import folder_of, plan_of


def test_the_line_that_pins(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("a")
    with serving() as fake:
        image = f"docker://{fake.address}/{NAME}:8.9"
        digest = fake.put_index("amd64", "ppc64le", tag="8.9")
        plan = plan_of(folder_of(folder, base={"image": image}))
        reference = plan.recipe.base.reference
        assert reference is not None
        error = pinning.refusal(plan, reference, RegistryAccess())
        assert error.what == f"the base {image} is not pinned"
        assert isinstance(error.where, Mark)
        assert error.where.file == "recipe.yaml"
        assert f"'8.9' is {digest}" in str(error.why)
        lines = [line.strip() for line in str(error.next_step).splitlines()]
        assert lines[1] == f"--set base.digest={digest}"
        given = config.from_settings([lines[1].removeprefix("--set ")])
        pinned = plan_of(folder_of(folder, base={"image": image}), changes=[given])
        assert pinned.recipe.base.reference == type(reference)(
            name=reference.name, tag="8.9", digest=digest
        )
        # The other way, as it would stand in the file.
        written = folder / "overrides.yaml"
        written.write_text(lines[2].removeprefix("overrides.yaml: ").replace("recipes: ", "", 1))
        body = config.load(written, layer="user", display="overrides.yaml").data
        assert body == {"demo": {"base": {"digest": digest}}}


def test_what_the_registry_says_instead(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving() as fake:
        image = f"docker://{fake.address}/{NAME}:8.9"
        plan = plan_of(folder_of(tmp_path_factory.mktemp("a"), base={"image": image}))
        reference = plan.recipe.base.reference
        assert reference is not None
        error = pinning.refusal(plan, reference, RegistryAccess())
    assert error.what == f"the base {image} is not pinned"
    assert "has no tag '8.9'" in str(error.why)
    assert "--set base.digest=sha256:…" in str(error.next_step)
