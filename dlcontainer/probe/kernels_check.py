"""Is a kernel's result right? Each value against fp64, before any time counts. Python >= 3.6.

u is the unit roundoff: half the distance from 1 to the next number. A product of two numbers of a
precision is summed in fp32 (fp64 in fp64), and the sum rounded to the precision. Of a sum of K
products the error is at most LAMBDA sqrt(K) u_sum sum|x||y|, but for a chance of 2K exp(-LAMBDA^2/2)
(Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4); rounding adds u |result|. Sums of
whole numbers in int32 are exact. The reference has the same inputs, exactly, in fp64.
"""

import math

import torch

import rows

LAMBDA = 10.0
ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11, "int8": 0.0}
# fp64 against fp64: the reference has errors of its own.
_OWN_ERROR = 2.0
PIECE = 1 << 20  # elements


def sum_roundoff(precision):
    """Give the unit roundoff of the sums."""
    return ROUNDOFF["fp64"] if precision == "fp64" else ROUNDOFF["fp32"] if precision != "int8" else 0.0


def bound(precision, count):
    """Give the error of a sum of so many products, in units of the sum of their magnitudes."""
    return LAMBDA * math.sqrt(count) * sum_roundoff(precision)


def right(operation):
    """Give how many values were right; raises rows.WrongError where one was not."""
    checked = 0
    for result, known, limit in _compared(operation):
        limit = limit + ROUNDOFF[operation.parameters["precision"]] * known.abs()
        # So written that a NaN is wrong.
        wrong = int((~((result - known).abs() <= limit)).sum().item())
        if wrong:
            raise rows.WrongError(_words(operation.parameters, wrong, result, known, limit))
        checked += result.numel()
    return checked


def _compared(operation):
    """Give results, what they should be, and what they may be off by, all in fp64."""
    kernel, precision = operation.parameters["kernel"], operation.parameters["precision"]
    if kernel in ("copy", "triad"):
        return _stream(operation, precision)
    wanted = [one.double() for one in operation.given]
    result = operation.act().double()
    if kernel in ("reduction", "attention"):
        return [(result,) + globals()["_" + kernel](operation, precision, wanted)]
    if precision == "fp64":
        # By the same library, the same error twice: a product with a vector is another way.
        return [_by_a_vector(wanted, result)]
    return [(result,) + _products(operation, precision, wanted)]


def _words(parameters, wrong, result, known, limit):
    worst = int(((result - known).abs() - limit).flatten().argmax().item())
    return "{} {} {}: {:,} of {:,} values are not those of fp64: e.g. {:.9g}, {:.9g} and at most {:.2g} apart".format(
        parameters["kernel"], parameters["precision"], parameters["shape"], wrong, result.numel(),
        result.flatten()[worst].item(), known.flatten()[worst].item(),
        limit.expand_as(known).flatten()[worst].item(),
    )  # fmt: skip


def count(kernel, sizes):
    """Give how many products a value of the result is the sum of, at most."""
    if kernel == "gemm":
        return sizes["k"]
    window = sizes["kh"] ** 2
    return {
        "conv_forward": sizes["ic"] // sizes["g"] * window,
        "conv_data": sizes["oc"] // sizes["g"] * window,
        "conv_weights": sizes["mb"] * sizes["oh"] ** 2,
    }[kernel]


def _products(operation, precision, wanted):
    kernel = operation.parameters["kernel"]
    reference = torch.mm if kernel == "gemm" else operation.call
    magnitudes = [one.abs() for one in wanted]
    limit = bound(precision, count(kernel, operation.sizes))
    return reference(*wanted), limit * reference(*magnitudes)


def _by_a_vector(wanted, result):
    """Give C x, A (B x) and what they may differ by, x of signs (Freivalds' check)."""
    one, other = wanted
    signs = (torch.arange(other.shape[1], device=other.device, dtype=torch.float64) * 7 % 13 > 5).double()
    signs = (2 * signs - 1).reshape(-1, 1)
    size = one.shape[1] + other.shape[1]
    limit = _OWN_ERROR * bound("fp64", size) * (one.abs() @ other.abs().sum(1, keepdim=True))
    return result @ signs, one @ (other @ signs), limit


def _stream(operation, precision):
    """Go piece by piece: arrays beyond the caches would take seconds in fp64."""
    import kernels_torch

    result, given = operation.act(), operation.given[1:]
    for at in range(0, result.numel(), PIECE):
        own, one = (tensor[at : at + PIECE].double() for tensor in (result, given[0]))
        if operation.parameters["kernel"] == "copy":
            # Bytes: nothing is rounded.
            yield own, one, -ROUNDOFF[precision] * one.abs()
        else:
            product = kernels_torch.SCALE * given[1][at : at + PIECE].double()
            # The product is rounded too, where it is not fused with the sum.
            yield own, one + product, ROUNDOFF[precision] * product.abs()


def _reduction(operation, precision, wanted):
    (one,) = wanted
    limit = bound(precision, operation.sizes["n"]) * one.abs().sum(1)
    if precision != "fp64":
        return one.sum(1), limit
    exact = [math.fsum(row) for row in one.tolist()]
    return torch.tensor(exact, dtype=torch.float64, device=one.device), limit


def _attention(operation, precision, wanted):
    """Scores are kept in fp32; weights may be rounded to the precision before they are used."""
    query, key, value = wanted
    sizes = operation.sizes
    scale = 1.0 / math.sqrt(sizes["d"])
    weights = torch.softmax(query @ key.transpose(-2, -1) * scale, -1)
    known = weights @ value
    score = bound(precision, sizes["d"]) * scale * (query.abs() @ key.abs().transpose(-2, -1)).max()
    relative = 2 * score + 2 * bound(precision, sizes["l"]) + ROUNDOFF[precision]
    return known, relative * (weights @ value.abs())
