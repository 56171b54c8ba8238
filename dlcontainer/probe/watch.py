"""Beside the steps: how busy the processors and GPUs were, their clocks, power and memory.

Standard library, Python >= 3.6. Sources are read again and again by a thread of its own, whose
processor time is reported: it is taken from the steps. Of the processors: /proc/stat and cpufreq of
those that the process may use, and the packages' energy (powercap), which many systems show to root
alone. Of AMD's GPUs: the files of the kernel's amdgpu driver
(docs.kernel.org/gpu/amdgpu/thermal.html). Of NVIDIA's: NVML. What a machine has not is left out.
"""

import glob
import os
import resource
import threading
import time

import attest_gpus

PERIOD_S = 0.1
# /proc/stat: user nice system idle iowait irq softirq steal (proc(5)); user has guest in it.
_IDLE, _WAITING, _COUNTED = 3, 4, 8


class Watch(object):
    """Reads until `end`, which gives the mean of each figure."""

    def __init__(self, sources):
        self._sources, self._seen, self._ended = sources, [], threading.Event()
        self._cost, self._began = 0.0, time.perf_counter()
        self._thread = threading.Thread(target=self._run)
        self._thread.daemon = True
        self._thread.start()

    def _run(self):
        while True:
            for source in self._sources:
                self._seen.extend(source.read())
            usage = resource.getrusage(1)  # RUSAGE_THREAD: this one's
            self._cost = usage.ru_utime + usage.ru_stime
            if self._ended.wait(PERIOD_S):
                return

    def end(self):
        """Stop; give the figures, and the share of a processor that reading took, in percent."""
        self._ended.set()
        self._thread.join()
        for source in self._sources:
            source.close()
        wall = time.perf_counter() - self._began
        return dict(means(self._seen), watch_cost=100.0 * self._cost / wall)


def means(seen):
    """Give the mean of each figure; of several GPUs those of the busiest."""
    by_device = {}
    for device, name, value in seen:
        if value is not None:
            by_device.setdefault(device, {}).setdefault(name, []).append(value)
    each = {
        device: {name: sum(values) / float(len(values)) for name, values in own.items()}
        for device, own in by_device.items()
    }
    found = each.pop("processors", {})
    if each:
        found.update(max(each.values(), key=lambda own: own.get("gpu_used", 0.0)))
    return found


class Processors(object):
    """Those that this process may use."""

    def __init__(self, root="/", clock=time.perf_counter):
        self._root, self._clock = root, clock
        self._own = sorted(os.sched_getaffinity(0))
        self._before, self._energy = self._times(), self._joules()

    def read(self):
        """Give what they did since the last time."""
        times, found = self._times(), []
        spent = [b - a for a, b in zip(self._before, times)]
        if spent and sum(spent):
            idle = spent[_IDLE] + spent[_WAITING]
            found.append(("processor_used", 100.0 * (1.0 - idle / float(sum(spent)))))
        self._before = times
        clocks = [self._clock_of(cpu) for cpu in self._own]
        known = [one for one in clocks if one is not None]
        if known:
            found.append(("processor_mhz", sum(known) / len(known)))
        found.append(("processor_w", self._watts()))
        return [("processors", name, value) for name, value in found]

    def close(self):
        """Nothing stays open."""

    def _times(self):
        total = [0] * _COUNTED
        own = frozenset("cpu{}".format(cpu) for cpu in self._own)
        for line in _text(self._root + "proc/stat").splitlines():
            words = line.split()
            if words and words[0] in own:
                total = [a + int(b) for a, b in zip(total, words[1:])]
        return total if len(total) == _COUNTED else []

    def _clock_of(self, cpu):
        path = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq".format(cpu)
        khz = _whole(self._root + path)
        return None if khz is None else khz / 1e3

    def _joules(self):
        """Give the packages' energy, J, and when it was read; None where it is not shown."""
        zones = sorted(glob.glob(self._root + "sys/class/powercap/intel-rapl:[0-9]*"))
        packages = [zone for zone in zones if os.path.basename(zone).count(":") == 1]
        known = [_whole(zone + "/energy_uj") for zone in packages]
        if not known or None in known:
            return None
        return sum(known) / 1e6, self._clock()

    def _watts(self):
        before, self._energy = self._energy, self._joules()
        if before is None or self._energy is None or self._energy[1] <= before[1]:
            return None
        joules = self._energy[0] - before[0]
        # The counters wrap, which shows as less than before.
        return joules / (self._energy[1] - before[1]) if joules >= 0 else None


class Amd(object):
    """The GPUs of the amdgpu driver."""

    def __init__(self, root="/"):
        busy = glob.glob(root + "sys/class/drm/card*/device/gpu_busy_percent")
        self._devices = sorted(os.path.dirname(path) for path in busy)

    def read(self):
        """Give what each does now."""
        found = []
        for place in self._devices:
            power = _first(place, "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input")
            hertz, used = _first(place, "hwmon/hwmon*/freq1_input"), _first(place, "mem_info_vram_used")
            found += [
                (place, "gpu_used", _first(place, "gpu_busy_percent")),
                (place, "gpu_mhz", None if hertz is None else hertz / 1e6),
                (place, "gpu_w", None if power is None else power / 1e6),
                (place, "gpu_memory_mb", None if used is None else used / 1e6),
            ]
        return found

    def close(self):
        """Nothing stays open."""


class Nvidia(object):
    """The GPUs of NVIDIA's driver."""

    def __init__(self, library=None):
        self._library = attest_gpus.opened() if library is None else library

    def read(self):
        """Give what each does now."""
        if self._library is None:
            return []
        try:
            each = attest_gpus.now(self._library)
        except AttributeError:  # an older library has not all functions
            return []
        return [(n, name, value) for n, own in enumerate(each) for name, value in own.items()]

    def close(self):
        """Let the driver go."""
        if self._library is not None:
            self._library.nvmlShutdown()


def here():
    """Begin to watch this node."""
    return Watch([Processors(), Amd(), Nvidia()])


def _first(place, *patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(place, pattern))):
            value = _whole(path)
            if value is not None:
                return value
    return None


def _whole(path):
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
