"""Rules of a step: how far a layer is trusted, and by what a loss is scaled. Python >= 3.6.

Pure: the lengths of a layer's weights and of its gradient may be numbers or a framework's scalars.
Where either length is zero there is no ratio, and the layer steps as with plain SGD.
"""

EPSILON = 1e-8


def lars(weight, gradient, trust, decay):
    """You, Gitman, Ginsburg, arXiv:1708.03888, algorithm 1: it multiplies the rate."""
    return trust * weight / (gradient + decay * weight)


def larc(weight, gradient, trust, decay):
    """Give the local rate of LARC, as NVIDIA apex defines it; it is clipped at the rate."""
    return trust * weight / (gradient + decay * weight + EPSILON)


class LossScale(object):
    """The factor of a loss in fp16, so that small gradients are not lost (arXiv:1710.03740).

    Halved where a gradient is not finite, and that step is left out; doubled after `patience`
    steps without one.
    """

    def __init__(self, scale=2.0 ** 16, patience=2000):
        self.scale, self.skipped = scale, 0
        self._patience, self._good = patience, 0

    def follow(self, is_finite):
        """Take note of a step's gradients."""
        if not is_finite:
            self.scale, self._good = self.scale / 2.0, 0
            self.skipped += 1
            return
        self._good += 1
        if self._good == self._patience:
            self.scale, self._good = self.scale * 2.0, 0
