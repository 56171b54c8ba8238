"""What a build step sees: the same lines in every text, and a part of each kept step's key."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.build import build_steps
from dlcontainer.formats import build_context, step_environment, texts
from dlcontainer.planning.plan import Plan
from tests.values import IMAGE_BASE, TEMPLATES, folder_of, plan_of

STEPS: list[dict[str, Any]] = [
    {"name": "one", "native": True, "shell": "true"},
    {"name": "two", "shell": "true"},
]
VARIABLES = {"CFLAGS": "-O2 'a' \"b\" $$x", "LD_LIBRARY_PATH": "/opt/demo/lib", "LC_ALL": "C"}


def planned(folder: Path, **recipe: Any) -> Plan:
    return plan_of(folder_of(folder, **{"steps": STEPS, **recipe}))


def seen(lines: str, show: str, **variables: str) -> list[str]:
    """Run lines of a text in a shell, and give what a program below it sees."""
    script = (
        f"set -eu\n{lines}\nfor name in {show}; do\n    /usr/bin/printenv $name || echo -\ndone\n"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.usefixtures("real_processes")
def test_lines_set_what_the_plan_sets(tmp_path: Path) -> None:
    plan = planned(tmp_path, environment=VARIABLES)
    names = "CFLAGS LD_LIBRARY_PATH LC_ALL LANG DEBIAN_FRONTEND HOME PATH"
    own = ["-O2 'a' \"b\" $x", "/opt/demo/lib", "C", "C.UTF-8"]
    path = f"/opt/demo/bin:{step_environment.SYSTEM_PATH}"
    inside = "\n".join(step_environment.image_lines(plan))
    given = {"LANG": "C", "LD_LIBRARY_PATH": "/.singularity.d/libs", "PATH": "/old"}
    assert seen(inside, names, **given) == [*own, "noninteractive", "/root", path]
    native = "prefix=/opt/demo\n" + "\n".join(step_environment.native_lines(plan))
    host = {"CFLAGS": "-O9", "LC_ALL": "de_DE", "HOME": "/home/ada", "PATH": "/old"}
    assert seen(native, names, **host) == [*own, "-", "/home/ada", path]


@pytest.mark.usefixtures("real_processes")
def test_a_host_shell_tells_a_native_twin_nothing(tmp_path: Path) -> None:
    lines = "prefix=/p\n" + "\n".join(step_environment.native_lines(planned(tmp_path)))
    names = "CC CFLAGS CPATH PYTHONPATH LD_PRELOAD LD_LIBRARY_PATH PIP_INDEX_URL"
    given = dict.fromkeys(names.split(), "x") | {"LD_PRELOAD": ""}
    assert seen(lines, names, **given) == [*"------", "x"]


@pytest.mark.usefixtures("real_processes")
def test_the_program_fakeroot_stays(tmp_path: Path) -> None:
    """Without its libraries an ordinary user's step is not root any more."""
    lines = step_environment.image_lines(planned(tmp_path, environment=VARIABLES))
    own = {"FAKEROOTKEY": "1", "LD_LIBRARY_PATH": "/usr/lib/libfakeroot"}
    assert seen("\n".join(lines), "LD_LIBRARY_PATH", **own) == [
        "/opt/demo/lib:/usr/lib/libfakeroot"
    ]


@pytest.mark.usefixtures("real_processes")
def test_what_the_base_sets_is_there_unless_the_plan_says_more(tmp_path: Path) -> None:
    plan = planned(tmp_path, base=IMAGE_BASE, environment={"CUDA": "/own"})
    lines = "\n".join(step_environment.image_lines(plan))
    given = {"PATH": "/usr/local/cuda/bin:/bin", "CUDA": "/base", "BASE": "1", "LC_ALL": "C"}
    path = "/opt/demo/bin:/usr/local/cuda/bin:/bin"
    assert seen(lines, "PATH CUDA BASE LC_ALL", **given) == [path, "/own", "1", "C"]


def test_the_texts_begin_with_them(tmp_path: Path) -> None:
    plan = planned(tmp_path, environment=VARIABLES)
    post = texts.text(plan, "apptainer", [TEMPLATES]).split("%post\n")[1].split("\n%")[0]
    lines = [line.strip() for line in post.splitlines()]
    inside = step_environment.image_lines(plan)
    # Before the routing, which is how the build gets out, and before the first step.
    assert lines[2 : 2 + len(inside)] == inside
    assert lines[2 + len(inside)].startswith("if [ -r /mnt/routing.sh ]")
    native = texts.text(plan, "native", [TEMPLATES]).splitlines()
    at = native.index(step_environment.native_lines(plan)[0])
    assert native[at : at + len(inside)] == step_environment.native_lines(plan)[: len(inside)]
    assert at < native.index('echo "==> step 1/1 one"')
    dockerfile = texts.text(plan, "dockerfile", [TEMPLATES]).splitlines()
    first = next(i for i, line in enumerate(dockerfile) if line.startswith("RUN"))
    head = dockerfile[:first]
    assert 'ENV CFLAGS="-O2 \'a\' \\"b\\" \\$x"' in head
    # No ENV: it would be in the image.
    assert [line for line in head if line.startswith("ARG")] == [
        "ARG DEBIAN_FRONTEND=noninteractive",
        "ARG LC_ALL=C.UTF-8",
    ]


def keys(folder: Path, **recipe: Any) -> list[build_steps.BuildStep]:
    plan = planned(folder, **recipe)
    build_context.stage(plan, folder / "context")
    return build_steps.work(plan, folder / "context", {"base": "x"})


@pytest.mark.parametrize(
    "changed",
    [
        {"environment": {"A": "2"}},
        {"environment": {}},
        {"environment": {"A": "1", "B": "x"}},
        {"steps": [{**STEPS[0], "environment": {"C": "1"}}, STEPS[1]]},
        {"steps": [STEPS[0], {**STEPS[1], "environment": {"C": "1"}}]},
        {"prefix": "/opt/other"},
    ],
)
def test_a_step_kept_under_other_variables_is_not_used(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    given = {"environment": {"A": "1"}}
    before, again = keys(tmp_path / "a", **given), keys(tmp_path / "b", **given)
    other = keys(tmp_path / "c", **{**given, **changed})
    assert [step.key for step in before] == [step.key for step in again]
    assert not {step.key for step in before} & {step.key for step in other}
    assert before[0].inputs["environment"] != other[0].inputs["environment"]


def test_where_variables_stand_does_not_count(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [{**STEPS[0], "environment": {"A": "1"}}, STEPS[1]]
    of_step = keys(tmp_path / "a", steps=steps)
    of_recipe = keys(tmp_path / "b", environment={"A": "1"})
    assert of_step[0].key == of_recipe[0].key
