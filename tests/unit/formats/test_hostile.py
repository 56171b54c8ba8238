"""Hostile text in sites and recipes is refused by the models or stays inert in every text."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlcontainer.errors import ConfigError
from dlcontainer.formats import texts
from dlcontainer.planning.plan import Plan
from tests.values import HOSTILE, TEMPLATES, folder_of, plan_of, site_of

VARIABLE = "{% raw %}{{ X }}{% endraw %}"
TEXTS = (*HOSTILE, VARIABLE, "{{ 7*7 }}", "{{ ''.__class__ }}", "a\nb", "\x1b[2J")

Shell = Callable[..., str]


@pytest.fixture
def sh(real_processes: None, tmp_path: Path) -> Shell:
    """Run a script in an empty folder; nothing may appear in it."""
    empty = tmp_path / "nothing appears 'here'"
    empty.mkdir()

    def run(script: str, *args: str, check_only: bool = False) -> str:
        argv = ["/bin/sh", "-n" if check_only else "-eu", "-c", script, "sh", *args]
        if check_only:
            argv = ["/bin/sh", "-n", "-c", script]
        env = {"PATH": os.environ["PATH"]}
        done = subprocess.run(argv, cwd=empty, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script
        assert list(empty.iterdir()) == []
        return done.stdout

    return run


def section(definition: str, name: str) -> str:
    """Cut one section out of a definition file."""
    found = definition.split(f"\n%{name}\n")[1]
    return found.split("\n%")[0]


def plan_with(tmp_path: Path, where: str, text: str) -> Plan:
    """Give a plan with a text in a free-text field; ConfigError where the models refuse it."""
    recipe: dict[str, Any] = {where: text}
    site: dict[str, Any] = {}
    if where == "many":
        snippet = {"name": "a", "native": True, "shell": "A={{ site.summary }}"}
        value = text.replace("$", "$$")
        steps = [snippet, {"name": "b", "environment": {"HOSTILE_STEP": value}}]
        path = "/" + text.replace("$HOME", "$").replace("${IFS}", "$")
        recipe = {"environment": {"HOSTILE": value}, "mount_points": [path], "steps": steps}
        site = {"environment": {"HOSTILE_SITE": value}, "summary": text}
    return plan_of(folder_of(tmp_path, **recipe), site=site_of(**site))


NARROW = ("name", "version", "homepage", "prefix", "exposes")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("where", NARROW)
def test_narrow_fields_refuse_it(tmp_path: Path, where: str, text: str) -> None:
    if (where, text) == ("version", "{{ 7*7 }}"):
        assert plan_with(tmp_path, where, text).recipe.version == "49"
        return
    with pytest.raises(ConfigError):
        plan_with(tmp_path, where, text)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("where", ["summary", "license", "many"])
def test_free_text_is_refused_or_inert(tmp_path: Path, sh: Shell, where: str, text: str) -> None:
    try:
        plan = plan_with(tmp_path, where, text)
    except ConfigError:
        return
    native = texts.text(plan, "native", [TEMPLATES])
    assert sh(native, check_only=True) == ""
    try:
        definition = texts.text(plan, "apptainer", [TEMPLATES])
    except ConfigError:
        assert text in {"%post", VARIABLE}
    else:
        check_definition(plan, definition, sh)
    check_native(plan, native, sh)
    check_dockerfile(plan, sh)


NAMES = ("HOSTILE", "HOSTILE_STEP", "HOSTILE_SITE")
SHOW = "\nprintf '%s\\n' " + " ".join(f'"${{{name}-}}"' for name in NAMES)


def shown(plan: Plan) -> str:
    return "".join(plan.environment.get(name, "") + "\n" for name in NAMES)


def check_definition(plan: Plan, definition: str, sh: Shell) -> None:
    heads = [line for line in definition.splitlines() if line.lstrip().startswith("%")]
    names = ["pre", "files", "labels", "environment", "post", "test", "runscript", "help"]
    assert heads == [f"%{name}" for name in names]
    post = section(definition, "post")
    assert sh(post, check_only=True) == ""
    assert sh(section(definition, "pre"), check_only=True) == ""
    # The steps themselves install packages; what is quoted is in these lines.
    quoted = [line for line in post.splitlines() if line.strip().startswith(("A=", "mkdir -p"))]
    assert sh("\n".join(quoted).replace("mkdir -p", ": ")) == ""
    assert sh(section(definition, "environment") + SHOW) == shown(plan)


def check_native(plan: Plan, native: str, sh: Shell) -> None:
    lines = native.splitlines()
    value, show = shown(plan), SHOW
    exports = "\n".join(line for line in lines if line.startswith("export "))
    assert sh(f"prefix=/p\n{exports}{show}") == value
    # What the activation file would hold, run by a second shell.
    written = sh("\n".join(line for line in lines if line.startswith("    printf '%s")))
    assert sh(written + show) == value


def check_dockerfile(plan: Plan, sh: Shell) -> None:
    text = texts.text(plan, "dockerfile", [TEMPLATES])
    words = {"#", "FROM", "ADD", "ARG", "LABEL", "ENV", "COPY", "RUN", "&&", "CMD", ""}
    assert {line.split(" ")[0] or line.strip()[:2].strip() for line in text.splitlines()} <= words
    for line in text.splitlines():
        if line.startswith("RUN ["):
            sh(json.loads(line.removeprefix("RUN "))[2], check_only=True)
        if line.startswith("ENV HOSTILE="):
            # Inside double quotes a builder reads \\, \" and \$ as a shell does, and no backquotes.
            value = line.removeprefix("ENV HOSTILE=").replace("`", "\\`")
            assert sh(f"printf %s {value}") == plan.environment["HOSTILE"]


@pytest.mark.parametrize("name", ["it's", 'a "b"', "$(touch CANARY)", "`touch X`", "back\\slash"])
def test_a_native_twin_in_a_hostile_folder_activates(tmp_path: Path, sh: Shell, name: str) -> None:
    plan = plan_of(folder_of(tmp_path))
    native = texts.text(plan, "native", [TEMPLATES])
    start = native.index('mkdir -p "$prefix"')
    end = native.index("\nif [ -r")
    prefix = tmp_path / name
    sh("prefix=$1\n" + native[start:end], str(prefix))
    path = sh(f'PATH=old\n. {shlex.quote(str(prefix / "activate.sh"))}\nprintf %s "$PATH"')
    assert path == f"{prefix}/bin:old"


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=st.text(alphabet=st.sampled_from("a'\"\\$`(){}%#;&|<>\n \t=é~*!-"), max_size=12))
def test_any_text_arrives_as_it_is(tmp_path: Path, text: str) -> None:
    """Every value that the models take comes out of a POSIX reader of the text unchanged."""
    value = text.replace("$", "$$")
    try:
        plan = plan_of(folder_of(tmp_path), site=site_of(environment={"HOSTILE": value}))
        definition = texts.text(plan, "apptainer", [TEMPLATES])
    except ConfigError:
        return
    assert plan.environment["HOSTILE"] == text
    wanted = f"HOSTILE={text}"
    [line] = [x for x in section(definition, "environment").splitlines() if "HOSTILE=" in x]
    assert shlex.split(line) == ["export", wanted]
    native = texts.text(plan, "native", [TEMPLATES])
    [line] = [x for x in native.splitlines() if x.startswith("export HOSTILE=")]
    assert shlex.split(line) == ["export", wanted]
    [line] = [x for x in native.splitlines() if "printf '%s" in x and "HOSTILE=" in x]
    assert shlex.split(shlex.split(line)[2]) == ["export", wanted]
