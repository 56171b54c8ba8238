"""A network to be weighed: a published one, or a user's own, whose wrong lines are named.

All of it is made of tensors without data. Python >= 3.6.
"""

import importlib
import os
import sys

import train_options
import user_build
import workloads_torch

# A file that is larger is no settings: data, which a forecast has not.
SMALL_FILE = 1 << 20
RATES = {"sgd": 0.01, "adamw": 1e-3}
_GPU_WORDS = ("cuda", "nvidia", "hip", "xpu", "no gpu")


class ScriptError(Exception):
    """A user's script gives no network without data and device; `where` is its line."""

    def __init__(self, what, where=None, why=None, next_step=None):
        super(ScriptError, self).__init__(what)
        self.where, self.why, self.next_step = where, why, next_step


class Network(object):
    """What a step needs: `model`, `optimizer`, `inputs`, `targets`, `loss`, `batch`."""

    def __init__(self, name, model, optimizer, sample, loss):
        self.name, self.model, self.optimizer, self.loss = name, model, optimizer, loss
        self.inputs, self.targets = sample
        self.batch = len(self.inputs)


class _Published(workloads_torch.Named):
    # Its loss alone: the network is made without data.
    def __init__(self, torch, kind):
        self._torch, self._kind = torch, kind


def published(torch, wanted):
    """Make one of the published networks, with the sizes of samples that a device has."""
    if wanted.workload == train_options.RESIDUAL:
        return _residual(torch, wanted)
    facts = workloads_torch.WORKLOADS[wanted.workload]
    own = facts[wanted.device]
    kind, shape, classes = facts["kind"], own["shape"], facts["classes"]
    batch = wanted.batch or own["batch"]
    network = getattr(importlib.import_module(facts["module"]), wanted.workload)
    model = network(shape[0], classes)
    if kind == "text":
        sample = [torch.zeros((batch,) + shape, dtype=torch.long) for _ in range(2)]
    else:
        labels = (batch,) + (shape[1:] if kind == "pixels" else ())
        sample = torch.zeros((batch,) + shape), torch.zeros(labels, dtype=torch.long)
    optimizer = optimizer_of(torch, wanted, model)
    return Network(wanted.workload, model, optimizer, sample, _Published(torch, kind).loss)


def _residual(torch, wanted):
    import probe_train
    import train_torch

    batch, size, width = probe_train.SIZES[wanted.device]
    batch = wanted.batch or batch
    model = train_torch.network(torch, width)
    sample = torch.zeros(batch, 3, size, size), torch.zeros(batch, dtype=torch.long)
    loss = torch.nn.functional.cross_entropy
    return Network(wanted.workload, model, optimizer_of(torch, wanted, model), sample, loss)


def optimizer_of(torch, wanted, model):
    """Make SGD with momentum, or AdamW."""
    if wanted.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=RATES["adamw"])
    return torch.optim.SGD(model.parameters(), lr=RATES["sgd"], momentum=0.9)


def of_user(torch, wanted):
    """Make a user's network by `FILE:build`; raises ScriptError."""
    with Watched(wanted.script, "build()"):
        try:
            build = user_build.load(wanted.script)
            made = user_build.built(build)
        except user_build.BuildError as problem:
            raise ScriptError(str(problem))
        inputs, targets = made.sample
        for tensor in (inputs, targets):
            if not isinstance(tensor, torch.Tensor) or not tensor.dim():
                raise ScriptError("build(): its sample is no pair of tensors of samples")
        if wanted.batch:
            inputs, targets = (
                tensor.new_zeros((wanted.batch,) + tuple(tensor.shape[1:]))
                for tensor in (inputs, targets)
            )
    name = os.path.basename(wanted.script)
    return Network(name, made.model, made.optimizer, (inputs, targets), made.loss)


_open_files, _has_hook = None, False


def _heard(event, arguments):
    if event == "open" and _open_files is not None and isinstance(arguments[0], (str, bytes)):
        path, mode = os.fsdecode(arguments[0]), arguments[1]
        if not (isinstance(mode, str) and set(mode) & set("wax+")):
            _open_files.append((path, sys._getframe(1)))


class Watched(object):
    """Run a user's code: what it does that a forecast can't follow is said with its line."""

    def __init__(self, script, what):
        self._script = os.path.abspath(script.rpartition(":")[0])
        self._folder = os.path.dirname(self._script) + os.sep
        self._what = what

    def __enter__(self):
        global _open_files, _has_hook
        _open_files = []
        # Python 3.8 and newer, as every PyTorch with fake tensors needs.
        add_hook = getattr(sys, "addaudithook", None)
        if not _has_hook and add_hook is not None:
            add_hook(_heard)
            _has_hook = True
        return self

    def __exit__(self, kind, problem, trace):
        global _open_files
        files, _open_files = _open_files, None
        if problem is None or kind is SystemExit:
            self._hold(files)
        if problem is None or isinstance(problem, (ScriptError, KeyboardInterrupt)):
            return False
        if isinstance(problem, Exception) or kind is SystemExit:
            raise self._told(kind, problem, trace)
        return False

    def _hold(self, files):
        """Refuse large files: a forecast has no data."""
        for path, frame in files:
            try:
                size = os.path.getsize(path)
            except OSError:
                continue
            line = self._line_of(frame)
            if size > SMALL_FILE and line and not _is_code(path):
                raise ScriptError(
                    "{} reads {}".format(self._what, path), line,
                    "a forecast of memory has no data: it takes shapes alone",
                    "give a sample by its shape, e.g. torch.zeros(8, 3, 224, 224)",
                )  # fmt: skip

    def _line_of(self, frame):
        while frame is not None:
            file = os.path.abspath(frame.f_code.co_filename)
            if file.startswith(self._folder):
                return "{}:{}".format(file, frame.f_lineno)
            frame = frame.f_back
        return None

    def _told(self, kind, problem, trace):
        """Give an error of the user's code by the last line of it."""
        where = None
        while trace is not None:
            file = os.path.abspath(trace.tb_frame.f_code.co_filename)
            if file.startswith(self._folder):
                where = "{}:{}".format(file, trace.tb_lineno)
            trace = trace.tb_next
        if isinstance(problem, SyntaxError) and problem.filename:
            where = "{}:{}".format(os.path.abspath(problem.filename), problem.lineno)
        said = "{}: {}".format(kind.__name__, str(problem).strip().split("\n")[0])
        what, why, step = _classified(kind, problem, said)
        return ScriptError("{} {}".format(self._what, what), where or self._script, why, step)


def _is_code(path):
    return path.endswith((".py", ".pyc", ".so", ".json")) or path.startswith(
        (sys.prefix + os.sep, "/proc/", "/sys/", "/dev/")
    )


def _classified(kind, problem, said):
    """Give what a script does, why that is wrong here, and the next step."""
    text = said.lower()
    if kind.__name__ in ("DataDependentOutputException", "GuardOnDataDependentSymNode"):
        return (
            "asks a tensor for a number (.item(), .tolist(), float(), if)",
            "a forecast of memory has no data: tensors have shapes alone",
            "leave it out of build() and of the step, or put it behind the training's loop",
        )
    if kind.__name__ == "DynamicOutputShapeException" or "unbacked" in text:
        return (
            "makes a tensor whose size depends on data (nonzero, a mask as an index, unique)",
            "a forecast of memory has no data: tensors have shapes alone",
            "take torch.where or a fixed size in its place",
        )
    if isinstance(problem, (IOError, OSError)):
        return (
            "reads what is not there: {}".format(said),
            "a forecast of memory has no data, and sees the script's folder alone",
            "give a sample by its shape, e.g. torch.zeros(8, 3, 224, 224)",
        )
    if any(word in text for word in _GPU_WORDS):
        return (
            "needs a GPU: {}".format(said),
            "a forecast of memory has no device",
            "leave the model and the sample on the CPU: the training moves them",
        )
    if "data is not allocated" in text or "data_ptr" in text or "storage" in text:
        return (
            "reads a tensor's data: {}".format(said),
            "a forecast of memory has no data: tensors have shapes alone",
            "leave it out of build() and of the step",
        )
    return "fails: {}".format(said), None, "run the script's function by itself: it has to end well"
