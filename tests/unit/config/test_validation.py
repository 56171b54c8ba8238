"""Documents against strict models: the words and the places."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    model_validator,
)

from dlcontainer.config import from_settings, merge, parse, suggest, validate
from dlcontainer.config.field_types import PythonPackage
from dlcontainer.errors import ConfigError
from tests.values import site_of


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Apt(Strict):
    kind: Literal["apt"]
    packages: tuple[str, ...]


class Pip(Strict):
    kind: Literal["pip"]
    index: str = "x"
    jobs: int = 1


class System(Enum):
    LMOD = "lmod"
    TCL = "tcl"


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even,\nfor pairs")
    return value


def _shape(value: object) -> str:
    return "many" if isinstance(value, dict) and "all" in value else "one"


class One(Strict):
    only: str


class Many(Strict):
    all: list[str]


class Named(RootModel[dict[str, One]]):
    pass


class Model(Strict):
    name: str
    environment: dict[Annotated[str, Field(pattern="^[A-Z_]+$")], str] = {}
    steps: list[Annotated[Apt | Pip, Field(discriminator="kind")]] = []
    last: Annotated[Apt | Pip, Field(discriminator="kind")] | None = None
    module: Literal["lmod", "tcl"] = "lmod"
    system: System = System.LMOD
    loose: str | list[int] | One = "x"
    after: Annotated[str, AfterValidator(str)] | Annotated[One, BeforeValidator(lambda v: v)] = "x"
    tagged: Annotated[
        Annotated[One, Tag("one")] | Annotated[Many, Tag("many")], Discriminator(_shape)
    ] = One(only="x")
    by_name: Named | None = None
    sizes: dict[str, tuple[int, str]] = {}
    even: Annotated[int, AfterValidator(_even)] = 2
    ratio: float = 1.0
    hidden: bool = False
    where: Path = Path("/")
    some_key: int = Field(1, alias="some-key", gt=0)

    @model_validator(mode="after")
    def _rule(self) -> "Model":
        if self.name == "forbidden":
            raise ValueError("this name is taken")
        return self


def errors(text: str, *settings: str) -> list[str]:
    document = parse(text, layer="recipe", display="r.yaml")
    with pytest.raises(ConfigError) as caught:
        validate(merge(document, from_settings(settings)), Model)
    return str(caught.value).splitlines()


def test_a_good_one() -> None:
    text = (
        "name: x\nenvironment: {A_B: '1'}\nsteps: [{kind: apt, packages: [a]}, {kind: pip}]\n"
        "system: tcl\nloose: [1]\ntagged: {all: [a]}\nsizes: {a: [1, b]}\nratio: 2\n"
        "where: /tmp\nsome-key: 2\nby_name: {a: {only: x}}"
    )
    model = validate(parse(text, layer="recipe", display="r.yaml"), Model)
    assert model.steps == [Apt(kind="apt", packages=("a",)), Pip(kind="pip")]
    assert (model.system, model.sizes, model.where) == (System.TCL, {"a": (1, "b")}, Path("/tmp"))
    assert model.tagged == Many(all=["a"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("enviroment: {}", "2:1: enviroment: unknown key; did you mean 'environment'?"),
        ("Steps: []", "2:1: Steps: unknown key; did you mean 'steps'?"),
        ("some_key: 3", "2:1: some_key: unknown key; did you mean 'some-key'?"),
        (
            "environment: {A: 1.10}",
            '2:15: environment.A: expected text, got a number (1.10): quote it: "1.10"',
        ),
        (
            "environment: {A: true}",
            '2:15: environment.A: expected text, got true: quote it: "true"',
        ),
        ("environment: {A: null}", "2:15: environment.A: expected text, got nothing"),
        ("environment: {A: [b]}", "2:15: environment.A: expected text, got a list"),
        ("environment: {a: b}", "2:15: environment.a: the key 'a' does not match ^[A-Z_]+$"),
        ("environment: x", "2:1: environment: expected a mapping, got text ('x')"),
        ("steps: x", "2:1: steps: expected a list, got text ('x')"),
        ("steps: {a: b}", "2:1: steps: expected a list, got a mapping"),
        ("steps: [x]", "2:9: steps[0]: expected a mapping, got text ('x')"),
        ("steps:\n- kind: apt", "3:3: steps[0].packages: missing; expected a list"),
        (
            "steps:\n- kind: pip\n  pakages: []",
            "4:3: steps[0].pakages: unknown key; known: index, jobs, kind",
        ),
        (
            "steps:\n- kind: pip\n  indx: a",
            "4:3: steps[0].indx: unknown key; did you mean 'index'?",
        ),
        (
            "steps:\n- {kind: pip, jobs: '4'}",
            "3:15: steps[0].jobs: expected a whole number, got text ('4'): remove the quotes",
        ),
        (
            "steps:\n- kind: ap",
            "3:3: steps[0].kind: expected one of: 'apt', 'pip', got 'ap'; did you mean 'apt'?",
        ),
        ("steps:\n- index: x", "3:3: steps[0].kind: missing; expected one of: 'apt', 'pip'"),
        ("last: {kind: pip, indx: a}", "2:19: last.indx: unknown key; did you mean 'index'?"),
        (
            "module: lmd",
            "2:1: module: expected one of: 'lmod', 'tcl', got 'lmd'; did you mean 'lmod'?",
        ),
        ("module: 3", "2:1: module: expected one of: 'lmod', 'tcl', got 3"),
        ("module: []", "2:1: module: expected one of: 'lmod', 'tcl', got a list"),
        ("system: x", "2:1: system: expected one of: 'lmod', 'tcl', got 'x'"),
        (
            "loose: true",
            '2:1: loose: expected text or a list or a mapping, got true: quote it: "true"',
        ),
        ("loose: [a]", "2:9: loose[0]: expected a whole number, got text ('a')"),
        ("loose: {only: x, onyl: y}", "2:18: loose.onyl: unknown key; did you mean 'only'?"),
        ("after: {only: x, onyl: y}", "2:18: after.onyl: unknown key; did you mean 'only'?"),
        ("tagged: {all: 3}", "2:10: tagged.all: expected a list, got a number (3)"),
        ("tagged: {only: x, al: 3}", "2:19: tagged.al: unknown key; known: only"),
        (
            "by_name: {a: {onyl: y, only: x}}",
            "2:15: by_name.a.onyl: unknown key; did you mean 'only'?",
        ),
        ("by_name: {a: {}}", "2:11: by_name.a.only: missing; expected text"),
        ("sizes: {a: [1, 2]}", '2:16: sizes.a[1]: expected text, got a number (2): quote it: "2"'),
        ("even: 3", "2:1: even: must be even, for pairs"),
        ("even: 1.5", "2:1: even: expected a whole number, got a number (1.5)"),
        ("even: 2.0", "2:1: even: expected a whole number, got a number (2.0)"),
        ("ratio: x", "2:1: ratio: expected a number, got text ('x')"),
        ("hidden: yes", "2:1: hidden: expected true or false, got text ('yes')"),
        ("some-key: 0", "2:1: some-key: must be greater than 0, got 0"),
        (
            "loose: " + "x" * 9 + "\nhidden: " + "y" * 99,
            "3:1: hidden: expected true or false, got text ('" + "y" * 59 + "…)",
        ),
    ],
)
def test_messages(line: str, message: str) -> None:
    assert errors(f"name: x\n{line}\n") == [f"r.yaml:{message}"]


def test_all_errors_at_once_in_the_order_of_the_file() -> None:
    assert errors("modul: x\nhidden: 1\nsome-key: a") == [
        "r.yaml:1:1: name: missing; expected text",
        "r.yaml:1:1: modul: unknown key; did you mean 'module'?",
        "r.yaml:2:1: hidden: expected true or false, got a number (1)",
        "r.yaml:3:1: some-key: expected a whole number, got text ('a')",
    ]


def test_a_rule_of_the_whole() -> None:
    assert errors("# x\nname: forbidden") == ["r.yaml:2:1: this name is taken"]


def test_settings_are_named_as_typed() -> None:
    assert errors("name: x", "environment.X=1.10", "enviroment.A=1", "loose=[x]") == [
        "--set loose=…: loose[0]: expected a whole number, got text ('x')",
        "--set enviroment.A=…: enviroment: unknown key; did you mean 'environment'?",
    ]


def test_very_many_errors() -> None:
    lines = errors("name: x\nloose: [" + "a, " * 1_000 + "]")
    assert len(lines) == 51
    assert lines[-1] == "… and 950 more"


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("pytroch", ["pytorch", "tensorflow"], "; did you mean 'pytorch'?"),
        ("PYTORCH", ["pytorch"], "; did you mean 'pytorch'?"),
        ("zzz", ["b", "a", "b"], "; known: a, b"),
        ("zzz", [], ""),
        ("zzz", [f"n{i:02}" for i in range(22)], None),
    ],
)
def test_suggest(word: str, known: list[str], hint: str | None) -> None:
    if hint is None:
        assert suggest(word, known).endswith("n18, n19, … (22 in all)")
    else:
        assert suggest(word, known) == hint


def test_a_setting_is_the_text_that_was_typed_where_text_is_wanted() -> None:
    given = from_settings(["environment.A=4", "environment.B=1.10", "sizes.a=[true, 007]"])
    got = validate(given, Loose)
    assert (got.environment, got.sizes) == ({"A": "4", "B": "1.10"}, {"a": ["true", "007"]})
    assert given.data["environment"] == {"A": 4, "B": 1.1}


def test_a_setting_stays_a_number_where_one_is_wanted() -> None:
    assert validate(from_settings(["count=4"]), Loose).count == 4
    with pytest.raises(ConfigError, match="count: expected a whole number, got text"):
        validate(from_settings(["count=x"]), Loose)


class Loose(Strict):
    environment: dict[str, str] = {}
    sizes: dict[str, list[str]] = {}
    count: int = 0


LONG = "x y" * 9_000


@pytest.mark.parametrize(
    "change",
    [
        {"name": LONG},
        {LONG: 1},
        {"environment": {LONG: "1"}},
        {"routing": {"wheels": [LONG]}},
        {"routing": {"pip": {"index": LONG, "extra_indexes": [LONG]}}},
        {"scheduler": {"directives": [LONG]}},
        {"modules": {"root": LONG, "group": LONG, "pass_environment": [LONG]}},
        {"node_types": {LONG: {}}},
    ],
)
def test_a_message_does_not_repeat_a_long_value(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        site_of(**change)
    lines = str(caught.value).splitlines()
    assert max(map(len, lines)) < 900
    assert any("characters)" in line or "…" in line for line in lines)
    assert any("x yx y" in line for line in lines)


class Lists(Strict):
    names: tuple[Annotated[str, AfterValidator(str.upper), Field(pattern="[a-z]+")], ...] = Field(
        default=("a",), min_length=1
    )
    more: tuple[tuple[Annotated[int, Field(gt=0)], ...], ...] = Field(default=((1,),), min_length=1)
    table: dict[str, int] = Field(default={"a": 1}, min_length=1)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("names: [1]\n", ["expected text"]),
        ("more: [[0]]\n", ["must be greater than 0"]),
        ("names: []\n", ["an empty list: it needs at least 1 entry"]),
        ("more: [[0]]\nnames: []\n", ["must be greater", "an empty list: it needs"]),
        ("table: {}\n", ["an empty mapping: it needs at least 1 entry"]),
        ("table: {a: x}\n", ["expected a whole number"]),
    ],
)
def test_a_refused_item_makes_no_list_too_short(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(parse(text, layer="site", display="x.yaml"), Lists)
    said = caught.value.what.splitlines()
    assert len(said) == len(lines), said
    for line, words in zip(sorted(said), sorted(lines), strict=True):
        assert any(words in one for one in said), (line, words)
    assert "tuple" not in caught.value.what


@pytest.mark.parametrize(
    "package", ["mylib @ git+https://git.example.org/mylib@v1", "https://example.org/x.whl", "./x"]
)
def test_an_address_in_place_of_a_pin_has_a_next_step(package: str) -> None:
    class Packages(Strict):
        packages: tuple[PythonPackage, ...] = Field(min_length=1)

    text = f"packages: ['{package}']\n"
    with pytest.raises(ConfigError, match="not a pinned Python package") as caught:
        validate(parse(text, layer="recipe", display="x.yaml"), Packages)
    assert len(caught.value.what.splitlines()) == 1
    assert "routing.wheels" in str(caught.value.next_step)
