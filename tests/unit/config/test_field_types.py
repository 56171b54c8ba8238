"""What a value in YAML may look like."""

import importlib
import pkgutil
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

import dlcontainer
from dlcontainer.config import field_types
from dlcontainer.config.field_types import Strict
from tests.values import HOSTILE


def accepts(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


GOOD: list[tuple[str, list[str]]] = [
    ("Line", ["a", "it's 'quoted' $HOME", "ü", "a" * 5000]),
    ("Name", ["a", "0", "py-torch_1.2", "a" * 63]),
    ("Version", ["1", "2.13.0+cpu", "v1_0-rc.1", "A"]),
    ("EnvName", ["A", "_", "a1_B"]),
    ("Identifier", ["a", "_x1"]),
    ("Command", ["python3.11", "g++", "a-b"]),
    (
        "OsPackage",
        [
            "libgomp1",
            "g++",
            "ncbi-blast+=2.12",
            "libstdc++6",
            "libc6:amd64=2.36-9+deb12u4",
            "gcc=1:2~rc",
        ],
    ),
    ("PythonPackage", ["torch==2.13.0+cpu", "a[b,c]==1", "a.b_c==1!2.0"]),
    ("Url", ["https://example.org/whl/cpu?a=b#c"]),
    ("AbsolutePath", ["/", "/a b/it's", "/a..b"]),
    ("RelativePath", ["a", "a/b.py", "_a/b+c@d-1"]),
    ("ImagePath", ["/opt/a", "/a.b/c-d"]),
]
BAD: list[tuple[str, list[object]]] = [
    ("Line", ["", " ", "a\nb", "a\rb", "a\tb", "\x1b[1m", "a\u2028b", "a\x85b", "\u202e", 1]),
    ("Name", ["", "A", "-a", ".a", "a b", "a/b", "a\n", "a" * 64, "ä"]),
    ("Version", ["", "1 0", "1\n", "-1", "1;2", "$(x)", "1" * 64]),
    ("EnvName", ["", "1A", "A-B", "A=B", "A B", "A\n", "Ä"]),
    ("Identifier", ["", "A", "1a", "a-b", "a.b"]),
    ("Command", ["", "a/b", "-rf", "a b", "a;b"]),
    ("OsPackage", ["libc6-", "python3+", "a1:amd64-", "a1=1-", "a1=1+", "a1-", "b2.-"]),
    ("OsPackage", ["", "a", "A1", "-y1", "a1 b1", "a1;b", "a1=$(x)", "--option"]),
    ("PythonPackage", ["torch", "torch>=2", "torch==2.*", "-r x", "a==1;b", "a==1 --pre"]),
    (
        "Url",
        [
            "http://example.org",
            "https://",
            "https://a b",
            "https://a'b",
            "https://a$b",
            "file:///x",
        ],
    ),
    ("AbsolutePath", ["", "a", "/a/../b", "/a\nb", "~/a", "/a/$USER", "/${A}"]),
    ("RelativePath", ["", "/a", "../a", "a/../b", "a b", ".hidden", "a/", "a//b", "-a", "a'b"]),
    ("ImagePath", ["", "/", "a", "/a/../b", "/a b", "/a'b", "/a:b", "/a/"]),
]


@pytest.mark.parametrize(("kind", "value"), [(k, v) for k, vs in GOOD for v in vs])
def test_accepted(kind: str, value: str) -> None:
    assert accepts(getattr(field_types, kind), value)


@pytest.mark.parametrize(("kind", "value"), [(k, v) for k, vs in BAD for v in vs])
def test_refused(kind: str, value: object) -> None:
    assert not accepts(getattr(field_types, kind), value)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("kind", [k for k, _ in GOOD if k not in {"Line", "AbsolutePath"}])
def test_hostile_text_is_no_value_of_a_narrow_field(kind: str, value: str) -> None:
    assert not accepts(getattr(field_types, kind), value)


def test_a_trailing_slash_is_dropped_and_the_root_kept() -> None:
    path = TypeAdapter(field_types.AbsolutePath)
    assert [path.validate_python(text) for text in ("/a/b/", "/a//", "/")] == ["/a/b", "/a", "/"]


def test_each_architecture_has_all_its_names() -> None:
    assert set(field_types.ARCHES) == set(get_args(field_types.Arch))
    assert set(field_types.DEBIAN_ARCH) == set(field_types.OCI_ARCH) == set(field_types.ARCHES)


def test_a_strict_model_takes_nothing_unknown_and_never_changes() -> None:
    class One(field_types.Strict):
        number: int

    with pytest.raises(ValidationError, match="Extra inputs"):
        One.model_validate({"number": 1, "other": 2})
    with pytest.raises(ValidationError, match="valid integer"):
        One.model_validate({"number": "1"})
    with pytest.raises(ValidationError, match="frozen"):
        One(number=1).number = 2  # type: ignore[misc]


def test_a_text_has_an_end() -> None:
    lines: TypeAdapter[str] = TypeAdapter(field_types.Line)
    assert lines.validate_python("x" * 32_768)
    with pytest.raises(ValidationError, match="the text has more than 32768 characters"):
        lines.validate_python("x" * 32_769)


def every_model() -> list[type[Strict]]:
    for found in pkgutil.walk_packages(dlcontainer.__path__, "dlcontainer."):
        if not found.name.startswith(("dlcontainer.probe", "dlcontainer.cli")):
            importlib.import_module(found.name)
    models: list[type[Strict]] = [Strict]
    for model in models:
        models += model.__subclasses__()
    return models


def test_every_model_can_be_made() -> None:
    # A validator is made at the first use: a type that pydantic does not take would be seen there.
    models = every_model()
    for model in models:
        assert model.model_rebuild(force=True) is not False, model
    assert len(models) > 40


def test_a_default_is_what_a_file_without_the_key_gives() -> None:
    # Made at import without a look at it (`model_construct`): nothing else would see a wrong one.
    defaults = [
        field.default
        for model in every_model()
        for field in model.model_fields.values()
        if isinstance(field.default, Strict)
    ]
    assert len(defaults) > 15
    for default in defaults:
        assert default == type(default)(**default.model_dump(exclude_unset=True)), default
