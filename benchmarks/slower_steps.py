"""Training steps that are longer by a known share, in an image that is not changed.

The byte code of torch.optim.sgd with a burning loop is bound over the image's own: no fact that a
side attests tells of it.
"""

from dataclasses import replace

from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.engines import apptainer
from dlcontainer.engines.base import RunSpec

PLANT = """
def _plant():
    import time

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


_plant()
"""
# Says where the module and its byte code lie, then compiles the one with the plant.
COMPILE = (
    "import sys, py_compile, torch.optim.sgd as m; "
    "open('/mnt/sgd.py', 'w').write(open(m.__file__).read() + open('/mnt/plant.py').read()); "
    "py_compile.compile('/mnt/sgd.py', '/mnt/sgd.pyc', m.__file__, doraise=True, "
    "invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH); print(m.__cached__)"
)


def planted(context: BenchContext, subject: BenchImage, share: float) -> BenchContext:
    """Give the surroundings that lay slower byte code over the image's."""
    folder = context.work / "plant"
    folder.mkdir()
    (folder / "plant.py").write_text(PLANT.replace("SHARE", str(share)))
    execution = context.execution
    spec = RunSpec(
        image=subject.image,
        argv=(subject.python, "-c", COMPILE),
        mode=execution.run_mode,
        binds=((folder, "/mnt"),),
    )
    environment = apptainer.environment(execution.host.environ)
    done = execution.runner(execution.engine.run_argv(spec), env=environment, timeout=120)
    target = done.stdout.split()[-1]
    around = context.surroundings
    bound = replace(around, binds=(*around.binds, f"{folder / 'sgd.pyc'}:{target}:ro"))
    return replace(context, surroundings=bound)
