"""What makes the base: exact commands, which way works here, what no argument shows."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.build.base import bootstrap, root_tree
from dlcontainer.engines import base_modes
from dlcontainer.errors import BuildError
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CommandTimeoutError
from tests.fakes import RecordingRunner, completed
from tests.unit.build.base.making import Making, make, maker, routed

WITHOUT_DOCUMENTATION = (
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-include=/usr/share/locale/locale.alias",
)


def test_what_reaches_the_tools(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    runner = Making()
    make(plan, tools, runner, tmp_path)
    names = [Path(argv[0]).name for argv in runner.argvs]
    assert names == ["mmdebstrap", "mmdebstrap", "sh"]
    assert runner.argvs[0][1] == "--unshare-helper"
    assert runner.argvs[1][1:3] == ("--mode=unshare", "--variant=minbase")
    for call in runner.calls[1:]:
        assert call.env == {**_kept(tools), "SOURCE_DATE_EPOCH": "1577836800"}
        assert call.log == tmp_path / "log"
    as_root = Making()
    (tmp_path / "the cache/bases/debian-bookworm-amd64/base.json").unlink()
    from dataclasses import replace

    make(plan, replace(tools, uid=0), as_root, tmp_path)
    env = as_root.calls[1].env
    assert env is not None
    assert env["TMPDIR"] == str(tmp_path / "work")
    # Its mounts end with it.
    assert as_root.argvs[1][:2] == ("unshare", "--mount")
    assert as_root.argvs[1][3:5] == ("--mode=root", "--variant=minbase")


def test_a_user_who_maps_one_id(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    runner = Making([completed("mmdebstrap", code=1, stderr="E: no newuidmap\n")])
    make(plan, tools, runner, tmp_path)
    tried, argv = runner.argvs[1:3]
    assert tried[: len(base_modes.ROOT_MAPPED.prefix)] == base_modes.ROOT_MAPPED.prefix
    assert argv[: len(base_modes.ROOT_MAPPED.prefix)] == base_modes.ROOT_MAPPED.prefix
    assert argv[:3] == ("unshare", "--map-root-user", "--mount")
    assert Path(argv[6]).name == "fake_ids.py"
    # --aptopt leaves a file in the tree; no other way does.
    assert '--customize-hook=rm "$1"/etc/apt/apt.conf.d/99mmdebstrap' in argv
    # The devices go after all other hooks; suite and target stay the last words.
    assert argv[-3].startswith("--customize-hook=for name in null ")
    assert argv[-2:] == ("bookworm", f"{tmp_path}/work/rootfs.tar")
    env = runner.calls[2].env
    assert env is not None
    assert env["TMPDIR"] == str(tmp_path / "work")


def test_why_a_way_does_not_work(tools: HostMachine, tmp_path: Path) -> None:
    # As mmdebstrap 1.3.5 says it to a user whose home is closed to others.
    said = (
        "sh: 1: /home/ada/bin/mmdebstrap: Permission denied\n"
        "E: system failed: 32256\n"
        "E: unshared command failed\n"
    )
    runner = RecordingRunner([completed("mmdebstrap", code=25, stderr=said), completed("ok")])
    tried = base_modes.attempt(Path("/home/ada/bin/mmdebstrap"), tools, runner)
    assert tried.mode == base_modes.ROOT_MAPPED
    assert tried.failures == {"unshare": "sh: 1: /home/ada/bin/mmdebstrap: Permission denied"}


def test_where_no_way_works(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    late = CommandTimeoutError(completed("x"), 60)
    no = completed("mmdebstrap", code=1, stderr="E: this\nE: that\n\n")
    with pytest.raises(BuildError, match="mmdebstrap cannot make a base here") as caught:
        make(plan, tools, RecordingRunner([no, late], strict=True), tmp_path)
    assert str(caught.value.why).startswith("unshare: E: that; root-mapped: ")
    assert "doctor" in str(caught.value.next_step)


def _kept(tools: HostMachine) -> dict[str, str]:
    return {name: tools.environ[name] for name in ("PATH", "HOME")}


def test_the_command_that_makes_the_tree(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    target = Path("/it's here/rootfs.tar")
    argv = bootstrap.mmdebstrap_argv(root_tree.root_tree(plan), routed(tmp_path), tools, target)
    assert argv == [
        f"{tmp_path}/it's bin/mmdebstrap",
        *("--variant=minbase", "--format=tar", "--architectures=amd64"),
        *WITHOUT_DOCUMENTATION,
        '--customize-hook=: > "$1"/etc/resolv.conf',
        '--customize-hook=echo localhost > "$1"/etc/hostname',
        '--customize-hook=cd "$1"/var/log && rm -rf apt dpkg.log bootstrap.log alternatives.log',
        *("bookworm", "/it's here/rootfs.tar"),
    ]


def test_the_hosts_mirrors_are_put_aside_again(
    plan: Plan, tools: HostMachine, tmp_path: Path
) -> None:
    source = AptSource(
        uri="https://m.example/it's", suite="bookworm", components=("main",), keyring=Path("/k.gpg")
    )
    way = routed(tmp_path, apt_sources=(source,), apt_settings=('Acquire::Retries "3";',))
    tree, work = root_tree.root_tree(plan), tmp_path / "it's work"
    work.mkdir()
    argv = bootstrap.mmdebstrap_argv(tree, way, tools, work / "t.tar")
    quoted = shlex.quote(str(work))
    assert [shlex.split(word.partition("=")[2]) for word in (argv[10], argv[13], argv[15])] == [
        ["copy-in", f"{work}/98dlcontainer", "/etc/apt/apt.conf.d"],
        ["copy-in", f"{work}/sources.list", "/etc/apt"],
        ["copy-out", "/var/lib/apt/lists", str(work)],
    ]
    assert argv[11:13] == [
        '--customize-hook=rm "$1"/etc/apt/apt.conf.d/98dlcontainer',
        '--setup-hook=mv "$1"/etc/apt/sources.list "$1"/etc/apt/sources.default',
    ]
    assert argv[14] == '--customize-hook=mv "$1"/etc/apt/sources.default "$1"/etc/apt/sources.list'
    assert argv[15].endswith(f" {quoted}")
    bootstrap.stage(tree, way, work)
    files = {path.name: path.read_text() for path in work.iterdir()}
    assert files == {
        "98dlcontainer": 'Acquire::Retries "3";\n',
        "sources.list": "deb [signed-by=/k.gpg] https://m.example/it's bookworm main\n",
    }
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    bootstrap.unstage(work)
    assert list(work.iterdir()) == []


def test_no_secret_in_an_argument(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    uri = "https://puser:PLANTED@m.example/debian"
    source = AptSource(uri=uri, suite="bookworm", components=("main",), keyring=None)
    setting = 'Acquire::http::Proxy "http://puser:PLANTED@p.example:1";'
    way = routed(tmp_path / "work", apt_sources=(source,), apt_settings=(setting,))
    runner = Making()
    (tmp_path / "work").mkdir()
    kept = maker(tools, runner, tmp_path)
    root_tree.prepare(plan, way, kept, tmp_path / "work", tmp_path / "log")
    # The trial of a mode, mmdebstrap, mksquashfs.
    assert len(runner.argvs) == 3
    assert not [word for argv in runner.argvs for word in argv if "PLANTED" in word]
    # Nor does it stay in a file.
    assert not [path for path in (tmp_path / "work").iterdir() if path.is_file()]


def test_a_maker_that_fails(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    said = "".join(f"line {number}\n" for number in range(20))
    runner = RecordingRunner([completed("tried"), completed("mmdebstrap", code=25, stdout=said)])
    with pytest.raises(BuildError, match="cannot make the base") as caught:
        make(plan, tools, runner, tmp_path)
    assert str(caught.value.why).splitlines() == [f"line {number}" for number in range(12, 20)]
    assert "doctor" in str(caught.value.next_step)


def test_a_mirror_that_lags(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    said = "E: Failed to fetch http://m.example/Packages.xz  Mirror sync in progress?\n"
    runner = RecordingRunner([completed("tried"), completed("mmdebstrap", code=25, stdout=said)])
    with pytest.raises(BuildError) as caught:
        make(plan, tools, runner, tmp_path)
    assert "routing.apt of the site" in str(caught.value.next_step)


@pytest.mark.parametrize("missing", ["mmdebstrap", "mksquashfs"])
def test_a_tool_that_is_missing(
    plan: Plan, tools: HostMachine, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    (tmp_path / "it's bin" / missing).unlink()
    with pytest.raises(BuildError, match=f"no {missing} on PATH") as caught:
        make(plan, tools, Making(), tmp_path)
    assert "make setup" in str(caught.value.next_step)


def test_private_keys_are_carried_into_the_tree(
    plan: Plan, tools: HostMachine, tmp_path: Path
) -> None:
    # As a subordinate user mmdebstrap can't enter the folder that they lie in.
    way = routed(tmp_path / "routing")
    way.folder.mkdir()
    key = way.folder / "keys.gpg"
    key.write_bytes(b"keys")
    one = AptSource(uri="http://u.example", suite="noble", components=("main",), keyring=key)
    two = replace(one, suite="noble-updates", keyring=Path("/usr/share/keyrings/k.gpg"))
    way = replace(way, apt_sources=(one, two))
    tree = replace(root_tree.root_tree(plan), distribution="ubuntu", release="noble")
    work = tmp_path / "work"
    work.mkdir()
    bootstrap.stage(tree, way, work)
    assert (work / "sources.list").read_text().splitlines() == [
        "deb [signed-by=@TREE@/dlcontainer-keyring.gpg] http://u.example noble main",
        "deb [signed-by=/usr/share/keyrings/k.gpg] http://u.example noble-updates main",
    ]
    assert (work / "dlcontainer-keyring.gpg").read_bytes() == b"keys"
    argv = bootstrap.mmdebstrap_argv(tree, way, tools, work / "t.tar")
    assert f"--setup-hook=copy-in {work}/dlcontainer-keyring.gpg /" in argv
    assert '--setup-hook=sed -i "s|@TREE@|$1|" "$1"/etc/apt/sources.list' in argv
    assert '--customize-hook=rm "$1"/dlcontainer-keyring.gpg' in argv
    # Ubuntu's release has apt and python3-venv elsewhere than Debian's.
    assert {"--components=main,universe", "--include=apt"} <= set(argv)
    bootstrap.unstage(work)
    assert list(work.iterdir()) == []


def test_missing_keys_name_the_package(plan: Plan, tools: HostMachine, tmp_path: Path) -> None:
    said = "W: GPG error: http://u.example noble InRelease: NO_PUBKEY 871920D1991BC93C\n"
    runner = RecordingRunner([completed("tried"), completed("mmdebstrap", code=25, stdout=said)])
    with pytest.raises(BuildError, match="cannot make the base") as caught:
        make(plan, tools, runner, tmp_path)
    assert "ubuntu-keyring" in str(caught.value.next_step)
