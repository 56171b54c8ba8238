"""Documents over each other, and settings as documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.config import Document, dotted, flatten, from_settings, merge, parse
from dlcontainer.errors import ConfigError, UsageError


def recipe(text: str) -> Document:
    return parse(text, layer="recipe", display="r.yaml")


def site(text: str) -> Document:
    return parse(text, layer="site", display="s.yaml")


def clash(*documents: Document) -> str:
    with pytest.raises(ConfigError) as caught:
        merge(*documents)
    return str(caught.value)


def test_later_wins_and_origins_follow() -> None:
    merged = merge(
        recipe("base: {release: trixie, arch: x}\nlist: [1, 2, 3]\nname: n"),
        site("\nbase: {arch: y}\nlist: [4]"),
        from_settings(["environment.X=1"]),
    )
    assert [(key, value, str(origin)) for key, value, origin in flatten(merged)] == [
        ("base.release", "trixie", "recipe (r.yaml:1)"),
        ("base.arch", "y", "site (s.yaml:2)"),
        ("list[0]", 4, "site (s.yaml:3)"),
        ("name", "n", "recipe (r.yaml:3)"),
        ("environment.X", 1, "--set"),
    ]
    assert ("list", 1) not in merged.origins
    assert str(merged.origins["base",]) == "recipe (r.yaml:1)"
    assert str(merged.origins["list",]) == "site (s.yaml:3)"


def test_null_removes() -> None:
    merged = merge(recipe("a: 1\nb: {c: 1, d: 2}\ne: {f: 1}"), site("a: null\nb: {c: ~}\ne:"))
    assert merged.data == {"b": {"d": 2}}
    assert {dotted(path) for path in merged.origins} == {"", "b", "b.d"}


def test_null_of_nothing() -> None:
    assert merge(recipe("a: null"), site("b: null\nc: {d: null}")).data == {"a": None, "c": {}}
    assert merge(recipe("a: null"), site("a: {b: 1}")).data == {"a": {"b": 1}}
    assert merge(recipe("a: [null]"), site("a: [null, {b: null}]")).data == {
        "a": [None, {"b": None}]
    }


def test_clashes_name_both_places() -> None:
    assert clash(recipe("a:\n  b: {c: 1}"), site("a: {b: 1}")) == (
        "s.yaml:1:5: a.b: a number cannot replace a mapping\n"
        "  why: recipe has a mapping there (r.yaml:2:3)"
    )
    assert clash(recipe("a: [1]"), from_settings(["a.b=1"])) == (
        "--set a.b=…: a: a mapping cannot replace a list\n"
        "  why: recipe has a list there (r.yaml:1:1)"
    )
    assert "text cannot replace a mapping" in clash(recipe("a: {}"), site("a: x"))


def test_nothing_and_one() -> None:
    assert merge().data == {}
    one = recipe("a: null")
    assert merge(one) is one


def test_inputs_stay_as_they_were() -> None:
    first, second = recipe("a: {b: 1}"), site("a: {c: 2}")
    merge(first, second)
    assert first.data == {"a": {"b": 1}}
    assert second.data == {"a": {"c": 2}}


# A key's first letter says what its value is, so nothing clashes.
leaves = st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2)
levels = st.recursive(
    st.dictionaries(st.sampled_from(["v1", "v2"]), leaves),
    lambda inner: st.dictionaries(st.sampled_from(["m1", "m2"]), inner),
    max_leaves=6,
)


@given(levels, levels, levels)
def test_merging_is_associative(
    a: dict[str, object], b: dict[str, object], c: dict[str, object]
) -> None:
    one, two, three = (
        parse(str(data), layer=layer, display=layer)
        for layer, data in (("a", a), ("b", b), ("c", c))
    )
    left, right = merge(merge(one, two), three), merge(one, merge(two, three))
    assert left == right
    assert left == merge(one, two, three)


@pytest.mark.parametrize(
    ("setting", "data"),
    [
        ("environment.OMP_NUM_THREADS=4", {"environment": {"OMP_NUM_THREADS": 4}}),
        ("base.release=trixie", {"base": {"release": "trixie"}}),
        ('environment."A.B"=1', {"environment": {"A.B": 1}}),
        ('"a\\"=b".c=1', {'a"=b': {"c": 1}}),
        ("a=[x, '1', 1]", {"a": ["x", "1", 1]}),
        ("a=b=c", {"a": "b=c"}),
        ("a=>=2.1", {"a": ">=2.1"}),
        ("a=x: y # z", {"a": "x: y # z"}),
        ("a='1'", {"a": "1"}),
        ('a=""', {"a": ""}),
        ("a=null", {"a": None}),
        ("a=true", {"a": True}),
        ("a=no", {"a": "no"}),
        ("a=-1", {"a": -1}),
        ("a=- b", {"a": "- b"}),
    ],
)
def test_settings(setting: str, data: dict[str, object]) -> None:
    assert from_settings([setting]).data == data


def test_several_settings() -> None:
    document = from_settings(["a.b=1", "a.c=[1, 2]", "a.b=1.10", "a.c=[3]"])
    assert document.data == {"a": {"b": 1.1, "c": [3]}}
    assert {dotted(path) for path in document.origins} == {"", "a", "a.b", "a.c", "a.c[0]"}
    origin = document.origins["a", "b"]
    assert (str(origin), origin.where, origin.written) == ("--set", "--set a.b=…", "1.10")
    assert document.origins["a", "c", 0].where == "--set a.c=…"


FORM = (
    "expected KEY=VALUE; KEY is one or more words with dots between them\n  "
    'next: quote keys that have other characters: environment."A.B"=1'
)
SCALAR = (
    "VALUE must be a scalar or a [list]\n  next: set each key of a mapping with "
    "its own --set; quote a text that starts with this character"
)
EMPTY = "no VALUE after '='\n  next: write null to remove the key, \"\" for an empty text"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["a"], f"--set a: {FORM}"),
        (["=1"], f"--set =1: {FORM}"),
        (["a.=1"], f"--set a.=1: {FORM}"),
        (["a..b=1"], f"--set a..b=1: {FORM}"),
        (["a b=1"], f"--set a b=1: {FORM}"),
        (["a[0]=1"], f"--set a[0]=1: {FORM}"),
        (['"a=1'], f'--set "a=1: {FORM}'),
        (['"\\x"=1'], '--set "\\x"=1: "\\x" is not a quoted key'),
        (['"\\u0000"=1'], '--set "\\u0000"=1: character U+0000 is not allowed in a setting'),
        (["a=\udcff"], "--set: character U+DCFF is not allowed in a setting"),
        (["a="], f"--set a=: {EMPTY}"),
        (["a={b: 1}"], f"--set a={{b: 1}}: {SCALAR}"),
        (["a=&x 1"], f"--set a=&x 1: {SCALAR}"),
        (["a=!!str 1"], f"--set a=!!str 1: {SCALAR}"),
        (['a="b": 1'], '--set a="b": 1: VALUE must be a scalar or a [list], not a mapping'),
        (["a=1", "a.b=2"], "--set a.b=2: an earlier --set already replaced all of a"),
        (["a.b=2", "a=null"], "--set a=null: an earlier --set already set keys below a"),
        (
            [".".join("a" * 51) + "=1"],
            f"--set {'.'.join('a' * 51)}=1: nested more than 50 levels deep",
        ),
    ],
)
def test_bad_settings(settings: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_settings(settings)
    assert str(caught.value) == message


def test_bad_yaml_in_a_setting() -> None:
    with pytest.raises(UsageError, match=r"^--set a=\[1: VALUE: not valid YAML: "):
        from_settings(["a=[1"])


@given(st.text())
def test_settings_raise_nothing_else(text: str) -> None:
    for setting in (text, f"a={text}", f"{text}=1", f"a=[{text}]"):
        try:
            from_settings([setting])
        except UsageError:
            continue
