"""Facts of a machine, from recorded files."""

import os
from pathlib import Path

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.system import machine
from dlcontainer.system.environ import variables
from tests import values
from tests.values import RECORDED

DEBIAN = RECORDED / "debian-12"
MOUNTS = RECORDED / "mounts"


def test_a_recorded_debian() -> None:
    host = machine.read_host({"HOME": "/home/it's me"}, root=DEBIAN)
    assert (host.distribution, host.release) == ("debian", "bookworm")
    assert (host.cpu_model, host.memory_mb) == ("AMD EPYC 7763 64-Core Processor", 16777)
    assert (host.home, host.uid, host.cores > 0) == (Path("/home/it's me"), os.getuid(), True)
    assert machine.available_memory_mb(DEBIAN) == 8388


@pytest.mark.parametrize(
    ("text", "distribution", "release"),
    [
        ('ID="rocky"\nVERSION_ID="9.3"\n', "rocky", "9.3"),
        (
            "ID='ubuntu'\n# ID=comment\n\nVERSION_CODENAME=noble\nVERSION_ID=24.04\n",
            "ubuntu",
            "noble",
        ),
        ("NAME=odd\n", None, None),
    ],
)
def test_other_distributions(
    tmp_path: Path, text: str, distribution: str | None, release: str | None
) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "usr/lib/os-release").write_text(text)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\n")
    (tmp_path / "proc/cpuinfo").write_text("cpu\t\t: POWER9, altivec supported\n")
    host = machine.read_host({}, root=tmp_path)
    assert (host.distribution, host.release) == (distribution, release)
    assert (host.cpu_model, host.home) == ("POWER9, altivec supported", variables.home({}))


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\n")
    with pytest.raises(ConfigError, match="/proc/meminfo has no MemTotal"):
        machine.read_host({}, root=tmp_path)


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/nowhere/yet", "/", "ext4"),
        ("/dev/shm/x", "/dev/shm", "tmpfs"),
        ("/home/ada", "/home", "nfs4"),
        ("/homes", "/", "ext4"),
        ("/scr atch/it's\\here/below", "/scr atch/it's\\here", "lustre"),
        ("/tab\tand\nline/x", "/tab\tand\nline", "xfs"),
        ("/srv/x", "/srv", "ext4"),
    ],
)
def test_mounts(path: str, point: str, kind: str) -> None:
    mount = machine.mount_of(Path(path), mounts=MOUNTS)
    assert (str(mount.point), mount.kind) == (point, kind)
    assert mount.is_network is (kind in {"nfs4", "lustre"})


def test_options_of_a_mount() -> None:
    assert "noexec" in machine.mount_of(Path("/tmp/x"), mounts=MOUNTS).options
    assert "noexec" not in machine.mount_of(Path("/dev/shm"), mounts=MOUNTS).options


def test_mounts_below_a_folder_come_last_first(tmp_path: Path) -> None:
    listed = tmp_path / "mounts"
    points = ("/", "/work", "/work/a\\040place", "/workshop", "/work/a\\040place/in\u2028it")
    text = "".join(f"x {point} fuse.slowfs ro,nosuid 0 0\n" for point in points)
    listed.write_bytes(text.encode() + b"x /work/\xff tmpfs rw 0 0\n")
    below = [os.fsencode(one.point) for one in machine.mounts_below(Path("/work"), mounts=listed)]
    last = "/work/a place/in\u2028it".encode()
    assert below == [b"/work/\xff", last, b"/work/a place", b"/work"]
    assert machine.mounts_below(Path("/none"), mounts=listed) == []


def test_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scr atch/it's\\here")
    assert machine.mount_of(tmp_path / "link" / "x", mounts=MOUNTS).kind == "lustre"


@pytest.mark.parametrize(
    ("limit", "wanted"), [("max\n", None), ("4000000000\n", 4000), (None, None)]
)
def test_the_memory_limit_of_a_login(tmp_path: Path, limit: str | None, wanted: int | None) -> None:
    group = tmp_path / "sys/fs/cgroup/user.slice/it's"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("1:cpu:/x\n0::/user.slice/it's\n")
    if limit is not None:
        (group / "memory.max").write_text(limit)
    assert machine.cgroup_memory_mb(tmp_path) == wanted
    (tmp_path / "proc/self/cgroup").write_text("1:cpu:/x\n")
    assert machine.cgroup_memory_mb(tmp_path) is None


def test_a_limit_of_the_users_slice_counts(tmp_path: Path) -> None:
    slice_, session = "user.slice/user-1000.slice", "session-3.scope"
    group = tmp_path / "sys/fs/cgroup" / slice_ / session
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"0::/{slice_}/{session}\n")
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text("4294967296\n")
    assert machine.cgroup_memory_mb(tmp_path) == 4294
    (group / "memory.max").write_text("1000000000\n")
    assert machine.cgroup_memory_mb(tmp_path) == 1000


def test_free_space_of_what_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Asked once, since others fill and empty the disk meanwhile.
    asked: list[Path] = []
    found = os.statvfs(tmp_path)

    def statvfs(path: Path) -> os.statvfs_result:
        asked.append(path)
        return found

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert machine.free_mb(tmp_path / "a" / "b c") == found.f_bavail * found.f_frsize // 1_000_000
    assert asked == [tmp_path]


def test_packages_that_dpkg_has_not_installed(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1 kB\n")
    status.write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\n\n"
        # Removed, its settings kept; half done; for two architectures, one of them there.
        "Package: libgomp1\nStatus: deinstall ok config-files\n\n"
        "Package: gcc\nStatus: install ok half-configured\n\n"
        "Package: zlib1g\nStatus: deinstall ok config-files\nArchitecture: i386\n\n"
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\n"
        "Description: a library\n Package: python3-venv\n Status: install ok installed\n\n"
        "Status: hold ok installed\nPackage: held\n"
    )
    host = machine.read_host({}, root=tmp_path)
    names = ["zlib1g", "python3-venv", "libgomp1", "gcc", "libc6", "held"]
    assert machine.missing_packages(names, host) == ["gcc", "libgomp1", "python3-venv"]
    assert machine.missing_packages([], host) == []
    # What is remembered of the file is of these bytes.
    status.write_text(status.read_text() + "\nPackage: gcc\nStatus: install ok installed\n")
    assert machine.missing_packages(names, host) == ["libgomp1", "python3-venv"]


def test_a_host_without_dpkg_says_nothing_of_packages() -> None:
    assert machine.missing_packages(["libgomp1"], values.host(dpkg_status=None)) == []


@pytest.mark.parametrize("missing", [[], ["newuidmap"], ["newgidmap"], ["newuidmap", "newgidmap"]])
def test_who_can_map_a_range_of_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: list[str]
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    for name in {"newuidmap", "newgidmap"} - set(missing):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    host = values.host(environ={"PATH": str(tmp_path)})
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda _: [])
    assert machine.without_id_maps(host) == missing
    assert machine.maps_one_id(host) is bool(missing)
    assert machine.maps_one_id(values.host(uid=0, environ=host.environ)) is False
    monkeypatch.setattr(machine, "without_subordinate_ids", lambda _: ["/etc/subuid"])
    assert machine.maps_one_id(host) is True


def test_our_own_children_get_no_secret_and_no_relative_path() -> None:
    environ = {
        "PATH": ".::/usr/bin:x",
        "HOME": "/home/ada",
        "GITHUB_TOKEN": "s",
        "AWS_SECRET_ACCESS_KEY": "s",
        "APPTAINER_DOCKER_PASSWORD": "s",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "APPTAINERENV_MINE": "s",
        "http_proxy": "http://someone:s@p.example:1",
        "https_proxy": "http://p.example:1",
        "PIP_INDEX_URL": "https://s@m.example/simple",
        "SLURM_JOB_ID": "7",
    }
    assert machine.for_children(environ) == {
        "PATH": "/usr/bin",
        "HOME": "/home/ada",
        "https_proxy": "http://p.example:1",
        "SLURM_JOB_ID": "7",
    }
