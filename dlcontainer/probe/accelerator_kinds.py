"""Kinds of devices that PyTorch computes on, each with what a probe asks of it. Python >= 3.6.

`Host` is the CPU, and the list of what can be asked. `Accelerator` asks torch.accelerator (2.6 and
newer), where that means the same type, else the type's own module; a new kind is a class below it
and a place in KINDS. Run: CUDA. Written by their documentation and run on a fake: ROCm, XPU, TPU.
"""

import importlib
import importlib.util
import time

# The least compute capability of a GPU of NVIDIA's with arithmetic in a precision (CUDA programming
# guide, arithmetic instructions).
CAPABILITIES = {"bf16": (8, 0), "fp16": (5, 3), "int8": (7, 5)}
# AMD's targets without matrix arithmetic in bf16 and int8, by the beginning of their names.
PLAIN_TARGETS = ("gfx8", "gfx900", "gfx902", "gfx906", "gfx101", "gfx103")


class Host(object):
    """The CPU: nothing is waited for, and ranks meet by gloo."""

    # `type`: PyTorch's word for it, and what --device takes; `title`: its name in a sentence.
    kind = type = "cpu"
    title = "CPU"
    # What brings data from one device to another, under the name of its attested version.
    library_name = None
    # How torch.distributed's ranks find each other, and whether DDP takes a device's number.
    init_method, is_numbered = "env://", False

    def __init__(self, torch):
        self.torch = torch

    def __bool__(self):
        """Tell whether this is an accelerator."""
        return False

    def count(self):
        """Count the devices that this process sees; 0 where they can't be used."""
        return 0

    def names(self):
        """Give the devices' names."""
        return []

    def place(self, _index):
        """Give PyTorch's name of a device."""
        return self.type

    def take(self, _local_rank):
        """Make a rank's device the usual one, counted round; give its number."""
        return 0

    def settle(self, *_index):
        """Wait until a device is idle, or the usual one."""

    def end_step(self):
        """Say that a step's work is all handed over."""

    def backend(self):
        """Name what ranks with a device of their own each use; None where it was not built in."""
        return "gloo"

    def lacking(self, _precision):
        """Say why a device has no arithmetic in a precision; empty where it has."""
        return ""

    def log_variables(self, _path):
        """Give the variables by which the collective library writes what it does into a file."""
        return {}

    def library(self):
        """Give the collective library's name and version; None where it says none."""
        return None

    def peak_bytes(self):
        """Give the most memory that tensors took; None where nobody counts it."""
        return None

    def forget_peak(self):
        """Count the most memory from now on."""

    def free_bytes(self):
        """Give the memory that tensors may still take; None where nobody says."""
        try:
            with open("/proc/meminfo") as lines:
                for line in lines:
                    if line.startswith("MemAvailable:"):
                        return 1024 * int(line.split()[1])
        except (OSError, ValueError):
            pass
        return None


class EventClock(object):
    """Times of steps by a device's own events, which its queue is not stopped for."""

    def __init__(self, device):
        self._device, self.marks = device, []

    def mark(self):
        """Mark the end of a step (first: the begin of all)."""
        self.marks.append(self._device.mark())

    def steps_s(self):
        """Give each step's time, s; the device must be idle."""
        return [self._device.between(a, b) for a, b in zip(self.marks, self.marks[1:])]


class Accelerator(Host):
    """What all accelerators have in common; `type` also names the type's module in torch."""

    title, is_numbered = "GPU", True
    # What torch.profiler calls its work.
    profiled_as = None

    def __init__(self, torch):
        super(Accelerator, self).__init__(torch)
        self.module = getattr(torch, self.type, None)
        common = getattr(torch, "accelerator", None)
        if common is not None:
            meant = common.current_accelerator()
            common = common if meant is not None and meant.type == self.type else None
        self._calls = common or self.module
        self.settle = getattr(self._calls, "synchronize", self.settle)

    def __bool__(self):
        """Tell whether this is an accelerator."""
        return True

    @classmethod
    def is_of(cls, torch):
        """Tell whether this PyTorch was built for the kind."""
        return getattr(torch, cls.type, None) is not None

    @classmethod
    def is_begun(cls, torch):
        """Tell whether this process uses such a device already; false where nobody says."""
        return getattr(getattr(torch, cls.type, None), "is_initialized", lambda: False)()

    def is_recording(self):
        """Tell whether work is only recorded now, to be done later (a graph of CUDA)."""
        return getattr(self.module, "is_current_stream_capturing", lambda: False)()

    def count(self):
        """Count the devices that this process sees; 0 where they can't be used."""
        return int(self._calls.device_count()) if self._calls.is_available() else 0

    def place(self, index):
        """Give PyTorch's name of a device."""
        return "{}:{}".format(self.type, index)

    def take(self, local_rank):
        """Make a rank's device the usual one, counted round; give its number."""
        index = local_rank % self.count()
        # The names of torch.accelerator, of its first version, and of each type's module.
        for name in ("set_device_index", "set_device_idx", "set_device"):
            if hasattr(self._calls, name):
                getattr(self._calls, name)(index)
                break
        return index

    def within(self, index):
        """Give the context in which a device is the usual one."""
        return self.module.device(index)

    def name(self, index):
        """Give a device's name."""
        return str(self.module.get_device_name(index))

    def names(self):
        """Give the devices' names."""
        return [self.name(index) for index in range(self.count())]

    def uuid(self, index):
        """Give a device's UUID; None in an older PyTorch."""
        uuid = getattr(self.module.get_device_properties(index), "uuid", None)
        return None if uuid is None else str(uuid)

    def mark(self):
        """Give a mark of now in the device's queue; see `between`."""
        event = self.module.Event(enable_timing=True)
        event.record()
        return event

    def between(self, one, other):
        """Give the seconds between two marks; the device must be idle."""
        return one.elapsed_time(other) / 1e3

    def seconds_of(self, call):
        """Give the seconds that the device worked on a call."""
        marks = [self.module.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        call()
        marks[1].record()
        self.settle()
        return self.between(*marks)

    def peak_bytes(self):
        """Give the most memory that tensors took; None where nobody counts it."""
        return self.module.max_memory_allocated()

    def free_bytes(self):
        """Give the memory that tensors may still take; None where nobody says."""
        told = getattr(self.module, "mem_get_info", None)
        return int(told()[0]) if told else None

    def forget_peak(self):
        """Count the most memory from now on."""
        self.module.reset_peak_memory_stats()

    def reaches(self, _one, _other):
        """Tell whether a device reads another's memory directly; None: PyTorch can't say."""
        return None

    def activity(self):
        """Give what torch.profiler takes to see the device's work; None where it can't."""
        return getattr(self.torch.profiler.ProfilerActivity, str(self.profiled_as), None)


class Cuda(Accelerator):
    """GPUs of NVIDIA's."""

    kind = type = "cuda"
    profiled_as = "CUDA"
    library_name = "nccl"

    def backend(self):
        """Name what ranks with a device of their own each use; None where it was not built in."""
        return "nccl" if self.torch.distributed.is_nccl_available() else None

    def log_variables(self, path):
        """Give the variables by which the collective library writes what it does into a file."""
        return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": path}

    def library(self):
        """Give the collective library's name and version; None where it says none."""
        return self.library_name, ".".join(map(str, self.module.nccl.version()))

    def lacking(self, precision):
        """Say why a device has no arithmetic in a precision; empty where it has."""
        own, least = self.module.get_device_capability(), CAPABILITIES.get(precision, (0, 0))
        if own >= least:
            return ""
        return "this GPU's compute capability is {}.{}, it takes {}.{}".format(*(own + least))

    def reaches(self, one, other):
        """Tell whether a device reads another's memory directly; None: PyTorch can't say."""
        return bool(self.module.can_device_access_peer(one, other))


class Rocm(Cuda):
    """GPUs of AMD's: PyTorch calls them cuda, and RCCL nccl."""

    kind = "rocm"
    library_name = "rccl"

    @classmethod
    def is_of(cls, torch):
        """Tell whether this PyTorch was built for the kind."""
        return toolkits(torch)["hip"] is not None

    def lacking(self, precision):
        """Say why a device has no arithmetic in a precision; empty where it has."""
        place = self.module.current_device()
        target = getattr(self.module.get_device_properties(place), "gcnArchName", "")
        if precision in ("bf16", "int8") and target.startswith(PLAIN_TARGETS):
            return "this GPU is a {}, which has no matrix arithmetic in it".format(target)
        return ""


class Xpu(Accelerator):
    """GPUs of Intel's."""

    kind = type = "xpu"
    profiled_as = "XPU"

    def backend(self):
        """Name what ranks with a device of their own each use; None where it was not built in."""
        if getattr(self.torch.distributed, "is_xccl_available", lambda: False)():
            return "xccl"
        # Before PyTorch 2.7 a package of Intel's own brought it, by being imported.
        if importlib.util.find_spec("oneccl_bindings_for_pytorch") is None:
            return None
        importlib.import_module("oneccl_bindings_for_pytorch")
        return "ccl"

    def lacking(self, precision):
        """Say why a device has no arithmetic in a precision; empty where it has."""
        known = self.module.get_device_capability()
        for name in ("fp64", "fp16"):
            if precision == name and not known.get("has_" + name, True):
                return "this GPU has no arithmetic in it"
        return ""


class Tpu(Accelerator):
    """TPUs of Google's, by torch_xla: work is gathered, and runs when it is waited for."""

    kind, type = "tpu", "xla"
    title = "TPU"
    init_method, is_numbered = "xla://", False

    def __init__(self, torch):
        self._xla = importlib.import_module("torch_xla.core.xla_model")
        super(Tpu, self).__init__(torch)
        self.settle = self._settle

    @classmethod
    def is_of(cls, _torch):
        """Tell whether this PyTorch was built for the kind."""
        return importlib.util.find_spec("torch_xla") is not None

    def count(self):
        """Count the devices that this process sees; 0 where they can't be used."""
        devices = self._xla.get_xla_supported_devices() or []
        # torch_xla computes on a CPU too, which is no accelerator.
        return len([one for one in devices if self._xla.xla_device_hw(one) != "CPU"])

    def take(self, local_rank):
        """Make a rank's device the usual one, counted round; give its number."""
        # torch_xla shows each of its processes the device that it has for it.
        return local_rank % self.count()

    def within(self, _index):
        """Give the context in which a device is the usual one."""
        return _Nothing()

    def name(self, index):
        """Give a device's name."""
        return "{} {}".format(self._xla.xla_device_hw(self.place(index)), index)

    def uuid(self, _index):
        """Give a device's UUID; None in an older PyTorch."""
        return None

    def _settle(self, *_index):
        self._xla.mark_step()
        self._xla.wait_device_ops()

    def end_step(self):
        """Say that a step's work is all handed over."""
        self._xla.mark_step()

    def mark(self):
        """Give a mark of now, the device idle; see `between`."""
        self._settle()
        return time.perf_counter()

    def between(self, one, other):
        """Give the seconds between two marks."""
        return other - one

    def seconds_of(self, call):
        """Give the seconds that the device worked on a call."""
        begin = self.mark()
        kept = call()  # what nobody holds is not computed
        seconds = self.mark() - begin
        del kept
        return seconds

    def backend(self):
        """Name what ranks with a device of their own each use; None where it was not built in."""
        importlib.import_module("torch_xla.distributed.xla_backend")
        return "xla"

    def lacking(self, precision):
        """Say why a device has no arithmetic in a precision; empty where it has."""
        return "a TPU has no arithmetic in it" if precision == "fp16" else ""

    def peak_bytes(self):
        """Give the most memory that tensors took; None where nobody counts it."""
        return self._xla.get_memory_info(self.place(0)).get("peak_bytes_used")

    def forget_peak(self):
        """Count the most memory from now on: torch_xla has no such call."""


class _Nothing(object):
    def __enter__(self):
        return self

    def __exit__(self, *_problem):
        return False


# ROCm before CUDA, whose words it takes.
KINDS = (Rocm, Cuda, Xpu, Tpu)
# backend of torch.distributed -> the type of its devices
BACKENDS = {"nccl": "cuda", "xccl": "xpu", "ccl": "xpu", "xla": "xla"}


def toolkits(torch):
    """Give the versions of CUDA and of HIP that this PyTorch was built with; None without."""
    version = getattr(torch, "version", None)
    return {name: getattr(version, name, None) for name in ("cuda", "hip")}
