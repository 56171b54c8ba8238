"""The one way to a device of PyTorch: which there are, and the one to take. Python >= 3.6.

No other file of this folder names torch.cuda, another vendor's module, or a device's type; a test
holds them to it. Each kind's calls stand in accelerator_kinds.py. Nothing here imports torch.
"""

from accelerator_kinds import BACKENDS, KINDS, EventClock, Host, toolkits  # noqa: F401

# What --device takes, PyTorch's types: GPUs of NVIDIA and of AMD are cuda, of Intel xpu; TPUs xla.
CPU = "cpu"
DEVICES = (CPU, "cuda", "xpu", "xla")
# The figures that every accelerator takes, in tables of sizes by device.
TABLED = (CPU, "cuda")


def sizes(table, device):
    """Give a table's entry for a device: the CPU's own, or the accelerators'."""
    return table[TABLED[device != CPU]]


def named(torch, device):
    """Give a device by its type, whether there is one or not."""
    if device != CPU:
        for kind in KINDS:
            if kind.type == device and kind.is_of(torch):
                return kind(torch)
    return Host(torch)


def seen(torch):
    """Give the accelerator that this PyTorch sees, else the CPU."""
    for device in DEVICES[1:]:
        one = named(torch, device)
        if one and one.count():
            return one
    return Host(torch)


def in_use(torch):
    """Give the accelerator that this process has begun to use, else None; begins none itself."""
    for kind in KINDS:
        if kind.is_begun(torch) and kind.is_of(torch):
            return kind(torch)
    return None


def chosen(torch, device):
    """Give the device that was asked for; raises RuntimeError where there is none."""
    if device == "auto":
        return seen(torch)
    one = named(torch, device)
    if device != CPU and not (one and one.count()):
        lacks = next(kind.title for kind in KINDS if kind.type == device)
        raise RuntimeError("--device {}: this PyTorch sees no {}".format(device, lacks))
    return one


def of_backend(torch, backend):
    """Give the device whose tensors a backend of torch.distributed sends."""
    return named(torch, BACKENDS.get(backend, CPU))


def title(backend):
    """Name the devices of a backend in a sentence."""
    return next(kind.title for kind in KINDS if kind.type == BACKENDS[backend])


def library(torch):
    """Give the collective library's name and version, by its name; nothing where none says it."""
    try:
        # A build for GPUs says it where there is none, too.
        name, version = (seen(torch) or named(torch, "cuda")).library()
        return {name: version}
    except Exception:
        return {}


def _matmul(torch):
    return getattr(getattr(torch.backends, "cuda", None), "matmul", None)


def tf32_switches(torch):
    """Give what holds a switch for TF32: of products, of convolutions."""
    holders = (_matmul(torch), getattr(torch.backends, "cudnn", None))
    return [holder for holder in holders if hasattr(holder, "allow_tf32")]


def products_in_full(torch):
    """Compute products of float32 in float32, not in TF32."""
    _switched_off(_matmul(torch), "allow_tf32")


def convolutions_in_full(torch):
    """Compute convolutions of float32 in float32, not in TF32."""
    _switched_off(getattr(torch.backends, "cudnn", None), "allow_tf32")


def sums_in_full(torch):
    """Sum products of 16 bits in float32."""
    for kind in ("fp16", "bf16"):
        _switched_off(_matmul(torch), "allow_{}_reduced_precision_reduction".format(kind))


def _switched_off(holder, name):
    # Older ones have no switch, and none of their devices would need it.
    if holder is not None and hasattr(holder, name):
        setattr(holder, name, False)


def has_tf32(torch):
    """Tell whether products of float32 may be computed in TF32."""
    return _matmul(torch).allow_tf32
