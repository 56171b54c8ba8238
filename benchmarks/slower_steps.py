"""Training steps that are longer by a known share, in an image that is not changed.

Byte code with a burning loop is bound over the image's own: no fact that a side attests tells of
it. It has to be a module that is not in the module pack, which would be used in its place: one that
PyTorch imports when the first optimizer is made. Whether it was used is looked at.
"""

from dataclasses import replace

from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import Binds, RunSpec
from dlcontainer.errors import BenchDataError

PLANT = """
def _plant():
    import time
    from torch.optim.sgd import SGD

    step, state = SGD.step, {"end": None, "owed": 0.0}

    def slower(self, *words, **named):
        done = step(self, *words, **named)
        now = time.process_time()
        if state["end"] is not None:
            state["owed"] += SHARE * (now - state["end"])
        while time.process_time() - now < state["owed"]:
            pass
        state["end"] = time.process_time()
        state["owed"] -= state["end"] - now
        return done

    SGD.step = slower
    SGD.planted = True


_plant()
"""
MAKE = "torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)"
# Says where the byte code of a module lies that is read from a file, then compiles it with the
# plant at its end.
COMPILE = f"""
import os, py_compile, sys, torch
known = set(sys.modules)
{MAKE}
late = [
    module
    for name, module in sys.modules.items()
    if name not in known
    and type(getattr(module, "__loader__", None)).__name__ == "SourceFileLoader"
    and os.path.exists(module.__cached__ or "")
]
if not late:
    sys.exit("no module is imported from a file when an optimizer is made")
module = late[-1]
with open("/mnt/plant.py") as plant, open(module.__file__) as own, open("/mnt/own.py", "w") as both:
    both.write(own.read() + plant.read())
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile("/mnt/own.py", "/mnt/own.pyc", module.__file__, True, invalidation_mode=mode)
print(module.__cached__)
"""
CHECK = f"import torch; {MAKE}; print(getattr(torch.optim.SGD, 'planted', False))"


def planted(context: BenchContext, subject: BenchImage, share: float) -> BenchContext:
    """Return the surroundings that lay slower byte code over the image's.

    Raises BenchDataError where it would not be used.
    """
    folder = context.work / "plant"
    folder.mkdir()
    (folder / "plant.py").write_text(PLANT.replace("SHARE", str(share)))
    target = _said(context, subject, COMPILE, ((folder, "/mnt"),))[-1]
    plant = folder / "own.pyc"
    said = _said(context, subject, CHECK, ((plant, target),))
    if said[-1:] != ["True"]:
        raise BenchDataError(
            f"the plant is not used: {target} is read from elsewhere",
            where=str(subject.image),
        )
    around = context.surroundings
    bound = replace(around, binds=(*around.binds, f"{plant}:{target}:ro"))
    return replace(context, surroundings=bound)


def _said(context: BenchContext, subject: BenchImage, code: str, binds: Binds) -> list[str]:
    """Run code in the image; return the words that it printed."""
    execution = context.execution
    spec = RunSpec(
        image=subject.image,
        argv=(subject.python, "-c", code),
        mode=execution.run_mode,
        binds=binds,
    )
    environment = apptainer.environment(execution.host.environ)
    done = execution.runner(execution.engine.run_argv(spec), env=environment, timeout=120)
    return done.stdout.split()
