"""LARS, layer-wise adaptive rate scaling, for PyTorch's tensors. Python >= 3.6.

You, Gitman, Ginsburg: Large Batch Training of Convolutional Networks, arXiv 1708.03888 (2017),
algorithm 1.
"""

import step_rules


def lars_step(parameters, rate, momentum, weight_decay, trust):
    """Take one step, in place; the caller has switched gradients off.

    `parameters` are tensors with `grad`; each keeps its own velocity, as an attribute. A layer's
    rate is `trust` |w| / (|g| + weight_decay |w|), and 1 where one of the two is zero.
    """
    for one in parameters:
        weight, gradient = float(one.norm()), float(one.grad.norm())
        local = 1.0
        if weight > 0 and gradient > 0:
            local = step_rules.lars(weight, gradient, trust, weight_decay)
        step = (one.grad + weight_decay * one) * (rate * local)
        velocity = getattr(one, "velocity", None)
        one.velocity = step if velocity is None else velocity * momentum + step
        one.sub_(one.velocity)
