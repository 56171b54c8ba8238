"""The variables of an image: whose they are, and what a dollar in a value means."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer import config
from dlcontainer.errors import ConfigError
from dlcontainer.planning.plan import Plan
from tests.values import folder_of, plan_of, site_of

WHERE = ("recipe", "step", "left out", "site", "overrides", "--set")


def planned(folder: Path, where: str, name: str, value: str) -> Plan:
    """Set a variable in one of the layers."""
    given = {name: value}
    recipe: dict[str, Any] = {"environment": given} if where == "recipe" else {}
    if where in ("step", "left out"):
        step: dict[str, Any] = {"name": "a", "os_packages": ["python3"], "environment": given}
        recipe = {"steps": [step, {"name": "b", "shell": "true"}]}
    if where == "left out":
        step["when"] = "site.arch == 'ppc64le'"
    changes = {
        "overrides": [config.from_data({"environment": given}, layer="overrides")],
        "--set": [config.from_settings([f"environment.{name}={value}"])],
    }
    return plan_of(
        folder_of(folder, **recipe),
        site=site_of(environment=given if where == "site" else {}),
        changes=changes.get(where, []),
    )


@pytest.mark.parametrize("where", [one for one in WHERE if one != "left out"])
@pytest.mark.parametrize(
    ("written", "value"),
    [("$$", "$"), ("a$$b", "a$b"), ("$${HOME}", "${HOME}"), ("$$$$1", "$$1"), ("a'b\\n", "a'b\\n")],
)
def test_a_doubled_dollar_is_one(tmp_path: Path, where: str, written: str, value: str) -> None:
    assert planned(tmp_path, where, "A", written).environment["A"] == value


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/x:$LD_LIBRARY_PATH", "$LD_LIBRARY_PATH"),
        ("${A}/b", "${A}"),
        ("${A:-b}", "${A:-b}"),
        ("$(nproc)", "$(nproc)"),
        ("a$$$b", "$b"),
        ("a$", "$"),
        ("$1", "$"),
        ("${", "${"),
    ],
)
def test_a_dollar_that_nothing_fills_in(tmp_path: Path, where: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, where, "A", value)
    error = caught.value
    assert error.what.endswith(f"environment.A: nothing fills in {said!r}")
    assert "$$ for a dollar sign" in str(error.next_step)
    place = str(error.where)
    if where in ("recipe", "step", "left out"):
        assert place.startswith("recipe.yaml:")
    else:
        assert place.startswith(where)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PATH", "PATH is set by dlcontainer"),
        ("IFS", "IFS is a variable of the shell"),
        ("UID", "UID is a variable of the shell"),
        ("prefix", "prefix is reserved for dlcontainer"),
        ("DLC_UPSTREAM_A", "DLC_UPSTREAM_A is reserved for dlcontainer"),
        ("dlc_before", "dlc_before is reserved for dlcontainer"),
    ],
)
def test_names_that_are_no_recipes(tmp_path: Path, where: str, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"environment.{name}: {said}"):
        planned(tmp_path, where, name, "x")


def test_a_value_of_the_site_in_a_template_is_no_exception(tmp_path: Path) -> None:
    mpi = {"family": "mpich", "mode": "compile", "name": "MPICH", "root": "$MPI_ROOT"}
    folder = folder_of(tmp_path, environment={"A": "{{ site.mpi.root }}/lib"})
    with pytest.raises(ConfigError, match=r"recipe\.yaml:\d+:3: environment\.A: nothing fills in"):
        plan_of(folder, site=site_of(mpi=mpi))


@pytest.mark.parametrize("path", ["/scratch/$USER", "/a/${B}", "/a/${B"])
def test_a_variable_in_a_path_is_refused(tmp_path: Path, path: str) -> None:
    """A folder of that very name was made, or a mount point that nobody meets."""
    with pytest.raises(ConfigError, match=r"mount_points\[0\]: \$.* is not expanded here"):
        plan_of(folder_of(tmp_path, mount_points=[path]))
    with pytest.raises(ConfigError, match=r"engine\.tmpdir: \$.* is not expanded here"):
        site_of(engine={"tmpdir": path})
