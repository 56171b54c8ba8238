"""How an image is mounted once and joined, unpacked, and how a host's installation is routed."""

from pathlib import Path

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.packages import routing
from tests.values import folder_of, host, plan_of, site_of

ENGINE = Apptainer(program=Path("/bin/apptainer"))
SPEC = RunSpec(
    image=Path("/a b/x.sif"), argv=("python", "a b"), mode="userns", environment={"A": "b c"}
)
QUIET = ["/bin/apptainer", "--nocolor", "--quiet"]


def test_an_instance_is_started_joined_and_stopped() -> None:
    kept_out = ["--cleanenv", "--containall", "--no-home"]
    start = [*QUIET, "instance", "start", "--userns", *kept_out, "/a b/x.sif", "dlc-1"]
    assert ENGINE.start_argv(SPEC, "dlc-1") == start
    join = [*QUIET, "exec", "--cleanenv", "--pwd", "/", "--env", "A=b c"]
    assert ENGINE.join_argv(SPEC, "dlc-1") == [*join, "instance://dlc-1", "python", "a b"]
    assert ENGINE.stop_argv("dlc-1") == [*QUIET, "instance", "stop", "dlc-1"]


def test_an_image_is_unpacked() -> None:
    argv = ENGINE.unpack_argv(Path("/x.sif"), Path("/scratch/tree"), "fakeroot")
    head = ["/bin/apptainer", "--nocolor", "build", "--sandbox", "--disable-cache"]
    assert argv == [*head, "--fakeroot", "/scratch/tree", "/x.sif"]


def test_instances_are_noted_outside_the_home() -> None:
    given = apptainer.environment({"HOME": "/home/ada"}, state=Path("/scratch/state"))
    assert given["APPTAINER_CONFIGDIR"] == given["SINGULARITY_CONFIGDIR"] == "/scratch/state"
    assert "APPTAINER_CONFIGDIR" not in apptainer.environment({"HOME": "/home/ada"})


def test_a_host_installs_through_the_sites_routing(tmp_path: Path) -> None:
    wheels, folder = tmp_path / "whe els", tmp_path / "routing"
    wheels.mkdir()
    folder.mkdir()
    site = site_of(
        routing={
            "pip": {"index": "https://mirror.example.org/simple"},
            "wheels": [str(wheels)],
            "proxy": "http://proxy.example.org:3128",
            "ca": "default",
        }
    )
    given, notes = routing.for_host(plan_of(folder_of(tmp_path), site=site), host(), folder)
    assert notes == ()
    assert given["https_proxy"] == given["HTTPS_PROXY"] == "http://proxy.example.org:3128"
    text = Path(given["PIP_CONFIG_FILE"]).read_text()
    assert "index-url = https://mirror.example.org/simple" in text
    (link,) = [path for path in folder.iterdir() if path.is_symlink()]
    assert link.resolve() == wheels
    assert f"find-links = {link}" in text
