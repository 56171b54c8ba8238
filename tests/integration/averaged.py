"""The truth that ranks which average are held against."""

# Trains as two ranks that average must, in one process and by hand; prints their losses. Run by an
# image's own Python: averaged.py layout.PROBE FRAMEWORK STEPS SEED THREADS
AVERAGED = """\
import argparse
import json
import sys

RANKS = 2


def wanted(rank, seed, threads):
    sys.path.insert(0, sys.argv[1])
    import ranks
    import probe_train

    found = probe_train.options(["--seed", str(seed), "--threads", str(threads), "--device", "cpu"])
    found.place = ranks.Place(rank, RANKS, rank, RANKS, "here")
    return argparse.Namespace(**vars(found))


def with_torch(options, steps):
    import train_torch

    each = [train_torch.Trainer(one) for one in options]
    models = [one._model for one in each]
    for number in range(steps):
        for one in each:
            # Its own gradients, and no step yet.
            one._optimizer.step = lambda: None
            one.step(number)
            del one._optimizer.step
        for parts in zip(*(model.parameters() for model in models)):
            mean = sum(part.grad for part in parts) / RANKS
            for part in parts:
                part.grad.copy_(mean)
        for one in each:
            one._optimizer.step()
    return [one.losses() for one in each]


def with_tensorflow(options, steps):
    import tensorflow as tf
    import probe_train
    import train_tensorflow

    each, losses = [], [[] for _ in options]
    for one in options:
        # Threads are settled once, before anything has run.
        each.append(train_tensorflow.Trainer(argparse.Namespace(**dict(vars(one), threads=0))))
    speeds = [[tf.zeros_like(weight) for weight in one._network.weights] for one in each]
    for number in range(steps):
        slopes, picked = [], number % probe_train.BATCHES
        for one, curve in zip(each, losses):
            with tf.GradientTape() as tape:
                said = one._network(one._images[picked])
                entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(one._labels[picked], said)
                loss = tf.reduce_mean(entropy)
            slopes.append(tape.gradient(loss, one._network.weights))
            curve.append(float(loss))
        means = [sum(parts) / RANKS for parts in zip(*slopes)]
        for one, own in zip(each, speeds):
            for place, (weight, mean) in enumerate(zip(one._network.weights, means)):
                own[place] = probe_train.MOMENTUM * own[place] + mean
                weight.assign_sub(probe_train.RATE * own[place])
    return losses


def main():
    framework, steps, seed, threads = sys.argv[2], *map(int, sys.argv[3:6])
    options = [wanted(rank, seed, threads) for rank in range(RANKS)]
    by = {"torch": with_torch, "tensorflow": with_tensorflow}[framework]
    print(json.dumps(by(options, steps)))


main()
"""
