"""What a benchmark reads of an image's record: its variant, and what it trains with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.measure import bench_image
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.probes import train
from dlcontainer.build import write_record
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.write_record import BuildFacts
from dlcontainer.errors import BenchDataError, ChecksFailedError, UsageError
from dlcontainer.image import record, sif
from tests.values import HOST, TRIAL, folder_of, plan_of

VARIANTS = {
    name: {"kind": "distro", "summary": f"the {name} one", "changes": {"license": name}}
    for name in ("first", "second")
}

ADOPTED = {
    "site": "demo",
    "adopted": {
        "name": "vendor",
        "version": "24.1",
        "summary": "Somebody else's",
        "source": "vendor.sif",
        "digest": f"sha256:{'cd' * 32}",
        "python": "/usr/bin/python3",
        "prefix": "/usr",
        "exposes": ["python3"],
    },
}


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "demo.sif"
    path.write_bytes(b"image")
    monkeypatch.setattr(sif, "arch", lambda _: "x86_64")
    return path


def read(image: Path, *imports: str, asked: str | None = None, **changes: Any) -> BenchImage:
    verify = {"script": "verify.py", "imports": dict.fromkeys(imports, "1.0")}
    plan = plan_of(folder_of(image.parent, verify=verify, **changes), asked=asked)
    facts = BuildFacts(
        plan=plan,
        host=HOST,
        trial=TRIAL,
        image=image,
        base=BaseTree(path=image, sha256="ab", made_at="2026-01-01T00:00:00Z", cached=True),
        text="",
        provenance={},
        packages=(),
        done=(),
        steps=(),
        seconds=1.0,
    )
    write_record.write(record.beside(image), facts)
    return bench_image.read(image, "x86_64")


def test_its_variant_is_the_twins_too(image: Path) -> None:
    assert read(image, "tool", asked="second", variants=VARIANTS).variant == "second"
    assert read(image, "tool", variants=VARIANTS).variant == "first"
    assert read(image, "tool").variant is None


@pytest.mark.parametrize(
    ("imports", "framework"),
    [
        (("torch", "numpy"), "torch"),
        (("horovod", "tensorflow", "keras"), "tensorflow"),
        (("mxnet", "torch"), "mxnet"),
    ],
)
def test_it_trains_with_the_first_that_the_probe_knows(
    image: Path, imports: tuple[str, ...], framework: str
) -> None:
    found = read(image, *imports)
    assert found.modules == imports
    assert train.framework(found.contents) == framework


@pytest.mark.parametrize(("imports", "named"), [(("numpy",), "numpy"), ((), "no module")])
def test_nothing_to_train_with(image: Path, imports: tuple[str, ...], named: str) -> None:
    with pytest.raises(ChecksFailedError, match="no framework to train with") as caught:
        train.framework(read(image, *imports).contents)
    assert f"verifies {named}" in str(caught.value)
    assert "bench import" in str(caught.value.next_step)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"recipe": {"name": "/tmp/evil/recipe.yaml"}}, "content.recipe.name"),
        ({"recipe": {"name": "../evil"}}, "content.recipe.name"),
        ({"recipe": {"name": "evil.yaml/x"}}, "content.recipe.name"),
        ({"recipe": {"name": ["a"]}}, "content.recipe.name"),
        ({"recipe": {"prefix": "/opt/../../x"}}, "content.recipe.prefix"),
        ({"recipe": {"prefix": "opt"}}, "content.recipe.prefix"),
        ({"recipe": {"variant": "/x"}}, "content.recipe.variant"),
        ({"recipe": {"verify": {"imports": ["a"]}}}, "content.recipe.verify.imports"),
        ({"environment": {"A=B": "x"}}, "content.environment"),
        ({"environment": {"A": "two\nlines"}}, "content.environment.A"),
        ({"environment": []}, "content.environment"),
    ],
)
def test_a_record_whose_names_are_paths(image: Path, change: dict[str, Any], key: str) -> None:
    """The recipe that a record names is read here, and the native twin runs its steps."""
    read(image, "torch")
    path = record.beside(image)
    body = json.loads(path.read_text())
    recipe = {**body["content"]["recipe"], **change.get("recipe", {})}
    body["content"] |= {**change, "recipe": recipe}
    path.write_text(json.dumps(body))
    with pytest.raises(ChecksFailedError, match=f"invalid record: {key}"):
        bench_image.read(image, "x86_64")


def test_an_adopted_image(image: Path) -> None:
    """Its Python is the one that was read from its files; nothing of the image's is set twice."""
    body = {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "ab" * 32, "size": 5},
        "digest": "cd" * 32,
        "content": ADOPTED,
    }
    record.beside(image).write_text(json.dumps(body))
    seen = bench_image.read(image, "x86_64")
    assert (seen.python, seen.is_adopted, seen.is_contained) == ("/usr/bin/python3", True, True)
    assert (seen.recipe, seen.variant, dict(seen.environment)) == ("vendor", None, {})
    with pytest.raises(UsageError, match="names no module to import"):
        assert seen.first_module
    with pytest.raises(BenchDataError, match="is not trusted yet"):
        bench_image.require_trust(seen, "demo")


def test_the_native_side_gets_no_variable_that_only_a_record_knows(image: Path) -> None:
    """A record comes with an image, from anybody; the native side is a program on this host."""
    read(image, "torch", environment={"OURS": "1"})
    path = record.beside(image)
    body = json.loads(path.read_text())
    body["content"]["environment"] |= {"LD_PRELOAD": "/tmp/evil.so", "OURS": "2", "LANG": "C.UTF-8"}
    path.write_text(json.dumps(body))
    seen = bench_image.read(image, "x86_64")
    assert seen.environment["LD_PRELOAD"] == "/tmp/evil.so"
    known = bench_image.declared(seen, {"OURS": "1", "LANG": "C.UTF-8"})
    assert dict(known.environment) == {"LANG": "C.UTF-8"}
    # Named in the declaration, without their values.
    assert known.own_environment == ("LD_PRELOAD", "OURS")
    assert dict(bench_image.declared(seen, {}).environment) == {}
    bench_image.require_trust(seen, "demo")
