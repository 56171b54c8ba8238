"""Texts of a module: quoting for Lua and Tcl, and what the files say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.planning.launch.refused_variables import TABLE
from dlcontainer.publish import modulefiles
from dlcontainer.publish.modulefiles import FallbackPrograms, ModuleRelease, lua, tcl
from tests.values import HOSTILE, TEMPLATES, site_of

RELEASE = ModuleRelease(
    name="demo",
    version="1.0",
    summary='it\'s "a" $demo [x]',
    homepage="https://example.org",
    license=None,
    commands=("python", "torchrun"),
    prefix="/opt/demo",
    digest="d" * 64,
    sha256="e" * 64,
    offset=4096,
)
ENGINE = Path("/opt/an engine/apptainer")


def unlua(text: str) -> str:
    """Read a Lua string as Lua does; anything but one whole string is an AssertionError."""
    assert re.fullmatch(r'"([^"\\\n]|\\["\\]|\\[0-9]{3})*"', text)
    parts = re.sub(r"\\(\d{3}|.)", lambda m: m[1] if len(m[1]) == 1 else chr(int(m[1])), text[1:-1])
    return parts.encode("latin-1").decode()


def untcl(text: str) -> str:
    """Read a Tcl word in quotes as Tcl does; what Tcl would take for code is an AssertionError."""
    assert re.fullmatch(r'"([^"\\$\[\]{};]|\\u[0-9a-f]{4}|\\[^a-z])*"', text)
    return re.sub(
        r"\\(u([0-9a-f]{4})|.)", lambda m: chr(int(m[2], 16)) if m[2] else m[1], text[1:-1]
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_lua_reads_what_was_written(text: str) -> None:
    assert unlua(lua(text)) == text


@given(st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF)))
def test_tcl_reads_what_was_written(text: str) -> None:
    assert untcl(tcl(text)) == text.replace("]=", "] =")


def test_tcl_has_no_characters_of_more_than_16_bits() -> None:
    assert untcl(tcl("a😀b")) == "a\ufffdb"


def test_text_is_not_quoted_twice() -> None:
    assert (lua(Text("[x]")), tcl(Text("[x]"))) == ("[x]", "[x]")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_summary_is_one_line(text: str) -> None:
    release = replace(RELEASE, summary=text)
    in_lua, in_tcl = modulefiles.modulefiles(release, Path("/m/demo"), [TEMPLATES])
    assert f"whatis({lua('Description: ' + text)})\n" in in_lua
    assert f"module-whatis {tcl('Description: ' + text)}\n" in in_tcl


def test_the_modulefiles_say_the_same() -> None:
    in_lua, in_tcl = modulefiles.modulefiles(RELEASE, Path("/m/demo"), [TEMPLATES])
    for text in ("Name: demo", "URL: https://example.org", "sha256:" + "d" * 64):
        assert text in in_lua
        assert text in in_tcl
    assert "License" not in in_lua + in_tcl
    in_lua_pin = 'setenv("DLCONTAINER_RELEASE", "demo/1.0-1")\n'
    in_tcl_pin = 'setenv DLCONTAINER_RELEASE "demo/1.0-1"\n'
    for text in ("Release: demo/1.0-1", "Release 1: module load demo/1.0-1 loads just this one"):
        assert text in in_lua
        assert text in in_tcl
    assert in_lua.endswith('conflict("demo")\nprepend_path("PATH", "/m/demo/bin")\n' + in_lua_pin)
    assert in_tcl.endswith('conflict "demo"\nprepend-path PATH "/m/demo/bin"\n' + in_tcl_pin)
    assert in_tcl.startswith("#%Module1.0\n")


def test_a_wrapper_for_each_command() -> None:
    site = site_of(
        accelerator={"vendor": "amd", "model": "MI250", "per_node": 4},
        engine={"module": "it's/apptainer"},
        filesystems=[
            {"path": "/home", "kind": "nfs", "purpose": "home"},
            {"path": "/a b", "kind": "lustre", "purpose": "scratch"},
            {"path": "/tmp", "kind": "local", "purpose": "node-local"},
        ],
        modules={"bind_home": False, "pass_environment": ["WANDB_MODE", "LAB_*"]},
    ).value
    texts = modulefiles.wrappers(RELEASE, site, FallbackPrograms(engine=ENGINE), [TEMPLATES])
    assert list(texts) == ["python", "torchrun", "pip", "dlcontainer-venv"]
    text = texts["torchrun"]
    assert text.startswith("#!/bin/sh\n")
    for line in (
        "dlc_command=torchrun",
        "dlc_folders='/a b'",
        "        WANDB_MODE | LAB_*) ;;",
        "if [ 0 = 1 ]; then",
        "case --rocm in",
        "dlc_epoch=site\n",
        f"in apptainer singularity '{ENGINE}'; do",
        "\"next: \"'type: module load it'\"'\"'s/apptainer'",
    ):
        assert line in text


@pytest.mark.parametrize(
    "modules",
    [
        {"pass_environment": ["A B"]},
        {"pass_environment": ["*"]},
        {"pass_environment": ["A*B"]},
        {"pass_environment": ["A) x;; B"]},
        {"pass_environment": ["1A"]},
        {"group": "a b"},
        {"group": "-x"},
    ],
)
def test_a_site_that_would_be_code_in_a_wrapper(modules: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="not a"):
        site_of(modules=modules)


def test_caches_that_the_image_names_stay_its_own() -> None:
    site, resort = site_of().value, FallbackPrograms(engine=ENGINE)
    text = modulefiles.wrappers(RELEASE, site, resort, [TEMPLATES])["python"]
    assert f"for dlc_name in {' '.join(modulefiles.CACHES)}; do" in text
    release = replace(RELEASE, own_caches=frozenset({"TORCHINDUCTOR_CACHE_DIR"}))
    text = modulefiles.wrappers(release, site, resort, [TEMPLATES])["python"]
    assert "for dlc_name in MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR; do" in text


def test_a_wrapper_takes_the_site_s_words_for_its_engine() -> None:
    gpu = {"vendor": "nvidia", "model": "X", "per_node": 4}
    resort = FallbackPrograms(engine=ENGINE)
    site = site_of(accelerator=gpu, jobs={"flags": ["--nvccli"]}, engine={"run_mode": "userns"})
    text = modulefiles.wrappers(RELEASE, site.value, resort, [TEMPLATES])["python"]
    assert 'set -- --nvccli "$@" ;;' in text
    assert "dlc_mode=${DLCONTAINER_RUN_MODE:-userns}\n" in text
    # Wrappers start Apptainer, whatever starts images in the site's jobs.
    site = site_of(accelerator=gpu, jobs={"flags": ["--gpu"]}, engine={"runtime": "podman-hpc"})
    text = modulefiles.wrappers(RELEASE, site.value, resort, [TEMPLATES])["python"]
    assert "case --nv in" in text


def test_the_table_stands_in_the_wrapper() -> None:
    release = replace(RELEASE, environment={"DATA_HOME": "/opt/data", "OMP_NUM_THREADS": "8"})
    texts = modulefiles.wrappers(
        release, site_of().value, FallbackPrograms(engine=ENGINE), [TEMPLATES]
    )
    text = texts["python"].replace("\\\n        ", "")
    for row in TABLE:
        assert f"        # {row.key}: {row.why}\n        {' | '.join(row.names)})\n" in text
    assert "        DATA_HOME)\n            dlc_asked || continue ;;" in text
    assert "OMP_NUM_THREADS" not in text


def test_commands_for_packages_stand_beside_the_recipe_s() -> None:
    assert modulefiles.commands(RELEASE) == ("python", "torchrun", "pip", "dlcontainer-venv")
    own = replace(RELEASE, commands=("python", "pip"))
    assert modulefiles.commands(own) == ("python", "pip", "dlcontainer-venv")
    # Without a Python there is nothing to put packages on top of.
    assert modulefiles.commands(replace(RELEASE, commands=("caffe",))) == ("caffe",)


def test_help_names_what_users_can_set() -> None:
    texts = modulefiles.modulefiles(RELEASE, Path("/m"), [TEMPLATES])
    for text in texts:
        for name in ("BIND", "PASS", "VENV", "KEEP", "DEBUG"):
            assert f"DLCONTAINER_{name}" in text
        assert "dlcontainer-venv ~/my-env" in text
    texts = modulefiles.modulefiles(replace(RELEASE, commands=("caffe",)), Path("/m"), [TEMPLATES])
    assert "dlcontainer-venv" not in "".join(texts)


def test_what_makes_an_environment_is_python_without_a_hole() -> None:
    texts = modulefiles.wrappers(
        RELEASE, site_of().value, FallbackPrograms(engine=ENGINE), [TEMPLATES]
    )
    text = texts["dlcontainer-venv"]
    program = text.partition("<<'END_OF_MAKER'\n")[2].partition("\nEND_OF_MAKER\n")[0]
    compile(program, "make_venv", "exec")
    assert "END_OF_MAKER" not in texts["python"]
    packer = text.partition("<<'END_OF_PACKER'\n")[2].partition("\nEND_OF_PACKER\n")[0]
    compile(packer, "pack_venv", "exec")
    assert "END_OF_PACKER" not in texts["python"]
    # Every command of the module uses a packed environment, none but this one makes it.
    for other in texts.values():
        assert "dlc_show_pack " in other
    assert "mksquashfs" not in texts["torchrun"]
    assert "set -- -m pip" in texts["pip"]
    assert "set -- -m pip" not in texts["python"]
    assert "-m venv" not in texts["torchrun"]
