"""Single operations of PyTorch, on a CPU or an accelerator. Python >= 3.6."""

import random
import time

import torch

import accelerator
import kernels_check
import kernels_log
import kernels_shapes

TYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "int8": torch.int8,
}  # fmt: skip
# What some accelerators lack.
NOT_EVERYWHERE = ("fp64", "bf16", "int8")
SCALE = 3.0  # of the triad: no power of 2, so that it is multiplied
_BLOCK = 1 << 16  # periods of the numbers that a stream reads


class Kernels(object):
    """All operations of one process; see probe_kernels.py."""

    framework = torch

    def __init__(self, device, threads, precisions):
        self._on, self._threads = accelerator.chosen(torch, device), threads
        if self._on:
            _require(self._on, precisions)
        torch.set_grad_enabled(False)
        torch.set_num_threads(threads)

    def make(self, parameters):
        """Make an operation with its data."""
        return Operation(parameters, self._on)

    def libraries(self, operations):
        """Name the libraries and kernels of one more call of each, which no clock sees."""
        if self._on:
            return [_device_kernels(one, self._on) for one in operations]
        profile = torch.autograd.profiler.profile
        with kernels_log.Captured() as captured:
            found = []
            for number, one in enumerate(operations):
                captured.mark(number)
                with _Verbose():
                    one.act()
            with profile() as profiled:
                for number, one in enumerate(operations):
                    with torch.autograd.profiler.record_function(_label(number)):
                        one.act()
        logs, ran = kernels_log.parts(captured.text), _by_label(profiled.function_events)
        for number in range(len(logs)):
            names = kernels_log.libraries(logs[number])
            found.append(kernels_log.said(names, ran.get(_label(number), [])))
        return found

    def close(self):
        """Give back the number of threads that the process had."""
        torch.set_num_threads(self._threads)
        torch.set_grad_enabled(True)


def _require(device, precisions):
    for name in precisions:
        problem = device.lacking(name) if name in NOT_EVERYWHERE else ""
        if problem:
            raise RuntimeError("{}: {}".format(name, problem))
    # What is asked for is what is computed: neither TF32 nor sums of parts in 16 bits.
    accelerator.products_in_full(torch)
    accelerator.convolutions_in_full(torch)
    accelerator.sums_in_full(torch)


def _label(number):
    return "dlc row {}".format(number)


def _by_label(events):
    return {event.name: kernels_log.operations(event.cpu_children)
            for event in events if event.name.startswith("dlc row ")}  # fmt: skip


class _Verbose(object):
    """oneDNN and oneMKL print a line a call while it lasts; PyTorch before 1.13 can't tell them."""

    def __enter__(self):
        places = (torch.backends.mkldnn, getattr(torch.backends, "mkl", None))
        self._open = []
        for place in places:
            if hasattr(place, "verbose") and place.is_available():
                one = place.verbose(1)
                one.__enter__()
                self._open.append(one)

    def __exit__(self, *problem):
        for one in self._open:
            one.__exit__(*problem)


def _device_kernels(operation, device):
    """Name the kernels that the device ran, by Kineto."""
    kinds = [torch.profiler.ProfilerActivity.CPU, device.activity()]
    with torch.profiler.profile(activities=[one for one in kinds if one is not None]) as profiled:
        operation.act()
        device.settle()
    names = [one.name for one in profiled.events() if one.device_type.name == device.profiled_as]
    return kernels_log.said(sorted(set(names)), kernels_log.operations(profiled.events()))


class _Library(object):
    """oneDNN is off while it lasts, where a row asks for that; else it is as the process has it."""

    def __init__(self, is_off):
        self._is_off, self._was = is_off, True

    def __enter__(self):
        if self._is_off:
            self._was = torch._C._get_mkldnn_enabled()
            torch._C._set_mkldnn_enabled(False)

    def __exit__(self, *_problem):
        if self._is_off:
            torch._C._set_mkldnn_enabled(self._was)


class Operation(object):
    """One row: its data, and the call."""

    def __init__(self, parameters, device):
        self.parameters, self._on = parameters, device
        kernel, shape = parameters["kernel"], parameters["shape"]
        self.sizes = kernels_shapes.read(kernel, shape)
        self.type = TYPES[parameters["precision"]]
        # Of the shape alone: both sides and all launches have the same numbers.
        self._make = torch.Generator()
        self._make.manual_seed(random.Random(shape).randrange(1 << 31))
        self.given = getattr(self, "_given_" + _family(kernel))(**self.sizes)
        self._call = getattr(self, "_" + kernel)
        # A parameter of the probe "threads" alone.
        self._library = _Library(parameters.get("library") == "without oneDNN")

    def act(self):
        """Run it once, and return when it is through."""
        result = self.call(*self.given)
        self._on.settle()
        return result

    def call(self, *given):
        """Run it with other data; see `act`."""
        torch.set_num_threads(self.parameters["threads"])
        with self._library:
            return self._call(*given)

    def check(self):
        """Hold the result against fp64; see kernels_check.py."""
        return kernels_check.right(self)

    def timed(self, repeats):
        """Give the seconds of each repetition, after one that is not timed."""
        self.act()
        call, given, times = self._call, self.given, []
        if self._on:
            return [self._on.seconds_of(lambda: call(*given)) for _ in range(repeats)]
        with self._library:
            for _ in range(repeats):
                begin = time.perf_counter()
                call(*given)
                times.append(time.perf_counter() - begin)
        return times

    def _normal(self, *size):
        if self.type == torch.int8:
            numbers = torch.randint(-127, 128, size, generator=self._make, dtype=torch.int8)
        else:
            numbers = torch.randn(*size, generator=self._make, dtype=torch.float64)
        return numbers.to(self.type).to(self._on.type)

    def _given_gemm(self, m, n, k):
        return self._normal(m, k), self._normal(k, n)

    def _given_conv(self, g, mb, ic, ih, oc, oh, kh, **_others):
        one, weight = self._normal(mb, ic, ih, ih), self._normal(oc, ic // g, kh, kh)
        if self.parameters["kernel"] == "conv_forward":
            return one, weight
        return self._normal(mb, oc, oh, oh), one, weight

    def _given_attention(self, mb, h, l, d):
        return tuple(self._normal(mb, h, l, d) for _ in range(3))

    def _given_reduction(self, m, n):
        return (self._normal(m, n),)

    def _given_stream(self, n):
        # Written once, so that the memory is there before the first time.
        first, second = (self._counting(n, period) for period in (7, 11))
        if self.parameters["kernel"] == "copy":
            return torch.zeros_like(first), first
        return torch.zeros_like(first), first, second

    def _counting(self, n, period):
        # First a block: to repeat a few numbers 10^8 times takes seconds.
        block = torch.arange(period, dtype=self.type, device=self._on.type).repeat(_BLOCK)
        return block.repeat(-(-n // len(block)))[:n]

    def _gemm(self, one, other):
        return torch._int_mm(one, other) if self.type == torch.int8 else torch.mm(one, other)

    def _conv_forward(self, one, weight):
        s = self.sizes
        return torch.nn.functional.conv2d(one, weight, None, s["sh"], s["ph"], s["dh"] + 1, s["g"])

    def _conv_data(self, after, one, weight):
        return self._backward(after, one, weight, 0)

    def _conv_weights(self, after, one, weight):
        return self._backward(after, one, weight, 1)

    def _backward(self, after, one, weight, number):
        s = self.sizes
        mask = [number == 0, number == 1, False]
        stride, padding, dilation = ([s[key]] * 2 for key in ("sh", "ph", "dh"))
        dilation = [one + 1 for one in dilation]
        return torch.ops.aten.convolution_backward(
            after, one, weight, None, stride, padding, dilation, False, [0, 0], s["g"], mask
        )[number]

    def _attention(self, query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)

    def _reduction(self, one):
        return torch.sum(one, 1)

    def _copy(self, to, one):
        return to.copy_(one)

    def _triad(self, to, one, other):
        return torch.add(one, other, alpha=SCALE, out=to)


def _family(kernel):
    if kernel.startswith("conv"):
        return "conv"
    return "stream" if kernel in ("copy", "triad") else kernel
