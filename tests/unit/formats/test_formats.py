"""The formats on small recipes: blocks, quoting, what can't stand in a definition file."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.formats import build_context, labels, step_commands, texts
from dlcontainer.formats.texts import Format
from dlcontainer.planning.plan import Plan
from tests.values import IMAGE_BASE, TAGGED_BASE, TEMPLATES, folder_of, plan_of, site_of

PIP = {"packages": ["tool==2.0", "other[x]==1"]}
# A base whose distribution nobody named takes no OS packages.
SHELL = {"name": "a", "shell": "true"}
UPSTREAM = {"up": {"url": "https://example.org/whl?a=1&b=2", "source": "a page"}}


def render(plan: Plan, form: Format) -> str:
    return texts.text(plan, form, [TEMPLATES])


def steps(tmp_path: Path, *given: dict[str, Any], **recipe: Any) -> Plan:
    return plan_of(folder_of(tmp_path, steps=list(given), **recipe))


def test_an_image_by_digest_as_base(tmp_path: Path) -> None:
    plan = steps(tmp_path, SHELL, base=IMAGE_BASE)
    source = IMAGE_BASE["image"].removeprefix("docker://")
    definition = render(plan, "apptainer").splitlines()
    assert definition[4:6] == ["Bootstrap: docker", f"From: {source}"]
    # The routing is bound at a folder that not every image has.
    assert '    [ -d "$rootfs"/mnt ] || mkdir "$rootfs"/mnt' in definition
    dockerfile = render(plan, "dockerfile").splitlines()
    assert f"FROM {source}" in dockerfile
    assert not [line for line in dockerfile if line.startswith("ADD")]


def test_an_image_with_a_tag_too(tmp_path: Path) -> None:
    digest = f"sha256:{'cd' * 32}"
    plan = steps(tmp_path, SHELL, base={**TAGGED_BASE, "digest": digest})
    name = "registry.example.org/base/os"
    forms: dict[Format, str] = {"apptainer": "From: ", "dockerfile": "FROM "}
    for form, word in forms.items():
        text = render(plan, form)
        assert f"\n{word}{name}@{digest}\n" in text
        assert f"# base: docker://{name}@{digest} (tag 8.9)\n" in text
    found = labels.labels(plan)
    assert found["org.opencontainers.image.base.name"] == f"{name}:8.9"
    assert found["org.opencontainers.image.base.digest"] == digest


def test_an_image_that_is_not_pinned_is_rendered_and_said_so(tmp_path: Path) -> None:
    plan = steps(tmp_path, SHELL, base=TAGGED_BASE)
    warning = "# The base's tag may name another image tomorrow: pin it (base.digest).\n"
    forms: dict[Format, str] = {"apptainer": "From: ", "dockerfile": "FROM "}
    for form, word in forms.items():
        text = render(plan, form)
        assert f"\n{word}registry.example.org/base/os:8.9\n" in text
        assert warning in text
    assert "org.opencontainers.image.base.digest" not in labels.labels(plan)
    (note,) = [note for note in plan.notes if note.startswith("base: ")]
    assert "os:8.9 is not pinned" in note


def test_a_native_twin_of_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no native twin: the base is an image"):
        render(plan_of(folder_of(tmp_path, base=IMAGE_BASE)), "native")


def test_blocks_of_an_image(tmp_path: Path) -> None:
    plan = steps(
        tmp_path,
        {"name": "os", "os_packages": ["gcc=4:12.2.0-3", "g++"]},
        {"name": "env", "environment": {"A": "1"}},
        {"name": "snippet", "shell": "cat <<X\n  a\nX\n\n"},
        {"name": "pip", "python_packages": PIP},
        mount_points=["/lustre", "/it's here"],
    )
    blocks = step_commands.image_blocks(plan)
    assert [(b.name, b.number, b.total, b.is_script) for b in blocks] == [
        ("os", 1, 5, False),
        ("snippet", 2, 5, True),
        ("pip", 3, 5, False),
        ("mount-points", 4, 5, False),
        ("clean", 5, 5, False),
    ]
    assert blocks[0].commands[1].endswith("--no-install-recommends gcc=4:12.2.0-3 g++")
    assert blocks[1].commands == ("prefix=/opt/demo", "cat <<X\n  a\nX")
    assert blocks[3].commands == ("mkdir -p /lustre '/it'\"'\"'s here'",)
    assert plan.recipe.native_packages == ["g++", "gcc"]


def test_packages_come_from_an_upstream_that_a_build_can_reroute(tmp_path: Path) -> None:
    step = {"name": "pip", "python_packages": {**PIP, "upstream": "up"}}
    block = step_commands.image_blocks(steps(tmp_path, step, upstreams=UPSTREAM))[0]
    assert block.commands[1] == ": \"${DLC_UPSTREAM_UP='https://example.org/whl?a=1&b=2'}\""
    assert block.commands[2].endswith(
        " --no-deps --only-binary=:all:"
        " ${DLC_UPSTREAM_UP:+--extra-index-url \"$DLC_UPSTREAM_UP\"} tool==2.0 'other[x]==1'"
    )


def test_blocks_of_the_native_twin(tmp_path: Path) -> None:
    plan = steps(
        tmp_path,
        {"name": "os", "os_packages": ["gcc"]},
        {"name": "system", "shell": "ldconfig"},
        {"name": "both", "shell": "echo $prefix", "native": True},
        {"name": "pip", "python_packages": PIP},
    )
    blocks = step_commands.native_blocks(plan)
    assert [(block.name, block.total) for block in blocks] == [("both", 2), ("pip", 2)]
    assert blocks[0].commands == ("echo $prefix",)
    assert step_commands.native_left_out(plan) == ["system"]
    text = render(plan, "native")
    assert "# Left out, since they change a system: system\n" in text
    assert "apt-get update" not in text


def test_a_snippet_in_a_dockerfile_keeps_its_lines(tmp_path: Path) -> None:
    script = "# a comment\ncat <<'X'\n\"it's\" \\\nX\n"
    text = render(steps(tmp_path, {"name": "a", "shell": script}), "dockerfile")
    line = next(line for line in text.splitlines() if line.startswith("RUN ["))
    shell, flags, body = json.loads(line.removeprefix("RUN "))
    assert (shell, flags) == ("/bin/sh", "-euc")
    assert body.splitlines()[1:] == ["prefix=/opt/demo", *script.splitlines()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"summary": "%post"}, "summary: a definition file cannot have a line"),
        ({"summary": " %runscript"}, "summary: a definition file cannot have a line"),
        (
            {"steps": [{"name": "a", "shell": "cat <<X\n \t%help\nX"}]},
            "step 'a': shell: a definition file cannot have a line",
        ),
        (
            {"environment": {"A": "{% raw %}{{ HOME }}{% endraw %}"}},
            "environment.A: a definition file cannot contain '{{ HOME }}'",
        ),
        (
            {"steps": [{"name": "a", "shell": "echo {{ '{{x}}' }}"}]},
            "step 'a': shell: a definition file cannot contain '{{x}}'",
        ),
        ({"license": "{{ '{{ x }}' }}"}, "license: a definition file cannot contain '{{ x }}'"),
        (
            {"mount_points": ["/a {{ '{{ x }}' }}"]},
            "mount_points: a definition file cannot contain '{{ x }}'",
        ),
    ],
)
def test_what_cannot_stand_in_a_definition_file(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    plan = plan_of(folder_of(tmp_path, **changes))
    with pytest.raises(ConfigError) as caught:
        render(plan, "apptainer")
    assert caught.value.what.startswith(message)
    assert str(caught.value.where).startswith("recipe.yaml:")
    assert render(plan, "dockerfile")


def test_labels_leave_out_what_is_not_there(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path), site=site_of(arch="ppc64le"))
    found = labels.labels(plan)
    assert found["org.dlcontainer.arch"] == "ppc64le"
    assert found["org.dlcontainer.digest"] == f"sha256:{plan.digest}"
    assert "org.opencontainers.image.licenses" not in found
    assert "None" not in found.values()


def test_the_manifest_describes_the_image(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path))
    text = labels.manifest(plan)
    body = json.loads(text)
    assert (body["schema"], body["digest"]) == ("dlcontainer/manifest/1", plan.digest)
    assert body["content"] == json.loads(json.dumps(plan.content))
    # `validate` finds the image's Python through this very line.
    assert ' "python": "/opt/demo/bin/python",' in text.splitlines()


@pytest.mark.parametrize("form", ["native", "job"])
def test_a_folder_gets_the_text_and_the_files_that_it_names(tmp_path: Path, form: Format) -> None:
    plan = plan_of(folder_of(tmp_path))
    target = tmp_path / "it's new"
    written = build_context.write(plan, form, "text\n", f"{target}/")
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    names = {"verify.py"} if form == "native" else set()
    assert found == {texts.FILE_NAMES[form], *names}
    assert (written.name, written.read_text()) == (texts.FILE_NAMES[form], "text\n")
    again = build_context.write(plan, form, "other\n", str(target))
    assert (again, again.read_text()) == (written, "other\n")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    plan = plan_of(folder_of(tmp_path))
    target = tmp_path / "it's text"
    assert build_context.write(plan, "apptainer", "one\n", str(target)) == target
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's a recipe", "it's text"]
    with pytest.raises(ConfigError, match=r"can't write .*: ") as caught:
        build_context.write(plan, "apptainer", "two\n", str(target / "below"))
    assert (caught.value.next_step, target.read_text()) == ("name another path with -o", "one\n")
