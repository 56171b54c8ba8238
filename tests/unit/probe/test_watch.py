"""What is read beside the steps: made files of the kernel, a library that answers as NVML does."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.probe.test_probe import copied
from tests.unit.probe.test_probe_variability import alone, command

CPU = sorted(os.sched_getaffinity(0))[0]


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stat(*times: int) -> str:
    line = " ".join(map(str, times))
    return f"cpu  9 9 9 9 9 9 9 9 0 0\ncpu{CPU} {line} 0 0\ncpu4095 1 1 1 1 1 1 1 1 0 0\n"


@pytest.fixture
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {CPU})


def clock(*times: float) -> Iterator[float]:
    yield from times


@pytest.mark.usefixtures("one_processor")
def test_processors_since_the_last_reading(probe: Any, tmp_path: Path) -> None:
    zone = "sys/class/powercap/intel-rapl:0"
    put(
        tmp_path,
        {
            "proc/stat": stat(100, 0, 10, 500, 20, 0, 0, 0),
            f"sys/devices/system/cpu/cpu{CPU}/cpufreq/scaling_cur_freq": "2450000\n",
            f"{zone}/energy_uj": "5000000\n",
            # A part of the package, which is counted in it.
            f"{zone}:0/energy_uj": "4000000\n",
        },
    )
    times = clock(10.0, 12.0)
    source = probe("watch").Processors(f"{tmp_path}/", lambda: next(times))
    # 60 busy, 4 stolen, 30 idle, 6 waiting.
    put(tmp_path, {"proc/stat": stat(150, 0, 20, 530, 26, 0, 0, 4)})
    put(tmp_path, {f"{zone}/energy_uj": "105000000\n"})
    assert source.read() == [
        ("processors", "processor_used", pytest.approx(64.0)),
        ("processors", "processor_mhz", 2450.0),
        ("processors", "processor_w", pytest.approx(50.0)),
    ]


@pytest.mark.usefixtures("one_processor")
def test_energy_that_wraps_or_is_hidden_is_no_power(probe: Any, tmp_path: Path) -> None:
    energy = "sys/class/powercap/intel-rapl:0/energy_uj"
    put(tmp_path, {energy: "5000000\n"})
    times = clock(1.0, 2.0, 3.0, 4.0)
    source = probe("watch").Processors(f"{tmp_path}/", lambda: next(times))
    for text in ("1000\n", "", "7000000\n"):
        put(tmp_path, {energy: text})
        assert source.read() == [("processors", "processor_w", None)]


def test_amd_gpus_by_the_kernels_files(probe: Any, tmp_path: Path) -> None:
    device = tmp_path / "sys/class/drm/card1/device"
    put(
        device,
        {
            "gpu_busy_percent": "97\n",
            "mem_info_vram_used": "64000000000\n",
            "hwmon/hwmon5/power1_average": "412000000\n",
            "hwmon/hwmon5/freq1_input": "1700000000\n",
        },
    )
    # No GPU: it has no share of use.
    put(tmp_path, {"sys/class/drm/card0/device/vendor": "0x1a03\n"})
    assert probe("watch").Amd(f"{tmp_path}/").read() == [
        (str(device), "gpu_used", 97),
        (str(device), "gpu_mhz", 1700.0),
        (str(device), "gpu_w", 412.0),
        (str(device), "gpu_memory_mb", 64000.0),
    ]


def nvml(**more: Any) -> SimpleNamespace:
    def put(value: Any, name: str = "value") -> Any:
        def answer(*words: Any) -> int:
            setattr(words[-1]._obj, name, value)
            return 0

        return answer

    known: dict[str, Any] = {
        "nvmlDeviceGetCount_v2": put(1),
        "nvmlDeviceGetHandleByIndex_v2": lambda index, device: 0,
        "nvmlDeviceGetUtilizationRates": put(88, "gpu"),
        "nvmlDeviceGetClockInfo": put(1755),
        "nvmlDeviceGetPowerUsage": put(651300),
        "nvmlDeviceGetMemoryInfo": put(7_000_000_000, "used"),
        "nvmlShutdown": lambda: 0,
    }
    return SimpleNamespace(**{**known, **more})


def test_nvidia_gpus_by_the_driver(probe: Any) -> None:
    source = probe("watch").Nvidia(nvml())
    assert source.read() == [
        (0, "gpu_used", 88),
        (0, "gpu_mhz", 1755),
        (0, "gpu_w", 651.3),
        (0, "gpu_memory_mb", 7000.0),
    ]
    refused = probe("watch").Nvidia(nvml(nvmlDeviceGetPowerUsage=lambda *_: 3))
    assert (0, "gpu_w", None) in refused.read()
    old = nvml()
    del old.nvmlDeviceGetMemoryInfo
    assert probe("watch").Nvidia(old).read() == []


def test_of_several_gpus_the_busiest_counts(probe: Any) -> None:
    seen = [
        ("processors", "processor_used", 50.0),
        ("processors", "processor_used", 100.0),
        (0, "gpu_used", 3),
        (0, "gpu_w", 90.0),
        (1, "gpu_used", 90),
        (1, "gpu_used", 100),
        (1, "gpu_w", None),
    ]
    assert probe("watch").means(seen) == {"processor_used": 75.0, "gpu_used": 95.0}
    assert probe("watch").means([]) == {}


@pytest.mark.usefixtures("real_processes")
def test_a_launch_says_what_watching_took(tmp_path: Path) -> None:
    code = copied(tmp_path / "p")
    # Long enough for some readings on a quick processor too: there are ten a second.
    done = alone(code, "--watch", "--timed", "1000")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])["counts"]
    assert 0 < counts["processor_used"] <= 100
    assert 0 < counts["watch_cost"] < 100
    without = json.loads(alone(code).stdout.splitlines()[-1])["counts"]
    assert "watch_cost" not in without
    assert "--watch" not in command(code)
