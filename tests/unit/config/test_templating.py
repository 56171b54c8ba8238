"""Templates: undefined names with their lines, a sandbox, values quoted for the shell."""

from pathlib import Path

import pytest

from dlcontainer.config import templating
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError, Mark
from tests.values import HOSTILE, folder_of, plan_of

HERE = Mark(file="recipe.yaml", line=10, column=5)


def expand(text: str, *, shell: bool = False, where: Mark | str = HERE, **values: object) -> str:
    return templating.expand(text, values, where=where, shell=shell)


def test_a_text_without_templates_is_itself() -> None:
    text = "$HOME } } {} { { %} it's #}\n"
    assert expand(text, shell=True) == text


def test_values() -> None:
    text = "{% for x in xs %}{{ x }},{% endfor %}{# gone #}{{ a.b }}"
    assert expand(text, xs=[1, 2], a={"b": "c d"}) == "1,2,c d"


@pytest.mark.parametrize("value", HOSTILE)
def test_in_a_shell_snippet_values_arrive_quoted(value: str) -> None:
    import shlex

    assert shlex.split(expand("echo {{ v }}", shell=True, v=value)) == ["echo", value]
    assert expand("{{ v }}", v=value) == value


def test_text_that_is_quoted_already_stays() -> None:
    assert templating.quote(Text("a b")) == "a b"
    assert (templating.quote("a b"), templating.quote(4), templating.quote("")) == (
        "'a b'",
        "4",
        "''",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{ nope }}", 10),
        # A block scalar begins on the line after its key.
        ("{{ nope }}\n", 11),
        ("first\nsecond {{ nope }}\nthird\n", 12),
        ("{% if a %}\n{% for x in nope %}{% endfor %}\n{% endif %}\n", 12),
        ("a\n\n{{ a.b }}\n", 13),
    ],
)
def test_an_undefined_name_has_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=r"undefined|no attribute") as caught:
        expand(text, a=1)
    assert caught.value.where == Mark(file="recipe.yaml", line=line, column=5)
    assert caught.value.next_step == "names it may use: site, base, versions, prefix, recipe"


def test_an_undefined_name_in_a_recipes_block_scalar(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    path = folder / "recipe.yaml"
    lines = path.read_text().splitlines()
    at = lines.index("steps:") + 1
    lines[at:at] = ["- name: snippet", "  shell: |", "    echo one", "    echo {{ sight.name }}"]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError, match="'sight' is undefined") as caught:
        plan_of(folder)
    assert caught.value.where == Mark(file="recipe.yaml", line=at + 4, column=3)


def test_a_setting_has_no_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        expand("{{ nope }}", where="--set environment.A=…")
    assert str(caught.value).startswith("--set environment.A=…: template: 'nope' is undefined")


@pytest.mark.parametrize("text", ["{{ a", "{% if %}", "{{ a | nofilter }}", "{% include 'x' %}"])
def test_what_does_not_parse(text: str) -> None:
    with pytest.raises(ConfigError, match="template") as caught:
        expand(text, a=1)
    assert caught.value.where == HERE


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ a.__init__.__globals__ }}",
        "{{ a['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ cycler.__init__.__globals__.os.popen('touch CANARY') }}",
        "{{ lipsum.__globals__ }}",
        "{{ xs.append(1) }}",
        "{{ a.update(b=1) }}",
        "{{ range(999999999)|list }}",
    ],
)
def test_the_sandbox_holds(text: str) -> None:
    values: dict[str, object] = {"a": {"k": 1}, "xs": [1]}
    with pytest.raises(ConfigError, match=r"^recipe.yaml:10:5: template"):
        templating.expand(text, values, where=HERE, shell=False)
    assert values == {"a": {"k": 1}, "xs": [1]}


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ '{}'.format() }}",
        "{{ '{a}'.format() }}",
        "{{ a.b.c }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    ],
)
def test_what_an_expression_can_end_in(text: str) -> None:
    with pytest.raises(ConfigError, match=r"template: ."):
        expand(text, a={})


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("a", True),
        ("not a", False),
        ("a == 1 and b.c in ['d']", True),
        ("b.c", True),
        ("none", False),
    ],
)
def test_conditions(expression: str, answer: bool) -> None:
    assert templating.holds(expression, {"a": 1, "b": {"c": "d"}}, where=HERE) is answer


@pytest.mark.parametrize("expression", ["nope", "a ==", "a.__class__", "a.b.c", "1/0", "a if", ""])
def test_conditions_that_are_none(expression: str) -> None:
    with pytest.raises(ConfigError, match=r"^recipe.yaml:10:5: template"):
        templating.holds(expression, {"a": 1}, where=HERE)


def test_a_template_names_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    (folder / "a.j2").write_text("{% if true %}\nline {{ v }}\n{% endif %}\n\n{{ nope }}\n")
    with pytest.raises(ConfigError, match=r"^a\.j2:5: template: 'nope' is undefined"):
        templating.render_template([folder], "a.j2", {"v": "x"})
    (folder / "a.j2").write_text("\n{% for %}")
    with pytest.raises(ConfigError, match=r"^a\.j2:2: template syntax error"):
        templating.render_template([folder], "a.j2", {})
    with pytest.raises(ConfigError, match=r"^b\.j2: no template 'b\.j2'"):
        templating.render_template([folder], "b.j2", {})


def test_the_users_template_comes_first_and_its_values_are_quoted(tmp_path: Path) -> None:
    for name in ("user's", "shipped"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.j2").write_text(f"{name} {{{{ v }}}} {{{{ t }}}}\n")
    folders = [tmp_path / "user's", tmp_path / "shipped"]
    text = templating.render_template(folders, "a.j2", {"v": "a b", "t": Text("c d")})
    assert text == "user's 'a b' c d\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("95 % in 2 s", "95_% in 2_s"),
        ("40-80 % of 327.5 MB", "40-80_% of 327.5_MB"),
        ("2 sessions, 4 s-units, a % b", "2 sessions, 4 s-units, a % b"),
    ],
)
def test_a_number_and_its_unit_are_not_parted(text: str, wanted: str) -> None:
    assert templating.tied(text) == wanted.replace("_", "\N{NO-BREAK SPACE}")


@pytest.mark.parametrize("text", ["a;{#", "{#", "{{ v }}{#", "a\n{#", "a{#\n", "a{#x"])
def test_a_comment_without_an_end_is_refused_wherever_it_begins(text: str) -> None:
    """Jinja drops one that begins with the text's last characters, and says nothing."""
    with pytest.raises(ConfigError, match="Missing end of comment tag"):
        templating.expand(text, {"v": "x"}, where="r.yaml", shell=False)
