"""Attention by its definition, in double precision, and how far a result may be from it. Plain PyTorch on the CPU.

An operand is a list of sequences, each [heads, rows, features], whatever the layout of the call. Gradients of the definition
are those that autograd finds; what a result of fp32 or 16-bit arithmetic may differ by is computed beside them.
"""
import torch

# Unit roundoff of the element types, rounding to nearest, and half of the distance of their smallest numbers.
ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
HALF_STEP = {torch.float32: 2.0**-150, torch.float16: 2.0**-25, torch.bfloat16: 2.0**-134}
FP32 = ROUNDOFF[torch.float32]
# What the statistics of a row hold that sees no key.
LARGEST = torch.finfo(torch.float32).max


def hidden_pairs(mode, rows, keys, *, pre=2**31 - 1, next=2**31 - 1, prefix=0, mask=None):
    """[rows, keys], true where sparse mode `mode` hides a key from a row. Modes 7 and 8 are 4 and 3 or 2 a sequence."""
    i, j = torch.arange(rows)[:, None], torch.arange(keys)
    last = keys - rows  # a window that is measured from the last row and key, and the diagonal that ends there
    if mode == 0:
        return mask | (i - j > pre) | (j - i > next)
    if mode == 1:
        return mask
    if mode == 2:
        return j > i
    if mode == 3:
        return j > i + last
    if mode == 4:
        return (i - j > pre - last) | (j - i > next + last)
    causal_behind_prefix = (j > i + last) & (j >= prefix)
    return causal_behind_prefix | mask if mode == 5 else causal_behind_prefix


class Attention:
    """One sequence. Tensors are double; those of keys may have fewer heads than those of queries."""

    def __init__(self, query, key, value, scale, *, hidden=None, bias=None, bias_is_scaled=True, keep=None, sink=None,
                 query_rope=None, key_rope=None):
        """`keep` is what dropout multiplies each probability by: 0 or 1 / keep_prob. `sink` holds a number a head."""
        self.scale, self.query, self.query_rope = scale, query, query_rope
        self.group = query.shape[0] // key.shape[0]
        self.key, self.value, self.key_rope = (
            None if operand is None else operand.repeat_interleave(self.group, 0) for operand in (key, value, key_rope))
        self.keep = torch.ones(()) if keep is None else keep
        scores, conditions = self._scores(bias, bias_is_scaled)
        self.hidden = torch.zeros(()).bool() if hidden is None else hidden
        scores = scores.masked_fill(self.hidden, -torch.inf)
        if sink is not None:
            sink = sink[:, None].expand(scores.shape[:2])
            conditions = conditions + sink.detach().abs()[..., None]

        candidates = scores.detach() if sink is None else torch.cat([scores.detach(), sink.detach()[..., None]], -1)
        if candidates.shape[-1] == 0:  # no keys at all: everything is zero
            candidates = torch.zeros(*candidates.shape[:2], 1, dtype=scores.dtype)
        largest = candidates.amax(-1)
        self.sees = largest > -torch.inf  # something
        largest = largest.masked_fill(~self.sees, 0)
        weights = (scores - largest[..., None]).exp()
        total = weights.sum(-1)
        if sink is not None:
            total = total + (sink - largest).exp()
        self.probabilities = weights / total.masked_fill(total == 0, 1)[..., None]
        self.out = (self.probabilities * self.keep) @ self.value
        self.maximum = largest.masked_fill(~self.sees, -LARGEST)
        self.total = total.detach().masked_fill(~self.sees, LARGEST)
        self._set_conditions(conditions)
        self.share_of_sink = None if sink is None else ((sink - largest).exp() / total).detach()

    def _scores(self, bias, bias_is_scaled):
        """The scores, and the sums of the absolute values of the terms that they consist of."""
        scores = self.query @ self.key.mT
        conditions = self.query.abs() @ self.key.abs().mT
        if self.query_rope is not None:
            scores = scores + self.query_rope @ self.key_rope.mT
            conditions = conditions + self.query_rope.abs() @ self.key_rope.abs().mT
        scores, conditions = scores * self.scale, conditions * abs(self.scale)
        if bias is not None:
            bias = bias * self.scale if bias_is_scaled else bias
            scores, conditions = scores + bias, conditions + bias.abs()
        return scores, conditions.detach()

    def _set_conditions(self, conditions):
        if conditions.shape[-1] == 0:
            conditions = torch.zeros(*conditions.shape[:2], 1, dtype=conditions.dtype)
        self.condition = conditions.masked_fill(self.hidden, 0).amax(-1)

    # ---- bounds ----

    def _factor(self, terms):
        """Relative error of a weight or of a sum of weights: 40 roundings for what does not grow (chains of sums, exponential,
        quotient, dropout's factor), 4 A since an error of a score, a sum of terms whose absolute values add up to A, is one of
        the exponent, and a chain of sums for each 512 terms."""
        return FP32 * (40 + 4 * self.condition + terms / 512)

    def out_bound(self, dtype):
        """16-bit types may round each weight before the second product, which moves the result by a roundoff of the largest
        value; half as much again is for an exponential of low degree and for the sum of weights that were not rounded."""
        out, keys = self.out.detach(), self.key.shape[1]
        seen = (self.value.detach().abs().amax(-1)[:, None] * self.keep).masked_fill(self.hidden, 0)  # [N, 1 or rows, keys]
        largest = seen.amax(-1, keepdim=True) if keys else torch.zeros(1, 1, 1, dtype=out.dtype)
        bound = self._factor(keys)[..., None] * largest + HALF_STEP[dtype]
        if dtype != torch.float32:
            bound = bound + ROUNDOFF[dtype] * (1.5 * largest + out.abs())
        return (bound * self._computed()[..., None]).expand_as(out)

    def maximum_bound(self):
        """A score is wrong by half of what an exponent may be; four units in the last place are for scaling."""
        return (FP32 * (2 * self.condition + 8 * self.maximum.abs())) * self._computed()

    def total_bound(self, dtype):
        """The exponential of 16-bit types may be of low degree: a relative 1e-4 in a sum of weights."""
        relative = self._factor(self.key.shape[1]) + (0 if dtype == torch.float32 else 1e-4)
        return relative * self.total * self._computed()

    def _computed(self):
        """False for rows whose results are set, not computed: those without keys."""
        return self.sees & (self.total > 0)

    def gradient_bounds(self, dy, dtype):
        """What the gradients of out, given dy, may be wrong by, but for the rounding of the results: a dict."""
        probabilities, dy, out = self.probabilities.detach(), dy.double(), self.out.detach()
        query, key, value = self.query.detach().abs(), self.key.detach().abs(), self.value.detach().abs()
        d_probabilities = (dy @ self.value.detach().mT) * self.keep
        delta = (dy * out).sum(-1, keepdim=True)
        d_scores = probabilities * (d_probabilities - delta)
        # The sums behind both factors, without cancellation.
        delta_terms = (dy.abs() * out.abs()).sum(-1, keepdim=True)
        factor = self._factor(max(key.shape[1], self.group * query.shape[1]))[..., None]
        scores = factor * probabilities * ((dy.abs() @ value.mT) * self.keep + delta_terms)
        weights = factor * probabilities * self.keep
        if dtype != torch.float32:
            # As in out_bound; the rounding of out, from which delta is computed, comes in addition.
            roundoff, step = ROUNDOFF[dtype], HALF_STEP[dtype]
            scores = scores + roundoff * (1.5 * d_scores.abs() + probabilities * delta_terms) + step
            weights = weights + 1.5 * roundoff * probabilities * self.keep + step
        scores, weights = scores.masked_fill(self.hidden, 0), weights.masked_fill(self.hidden, 0)
        scale = abs(self.scale)
        bounds = {"scores": scores, "query": scale * scores @ key, "key": self._of_key_heads(scale * scores.mT @ query),
                  "value": self._of_key_heads(weights.mT @ dy.abs())}
        if self.query_rope is not None:
            bounds["query_rope"] = scale * scores @ self.key_rope.detach().abs()
            bounds["key_rope"] = self._of_key_heads(scale * scores.mT @ self.query_rope.detach().abs())
        if self.share_of_sink is not None:
            relative = factor[..., 0] + (0 if dtype == torch.float32 else 1.5 * ROUNDOFF[dtype])
            bounds["sink"] = (relative * self.share_of_sink * delta_terms[..., 0]).sum(-1)
        return bounds

    def _of_key_heads(self, bound):
        return bound.unflatten(0, (-1, self.group)).sum(1)


def rounded(bound, expected, dtype):
    """The bound with the rounding of a result to its type."""
    return bound + ROUNDOFF[dtype] * expected.abs() + HALF_STEP[dtype]


def assert_within(name, actual, expected, bound):
    """Every element of `actual` is within `bound` of `expected`; a number that is none is within no bound."""
    assert actual.shape == expected.shape, f"{name} has shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    actual, expected = actual.detach().cpu().double(), expected.detach().double()
    bound = torch.as_tensor(bound, dtype=torch.float64).expand(expected.shape)
    error = (actual - expected).abs()
    wrong = ~(error <= bound)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(f"{name}: {wrong.sum()} of {wrong.numel()} elements are wrong, first {list(at)}: "
                             f"{actual[at]:.9g}, expected {expected[at]:.9g}, error {error[at]:.3g}, bound {bound[at]:.3g}")
