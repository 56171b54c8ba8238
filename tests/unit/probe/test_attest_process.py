"""What a process says of its variables, of the kernel, of its limits and its interpreter."""

import concurrent.futures
import py_compile
import signal
import sys
import threading
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest


def test_variables_by_prefix_others_by_name_ranks_not_at_all(probe: Any) -> None:
    found = probe("attest_environment").facts(
        {
            "MALLOC_ANYTHING": "1",
            "TORCH_WORD": "x",
            "NCCL_TOKEN": "a secret",
            "AWS_SECRET_ACCESS_KEY": "a secret",
            "SLURM_PROCID": "3",
            "NCCL_DEBUG_FILE": "/a/file",
            "MASTER_PORT": "1",
            "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "node7",
            "MPICH_GPU_SUPPORT_ENABLED": "1",
        }
    )
    assert found == {
        "environment": {
            "MALLOC_ANYTHING": "1",
            "TORCH_WORD": "x",
            "MPICH_GPU_SUPPORT_ENABLED": "1",
            "NCCL_TOKEN": "set; its value may be a secret",
        },
        "variables": {"AWS_SECRET_ACCESS_KEY": "set"},
    }


def test_the_kernels_words_on_a_process(probe: Any) -> None:
    status = probe("attest_process").status
    lines = ["Name:\tpython", "TracerPid:\t7", "Seccomp:\t2", "THP_enabled:\t0"]
    text = "\n".join([*lines, "Speculation_Store_Bypass:\tx y", ""])
    assert status(text) == {
        "traced": True,
        "seccomp": "2",
        "thp_enabled": "0",
        "speculation_store_bypass": "x y",
    }
    assert status("TracerPid:\t0\n") == {"traced": False}
    assert probe("attest_process").autogroup("/autogroup-97 nice -12") == -12
    assert probe("attest_process").autogroup("") is None


def test_this_process_attests_its_own(probe: Any) -> None:
    found = probe("attest_process").facts()
    assert found["scheduling"]["policy"] in {"other", "batch", "idle", "fifo", "rr"}
    assert len(found["limits"]["stack"]) == 2
    assert found["traced"] in (True, False)


def tree(root: Path, own: str, mountinfo: str, files: dict[str, str]) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    (root / "proc/self/mountinfo").write_text(mountinfo)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


V1 = "40 30 0:35 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "41 30 0:36 {root} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


def test_of_version_1_every_level_of_the_own_path_counts(probe: Any, tmp_path: Path) -> None:
    files = {
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "cpu/job/cpu.cfs_quota_us": "150000",
        "cpu/job/cpu.cfs_period_us": "100000",
        "cpu/job/cpu.shares": "64",
        "cpu/job/step/cpu.cfs_quota_us": "-1",
        "cpu/job/step/cpu.cfs_period_us": "100000",
        "cpu/job/step/cpu.shares": "1024",
        "cpu/other/cpu.cfs_quota_us": "1000",
        "cpu/other/cpu.cfs_period_us": "100000",
    }
    tree(tmp_path, "3:cpu,cpuacct:/job/step\n1:name=systemd:/x\n", V1, files)
    found = probe("attest_cgroup").facts(str(tmp_path))
    assert found["cgroup"] == {"cpu_quota": 1.5, "cpu_weight": ["64"]}
    assert found["cgroup_paths"] == {
        "cpu": "/job/step",
        "cpuacct": "/job/step",
        "name=systemd": "/x",
    }


def test_of_version_2_the_strictest_level_counts(probe: Any, tmp_path: Path) -> None:
    files = {
        "a/cpu.max": "50000 100000",
        "a/memory.max": "1000",
        "a/b/cpu.max": "max 100000",
        "a/b/memory.max": "max",
        "a/b/cpuset.cpus.effective": "0-1",
        "a/cpuset.cpus.effective": "0-7",
        "a/b/cpu.weight": "100",
    }
    tree(tmp_path, "0::/a/b\n", V2.format(root="/"), files)
    assert probe("attest_cgroup").facts(str(tmp_path))["cgroup"] == {
        "cpu_quota": 0.5,
        "cpu_weight": "none",
        "cpus": "0-1",
        "memory_bytes": 1000,
    }


def test_a_mounted_part_of_the_tree_is_read_from_its_top(probe: Any, tmp_path: Path) -> None:
    files = {"cpu.max": "200000 100000", "b/cpu.max": "max 100000"}
    tree(tmp_path, "0::/a/b\n", V2.format(root="/a"), files)
    assert probe("attest_cgroup").facts(str(tmp_path))["cgroup"] == {"cpu_quota": 2.0}


def test_without_any_cgroup_nothing_is_said(probe: Any, tmp_path: Path) -> None:
    assert probe("attest_cgroup").facts(str(tmp_path)) == {"cgroup": {}, "cgroup_paths": {}}


def test_hooks_are_named(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = probe("attest_interpreter")

    class Finder:
        pass

    def traced(*_words: object) -> None:
        pass

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    monkeypatch.setattr(threading, "_profile_hook", traced, raising=False)
    found = interpreter.hooks()
    assert found["meta_path"][-1].endswith("Finder")
    assert found["thread_profile"].endswith("traced")
    assert found["import"] == "builtins.__import__"


def test_files_that_python_runs_at_its_start(probe: Any, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a.pth").write_text("import sys\n")
    (folder / "paths.pth").write_text("/some/where\n# import x\n")
    found = probe("attest_interpreter").pth_files([str(folder), str(tmp_path)])
    (folder / "a.pth").write_text("import os\n")
    again = probe("attest_interpreter").pth_files([str(folder)])
    assert found.keys() == again.keys() == {"a.pth"}
    assert found != again


def test_the_share_of_modules_with_byte_code(
    probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {}
    for name, ready in (("a", True), ("b", False)):
        cached = tmp_path / f"{name}.pyc"
        if ready:
            cached.write_bytes(b"")
        spec = types.SimpleNamespace(origin=f"/work/{name}.py", cached=str(cached))
        modules[name] = types.SimpleNamespace(__spec__=spec)
    own = types.SimpleNamespace(origin="/probe/attest.py", cached="/probe/none.pyc")
    modules["attest"] = types.SimpleNamespace(__spec__=own)
    interpreter = probe("attest_interpreter")
    monkeypatch.setattr(interpreter.sys, "modules", modules)
    share = interpreter.byte_code_percent("/probe")
    monkeypatch.undo()
    assert share == 50


def test_what_changes_within_a_process_is_noticed(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attest = probe("attest")
    assert attest._changed() == {}
    attest.begin()
    assert attest._changed() == {}
    settled = {**attest._BEGUN, "cgroup": {"cpu_quota": 0.5}}
    monkeypatch.setattr(attest, "_settled", lambda: settled)
    assert list(attest._changed()) == ["cgroup"]


def test_the_work_may_end_before_the_process(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attest = probe("attest")
    attest.begin()
    bound = {**attest._BEGUN, "affinity": [7]}
    monkeypatch.setattr(attest, "_settled", lambda: bound)
    attest.end()
    monkeypatch.setattr(attest, "_settled", lambda: {**bound, "affinity": [0, 1]})
    assert attest.affinity() == [7]
    assert attest._changed() == {"affinity": [attest._BEGUN["affinity"], [7]]}


def test_kernels_run_and_stay_small(probe: Any) -> None:
    calibrate = probe("calibrate")
    found = calibrate.measure()
    assert found.keys() == {f"{name}_s" for name in calibrate.KERNELS}
    assert all(value > 0 for value in found.values())
    assert calibrate.joined({"open_s": 1.0}, {"open_s": 3.0}) == {"calibration_open_s": 2.0}


def test_of_several_ranks_none_disturbs_the_others(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrate, values = probe("calibrate"), {"wall_s": 1.0}
    monkeypatch.setattr(calibrate, "measure", lambda: {"open_s": 2.0})
    assert calibrate.alone(values) == {"after": {"open_s": 2.0}, "again": {"open_s": 2.0}}
    assert values == {"wall_s": 1.0, "calibration_open_s": 2.0}
    monkeypatch.setattr(probe("ranks"), "asked", lambda: True)
    assert calibrate.alone({}) == {}


def test_the_code_of_our_own_computes_what_it_says(probe: Any) -> None:
    calibrate = probe("calibrate")
    codes = calibrate._x86()
    if codes is None:
        assert not calibrate.own_code()
        return
    value = 1
    for _ in range(1000):
        value = (value * 0x41C64E6D + 11) & 0xFFFFFFFFFFFFFFFF
    assert codes[0].call(1000, 0, 0) == value


def test_timers_that_interrupt_are_named(probe: Any) -> None:
    interpreter = probe("attest_interpreter")
    # The limit of a test's own time is one too.
    before = interpreter.timers()
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
    try:
        assert set(interpreter.hooks()["timers"]) == {*before, "ITIMER_VIRTUAL"}
        assert "ITIMER_VIRTUAL" not in before
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@pytest.mark.parametrize(
    ("line", "locked"), [("VmLck:\t       0 kB", False), ("VmLck:\t8 kB", True)]
)
def test_locked_memory_is_attested(probe: Any, line: str, locked: bool) -> None:
    assert probe("attest_process").status(line) == {"memory_locked": locked}


def test_byte_code_that_reads_its_source_is_counted(
    probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = probe("attest_interpreter")
    before = interpreter.byte_code_checked()
    for mode, more in (("CHECKED_HASH", 1), ("UNCHECKED_HASH", 0), ("TIMESTAMP", 0)):
        source = tmp_path / f"{mode}.py"
        source.write_text("")
        module = types.ModuleType(mode)
        kind = py_compile.PycInvalidationMode[mode]
        cached = py_compile.compile(str(source), invalidation_mode=kind)
        monkeypatch.setattr(module, "__cached__", cached, raising=False)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, mode, module)
            assert interpreter.byte_code_checked() == before + more


def test_hooks_of_every_module_are_counted(probe: Any) -> None:
    place = types.SimpleNamespace(_global_forward_hooks={1: print}, _global_backward_hooks={})
    assert probe("attest_frameworks").module_hooks(place) == 1


def test_threads_are_named_and_a_pool_does_not_count_its_workers(probe: Any) -> None:
    interpreter, end = probe("attest_interpreter"), threading.Event()
    before = interpreter.threads()
    spinning = [threading.Thread(target=end.wait, name=f"Thread-{n} (spin)") for n in (3, 14)]
    for each in spinning:
        each.start()
    seen = []
    for workers in (1, 3):
        with concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="reader") as pool:
            together = threading.Barrier(workers)
            for done in [pool.submit(together.wait) for _ in range(workers)]:
                done.result()
            seen.append(interpreter.threads())
    end.set()
    for each in spinning:
        each.join()
    # One planted thread more is seen, however it is numbered; one reader more is not.
    assert seen[0] == seen[1]
    assert Counter(seen[0]) - Counter(before) == {"Thread-# (spin)": 2, "pool reader_#": 1}
    assert interpreter.threads() == before
