"""What the framework that a process has loaded says of itself. Standard library, Python >= 3.6."""

import sys

import accelerator

DRIVER = "/proc/driver/nvidia/version"


def facts(module=None):
    """Give the loaded framework's own words, or those of the module where it is none of these."""
    found = {"numpy": _version("numpy"), "numpy_blas": _asked(_numpy_blas)}
    for name, ask in (("torch", _torch), ("tensorflow", _tensorflow), ("mxnet", _mxnet)):
        if name in sys.modules:
            found.update(ask(sys.modules[name]))
            break
    else:
        version = getattr(module, "__version__", None)
        found["framework"] = None if module is None else "{} {}".format(module.__name__, version)
    if "horovod" in sys.modules:
        found["horovod"] = _version("horovod")
    return found


def _version(name):
    return getattr(sys.modules.get(name), "__version__", None)


def _numpy_blas():
    """Name the BLAS that NumPy was built with; None where it is not loaded."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    config = numpy.__config__
    if hasattr(config, "CONFIG"):  # from NumPy 1.25 on
        blas = config.CONFIG["Build Dependencies"]["blas"]
        return "{} {}".format(blas.get("name"), blas.get("version"))
    return " ".join(config.get_info("blas_opt").get("libraries", ())) or None


def _torch(torch):
    found = {
        "framework": "torch {}".format(torch.__version__),
        "framework_git": getattr(torch.version, "git_version", None),
        "torch": str(torch.__version__),
        "cuda": accelerator.toolkits(torch)["cuda"],
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "isa_dispatch": _asked(lambda: torch.backends.cpu.get_cpu_capability()),
        "mkldnn": _asked(lambda: bool(torch.backends.mkldnn.is_available())),
        # What it was built with may be switched off in the process.
        "mkldnn_enabled": _asked(lambda: bool(torch._C._get_mkldnn_enabled())),
        "precision": {"float32_matmul": _asked(lambda: torch.get_float32_matmul_precision())},
        "switches": _torch_switches(torch),
        "blas": None,
    }
    found.update(_torch_libraries(_asked(torch.__config__.show) or ""))
    seen = _asked(lambda: accelerator.seen(torch))
    if seen:
        found.update(_torch_devices(torch, seen))
    return found


def _torch_devices(torch, seen):
    found = {"devices": seen.names()}
    if seen.kind == "rocm":
        found["hip"] = accelerator.toolkits(torch)["hip"]
    if seen.kind in ("cuda", "rocm"):
        found["cudnn"] = _asked(torch.backends.cudnn.version)
        found["driver"] = _driver()
    name, version = _asked(seen.library) or (seen.library_name, None)
    return dict(found, **({name: version} if name else {}))


def _torch_switches(torch):
    """Give what a few words in a program turn on or off for all of it."""
    tiny = [1e-310]
    questions = {
        "deterministic": lambda: torch.are_deterministic_algorithms_enabled(),
        "anomaly": lambda: torch.is_anomaly_enabled(),
        # There is no question for it: a number that is too small for full precision tells.
        "flush_denormal": lambda: float(torch.tensor(tiny, dtype=torch.float64)[0] * 1) == 0.0,
        "grad": lambda: torch.is_grad_enabled(),
        "inference": lambda: torch.is_inference_mode_enabled(),
        "autocast_cpu": lambda: torch.is_autocast_cpu_enabled(),
        "autocast": lambda: torch.is_autocast_enabled(),
        "profiler": lambda: bool(torch.autograd._profiler_enabled()),
        "module_hooks": lambda: module_hooks(torch.nn.modules.module),
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "nnpack": lambda: bool(torch._C._get_nnpack_enabled()),
        "quantized_engine": lambda: torch.backends.quantized.engine,
        "cudnn": lambda: torch.backends.cudnn.enabled,
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "matmul_tf32": lambda: accelerator.has_tf32(torch),
    }
    return {name: _asked(question) for name, question in questions.items()}


def module_hooks(place):
    """Count the hooks that run at each call of any module."""
    kinds = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
             "_global_backward_pre_hooks")  # fmt: skip
    return sum(len(getattr(place, kind, ())) for kind in kinds)


def _torch_libraries(shown):
    """Read what PyTorch shows of how it was built, and of the libraries that it has within."""
    found = {}
    for line in shown.splitlines():
        text = line.strip("- ").strip()
        if "BLAS_INFO=" in text:
            found["blas"] = text.split("BLAS_INFO=")[1].split(",")[0]
            found["build_settings"] = text
        elif "Math Kernel Library" in text:  # it asks the library itself, at run time
            found["blas_library"] = text
        elif "MKL-DNN" in text:
            found["onednn"] = text
    return found


def _tensorflow(tf):
    threading = tf.config.threading
    found = {
        "framework": "tensorflow {}".format(tf.__version__),
        "framework_git": tf.version.GIT_VERSION,
        "framework_compiler": tf.version.COMPILER_VERSION,
        "tensorflow": str(tf.__version__),
        "keras": _version("keras"),
        # 0: as many as there are cores
        "threads": threading.get_intra_op_parallelism_threads(),
        "interop_threads": threading.get_inter_op_parallelism_threads(),
        "cuda": bool(tf.test.is_built_with_cuda()),
        "mkldnn": _asked(_tensorflow_onednn),
        # Eigen, compiled in, and oneDNN; TensorFlow links no BLAS of a vendor's.
        "blas": "eigen",
        "build_settings": _asked(lambda: " ".join(tf.sysconfig.get_compile_flags()[1:])),
    }
    return found


def _tensorflow_onednn():
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def _mxnet(mx):
    features = _asked(lambda: sorted(f.name for f in mx.runtime.feature_list() if f.enabled)) or []
    return {
        "framework": "mxnet {}".format(mx.__version__),
        "framework_git": _asked(lambda: mx.libinfo.__git_commit__),
        "mxnet": str(mx.__version__),
        # OpenMP's number: MXNet states it only to a profiler.
        "threads": _asked(_openmp_threads),
        "cuda": "CUDA" in features,
        "mkldnn": "MKLDNN" in features or "ONEDNN" in features,
        "blas": next((name for name in features if name.startswith("BLAS_")), None),
        "build_settings": features,
    }


def _openmp_threads():
    import ctypes

    return int(ctypes.CDLL("libgomp.so.1").omp_get_max_threads())


def _driver():
    try:
        with open(DRIVER, errors="replace") as file:
            words = file.read().split()
    except OSError:
        return None
    return next((w for w in words if w.replace(".", "").isdigit() and "." in w), None)


def _asked(question):
    # An older or a differently built framework lacks some of these answers.
    try:
        return question()
    except Exception:
        return None
