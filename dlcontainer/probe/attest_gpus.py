"""What NVIDIA's driver says of the GPUs that a process sees. Standard library, Python >= 3.6.

NVML's functions and numbers are those of nvml.h (docs.nvidia.com/deploy/nvml-api).
"""

import ctypes
import os

_GRAPHICS, _MEMORY, _CELSIUS = 0, 2, 0


# nvmlComputeMode_t
MODES = ("default", "exclusive thread", "prohibited", "exclusive process")


def facts():
    """Give what is settled of the GPUs, and what only was so just now; nothing without a driver."""
    return _session(_asked) or {}


def modes():
    """Give all GPUs that the driver shows: uuid and compute mode; None without a driver.

    No variable hides one here: what a scheduler hides by its cgroup is not shown, or not opened.
    """
    return _session(_modes)


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


def opened():
    """Give NVML, ready; None without a driver. Whoever asked for it calls its nvmlShutdown."""
    if not os.path.exists("/proc/driver/nvidia"):
        return None
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        return None if library.nvmlInit_v2() else library
    except (OSError, AttributeError):
        return None


def now(library):
    """Give what each GPU does: busy %, MHz, W, MB in use; None for what it doesn't say."""
    found = []
    for device in _devices(library):
        rates, memory = _Rates(), _Memory()
        is_told = not library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(rates))
        is_kept = not library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
        power = _number(library.nvmlDeviceGetPowerUsage, device)
        found.append(
            {
                "gpu_used": rates.gpu if is_told else None,
                "gpu_mhz": _number(library.nvmlDeviceGetClockInfo, device, _GRAPHICS),
                "gpu_w": None if power is None else power / 1e3,
                "gpu_memory_mb": memory.used / 1e6 if is_kept else None,
            }
        )
    return found


def _session(ask):
    library = opened()
    if library is None:
        return None
    try:
        return ask(library)
    except AttributeError:  # an older library has not all functions
        return None
    finally:
        library.nvmlShutdown()


def _modes(library):
    found = []
    for device in _devices(library):
        number = _number(library.nvmlDeviceGetComputeMode, device)
        known = number is not None and number < len(MODES)
        uuid = _text(library.nvmlDeviceGetUUID, device)
        found.append({"uuid": uuid, "mode": MODES[number] if known else None})
    return found


def _devices(library):
    count = ctypes.c_uint(0)
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        device = ctypes.c_void_p()
        if not library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            yield device


def _asked(library):
    settled, ids, now = [], [], []
    for device in _devices(library):
        settled.append(
            {
                "name": _text(library.nvmlDeviceGetName, device),
                "max_clock_mhz": _number(library.nvmlDeviceGetMaxClockInfo, device, _GRAPHICS),
                "max_memory_clock_mhz": _number(library.nvmlDeviceGetMaxClockInfo, device, _MEMORY),
                "power_limit_mw": _number(library.nvmlDeviceGetEnforcedPowerLimit, device),
            }
        )
        ids.append(_text(library.nvmlDeviceGetUUID, device))
        now.append(
            {
                "clock_mhz": _number(library.nvmlDeviceGetClockInfo, device, _GRAPHICS),
                "temperature": _number(library.nvmlDeviceGetTemperature, device, _CELSIUS),
            }
        )
    return {"gpus": settled, "gpu_ids": ids, "gpus_now": now}


def _number(function, device, *words):
    value = ctypes.c_uint(0)
    return None if function(device, *(words + (ctypes.byref(value),))) else value.value


def _text(function, device):
    words = ctypes.create_string_buffer(96)
    return None if function(device, words, 96) else words.value.decode("ascii", "replace")
