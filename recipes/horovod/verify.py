"""Prove that this image's Horovod averages: two ranks, each with data of its own, by MPI and Gloo.

Without arguments it starts itself on two ranks, once with mpirun and once with horovodrun --gloo.
Each rank computes with NumPy what the averaged gradient and the trained weights must be, trains
with Horovod in the framework's ordinary loops, and compares. A build can load, run and print a
falling loss without averaging anything; only this tells.

Prints one JSON object; exits 1 when a rank was not given the average, or a device does not train as
the CPU does; without a device that is not tried. Standard library, NumPy, the framework and Horovod
only.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

RANKS = 2
STEPS = 6
ROWS, INPUTS, HIDDEN = 16, 6, 8
RATE = 0.1
# float32 against float64, relative to the largest entry; what is not averaged is far beyond.
TOLERANCE = 1e-4
TIMEOUT_S = 240
FRAMEWORKS = ("torch", "tensorflow")
FIGURES = ("gradient_off", "weights_off", "ranks_apart")


def data(rank):
    """Give a rank's own rows: inputs and targets."""
    import numpy

    make = numpy.random.RandomState(617 + rank)
    inputs = make.normal(size=(ROWS, INPUTS)).astype("float32")
    targets = inputs.sum(axis=1, keepdims=True) * 0.5 + 2.0 * rank
    return inputs, targets.astype("float32")


def start(rank):
    """Give the weights a rank begins with: others than rank 0's, which all must get."""
    import numpy

    make = numpy.random.RandomState(2019 + rank)
    shapes = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,))
    return [make.normal(scale=0.4, size=shape).astype("float32") for shape in shapes]


def gradient(weights, inputs, targets):
    """Give the gradient of the mean squared error of a network with one hidden layer, by hand."""
    import numpy

    first, first_bias, second, second_bias = weights
    hidden = numpy.tanh(inputs @ first + first_bias)
    wrong = 2.0 * (hidden @ second + second_bias - targets) / len(inputs)
    back = (wrong @ second.T) * (1.0 - hidden**2)
    return [inputs.T @ back, back.sum(axis=0), hidden.T @ wrong, wrong.sum(axis=0)]


def expected(rank):
    """Give the first averaged gradient, the rank's own one, and the weights after all steps."""
    rows = [[part.astype("float64") for part in data(number)] for number in range(RANKS)]
    weights = [part.astype("float64") for part in start(0)]
    first = alone = None
    for _ in range(STEPS):
        each = [gradient(weights, *part) for part in rows]
        average = [sum(parts) / RANKS for parts in zip(*each)]
        if first is None:
            first, alone = average, each[rank]
        weights = [part - RATE * slope for part, slope in zip(weights, average)]
    return first, alone, weights


def flat(parts):
    """Give arrays as one row of numbers."""
    import numpy

    return numpy.concatenate([numpy.asarray(part, dtype="float64").ravel() for part in parts])


def off(found, wanted):
    """Give the largest difference, relative to the largest entry that is wanted."""
    found, wanted = flat(found), flat(wanted)
    worst = abs(found - wanted).max() / abs(wanted).max()
    return float(worst) if worst == worst else float("inf")  # a NaN is no small difference


def judge(rank, averaged, weights, gathered):
    """Compare what a loop gave on this rank with what it must be."""
    first, alone, trained = expected(rank)
    found = {
        "gradient_off": off(averaged, first),
        "weights_off": off(weights, trained),
        "ranks_apart": max(off([row], [gathered[0]]) for row in gathered),
        # what this comparison would show without Horovod
        "alone_off": off(alone, first),
    }
    found["ok"] = (
        len(gathered) == RANKS
        and all(found[name] < TOLERANCE for name in FIGURES)
        and found["alone_off"] > 100 * TOLERANCE
    )
    return found


def with_torch():
    """Train as PyTorch programs do; give Horovod, and each loop's judgement."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    torch.set_num_threads(1)
    inputs, targets = map(torch.from_numpy, data(hvd.rank()))
    net = torch.nn
    model = net.Sequential(net.Linear(INPUTS, HIDDEN), net.Tanh(), net.Linear(HIDDEN, 1))
    with torch.no_grad():
        for own, part in zip(model.parameters(), start(hvd.rank())):
            own.copy_(torch.from_numpy(part).T)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE), named_parameters=model.named_parameters()
    )
    averaged = None
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        if averaged is None:
            averaged = [own.grad.T.numpy().copy() for own in model.parameters()]
    weights = [own.detach().T.numpy() for own in model.parameters()]
    row = torch.from_numpy(flat(weights))[None]
    gathered = hvd.allgather(row).numpy()
    return hvd, {"torch": judge(hvd.rank(), averaged, weights, gathered)}


def with_tensorflow():
    """Train as TensorFlow programs do, both ways; give Horovod, and each loop's judgement."""
    import horovod.tensorflow as hvd
    import horovod.tensorflow.keras as hvd_keras
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    inputs, targets = data(hvd.rank())

    def judged(averaged, weights):
        gathered = hvd.allgather(tf.constant(flat(weights)[None])).numpy()
        return judge(hvd.rank(), averaged, weights, gathered)

    weights, averaged = list(map(tf.Variable, start(hvd.rank()))), None
    hvd.broadcast_variables(weights, root_rank=0)
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(inputs @ weights[0] + weights[1])
            loss = tf.reduce_mean((hidden @ weights[2] + weights[3] - targets) ** 2)
        slopes = hvd.DistributedGradientTape(tape).gradient(loss, weights)
        for weight, slope in zip(weights, slopes):
            weight.assign_sub(RATE * slope)
        averaged = averaged or [slope.numpy() for slope in slopes]
    by_tape = judged(averaged, [weight.numpy() for weight in weights])

    layers = tf.keras.layers
    first = layers.Dense(HIDDEN, activation="tanh")
    model = tf.keras.Sequential([layers.InputLayer((INPUTS,)), first, layers.Dense(1)])
    # Of values: Keras 3 knows no other way, and the check must get far enough to catch it.
    model.set_weights([hvd.broadcast(part, root_rank=0).numpy() for part in start(hvd.rank())])
    optimizer = hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(RATE))
    model.compile(optimizer=optimizer, loss="mse")
    before = model.get_weights()
    step = {"batch_size": ROWS, "shuffle": False, "verbose": 0}
    model.fit(inputs, targets, epochs=1, **step)
    averaged = [(old - new) / RATE for old, new in zip(before, model.get_weights())]
    model.fit(inputs, targets, epochs=STEPS - 1, **step)
    by_fit = judged(averaged, model.get_weights())
    return hvd, {"GradientTape": by_tape, "model.fit": by_fit}


def devices(framework):
    """Train on each device beside the CPU, by the probe that images carry beside this file."""
    sys.dont_write_bytecode = True  # a build's test must leave nothing in the image
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe"))
    try:
        import prove_devices
    except ImportError:
        return "not tried", "no probe beside this file"
    return prove_devices.line(framework)


def work(framework, transport, folder):
    """Be one rank: train, compare, leave the judgement in the folder."""
    hvd, loops = {"torch": with_torch, "tensorflow": with_tensorflow}[framework]()
    enabled = hvd.mpi_enabled() if transport == "mpi" else hvd.gloo_enabled()
    said = {"size": hvd.size(), "transport": bool(enabled), "loops": loops}
    with open(os.path.join(folder, "rank-{}.json".format(hvd.rank())), "w") as file:
        json.dump(said, file)


def launcher(transport):
    """Give the command that starts the ranks, all on this host and over its loopback."""
    if transport == "gloo":
        return [os.path.join(sys.prefix, "bin", "horovodrun"), "--gloo", "-np", str(RANKS)]
    return [
        *("mpirun", "-np", str(RANKS), "--allow-run-as-root", "--oversubscribe"),
        *("-bind-to", "none", "-mca", "pml", "ob1", "-mca", "btl", "tcp,self"),
        *("-mca", "btl_tcp_if_include", "lo", "-mca", "mpi_yield_when_idle", "1"),
    ]


def complaint(output):
    """Give the line that says most likely why: the first error, not what it brought down."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors[:1] or lines[-1:] or ["nothing was said"])[0][:200]


def launch(framework, transport, folder):
    """Run the ranks; give each loop's judgement by rank, or what went wrong."""
    me = [sys.executable, os.path.abspath(__file__), framework, transport, folder]
    # horovodrun keeps notes in the home, which may be read-only or not there.
    environment = dict(os.environ, HOME=folder, OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2")
    started = subprocess.Popen(
        launcher(transport) + me,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        start_new_session=True,
    )
    try:
        output, _ = started.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return {}, "no end within {} s".format(TIMEOUT_S)
    said = []
    for number in range(RANKS):
        path = os.path.join(folder, "rank-{}.json".format(number))
        if os.path.exists(path):
            with open(path) as file:
                said.append(json.load(file))
    if started.returncode or len(said) != RANKS:
        print(output[-4000:])  # before the result, which is the last line
        return {}, "{} of {} ranks finished; {}".format(len(said), RANKS, complaint(output))
    if not all(one["transport"] and one["size"] == RANKS for one in said):
        return {}, "the ranks did not find each other over it"
    return {name: [one["loops"][name] for one in said] for name in said[0]["loops"]}, None


def main():
    """Launch by every transport for every framework that is here, and report."""
    present = [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    failed, loops = [] if present else ["no framework is here"], []
    for framework in present:
        for transport in ("mpi", "gloo"):
            folder = tempfile.mkdtemp(prefix="verify-")
            try:
                found, problem = launch(framework, transport, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            if problem:
                failed.append("{} {}: {}".format(framework, transport, problem))
            for name, judgements in found.items():
                loops += judgements
                if not all(one["ok"] for one in judgements):
                    failed.append("{} {}: not averaged".format(name, transport))
    tried = {}
    for framework in present:
        state, seen = devices(framework)
        tried[framework] = "{}: {}".format(state, seen)
        if state == "failed":
            failed.append("{} {}".format(framework, seen))
    figures = {name: max(one[name] for one in loops) for name in FIGURES if loops}
    if loops:
        figures["alone_off"] = min(one["alone_off"] for one in loops)
    said = {name: float("{:.3g}".format(value)) for name, value in figures.items()}
    words = "averages of {} ranks, {}, by MPI and Gloo".format(RANKS, " and ".join(present))
    said.update(ok=not failed, what=words, devices="; ".join(tried.values()))
    if failed:
        said["failed"] = "; ".join(failed)
    print(json.dumps(said, sort_keys=True))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(work(*sys.argv[1:]) if len(sys.argv) > 1 else main())
