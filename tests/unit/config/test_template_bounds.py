"""Bounds of templates: what makes much of little is refused, what a recipe needs is not."""

import time

import pytest

from dlcontainer.config import template_bounds, templating
from dlcontainer.config.template_bounds import LARGEST
from dlcontainer.errors import ConfigError, Mark
from tests import bombs

HERE = Mark(file="recipe.yaml", line=7, column=3)


def expand(text: str, **values: object) -> str:
    return templating.expand(text, {**bombs.VALUES, **values}, where=HERE, shell=False)


# Not much more than the bound: where one is missing, the test fails and the machine lives.
@pytest.mark.parametrize("text", [text for text in bombs.MEMORY if "N" in text])
def test_what_becomes_large_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^recipe\.yaml:7:3: template"):
        expand(bombs.sized(text, LARGEST * 3))


def test_a_condition_too() -> None:
    for text in (
        "'x' * 99999",
        "('x' * 60000) ~ ('y' * 60000)",
        "[1] * 99999",
        "range(99999)|list",
    ):
        with pytest.raises(ConfigError, match=r"^recipe\.yaml:7:3: template"):
            templating.holds(text, {}, where=HERE)


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_bounds, "_SECONDS", 0.05)
    began = time.thread_time()
    with pytest.raises(ConfigError, match="template: it takes more than"):
        expand("{% for x in range(999) %}" + "{% set b = a|sort %}" * 99 + "{% endfor %}")
    assert time.thread_time() - began < 2
    # Each text has a time of its own.
    assert expand("{{ 'x' * 9 }}") == "x" * 9


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{ 'x' * 3 }}-{{ 2 ** 10 }}-{{ 7 % 4 }}-{{ 1 + 1.5 }}", "xxx-1024-3-2.5"),
        ("{{ 'a' ~ 1 ~ 'b' }}", "a1b"),
        ("{{ v.replace('.', '_') }} {{ v|replace('.', '') }}", "2_13_0 2130"),
        ("{{ v.split('.')[:2]|join('.') }}", "2.13"),
        ("{{ '.'.join(v.split('.')) }}", "2.13.0"),
        ("{% if v.startswith('2') %}two{% endif %}", "two"),
        ("{{ [3, 1, 2]|sort|map('string')|join(',') }}", "1,2,3"),
        ("{{ d.get('x') }}{% for k, w in d.items() %}{{ k }}{{ w }}{% endfor %}", "1x1"),
        ("{% set b = [1, 2] + [3] %}{{ b|length }}", "3"),
        ("{% for x in range(3) %}{{ loop.index }}{{ loop.cycle('a', 'b') }}{% endfor %}", "1a2b3a"),
        ("{{ nope|default('there') }} {{ nope is defined }}", "there False"),
        ("{{ {'k': ['x', ('y',)]}.k[1][0] }}", "y"),
        ("{{ [{'n': 'a'}, {'n': 'b'}]|map(attribute='n')|join }}", "ab"),
        ("{{ 'it is'|upper }} {{ '4'|int + 1 }}", "IT IS 5"),
    ],
)
def test_what_recipes_may_write(text: str, result: str) -> None:
    assert expand(text, v="2.13.0") == result


def test_a_long_text_may_have_a_template_in_it() -> None:
    text = "# a long snippet\n" * 20_000
    assert expand(text + "{{ n }}") == f"{text}1"


def test_how_large_a_value_is() -> None:
    assert template_bounds.size("x" * 9) == 10
    assert template_bounds.size({"k": ["x", ("y", 1)]}) == 1 + 2 + 1 + 2 + 1 + 2 + 1
    endless: list[object] = []
    endless.append(endless)
    assert template_bounds.size(endless) > LARGEST


def test_our_own_templates_have_a_wider_bound(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "a.j2").write_text("{% for x in range(900) %}\n{{ 'x' * 900 }}\n{% endfor %}\n")
    assert len(templating.render_template([folder], "a.j2", {})) == 900 * 901
    monkeypatch.setattr(templating, "_LONGEST_FILE", 1000)
    with pytest.raises(ConfigError, match=r"a\.j2.*: template: its result is longer than 1000"):
        templating.render_template([folder], "a.j2", {})
