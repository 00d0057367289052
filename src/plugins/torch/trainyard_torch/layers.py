"""What takes the place of parts of a transformers model: linear layers with an adapter, the rotation, the head."""

import torch
from torch.nn import functional

# logit of what could not be drawn: its exponential is 0, and 0 times it is no NaN
NEVER = -1e30


class LoraLinear(torch.nn.Module):
    """A frozen linear layer plus `scale * x A^T B^T` (arXiv:2106.09685). A and B are float32; products have the layer's type.

    `dropout` is None, or rows u [B*T], columns v [in] and a share: the adapter is not given inputs where the fraction of u + v is below
    the share (`numerics/nn/dropout.ts`).
    """

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a, self.b, self.scale, self.dropout = None, None, 0.0, None

    @property
    def weight(self):
        return self.base.weight

    @property
    def bias(self):
        return self.base.bias

    def forward(self, x):
        y = self.base(x)
        if self.a is None:
            return y
        given = x if self.dropout is None else x * self._kept(x)
        inner = functional.linear(given, self.a.to(x.dtype)) * self.scale
        return y + functional.linear(inner, self.b.to(x.dtype))

    def _kept(self, x):
        rows, columns, share = self.dropout
        total = rows[:, None] + columns
        fraction = torch.where(total < 1, total, total - 1)
        # the share as the graph has it, in float32
        is_left_out = fraction < torch.tensor(share, dtype=torch.float32, device=x.device)
        return ((~is_left_out).float() * (1 / (1 - share))).to(x.dtype).view(x.shape)


def wrap_linear_layers(model, paths):
    """Puts a `LoraLinear` in place of each layer. Returns them by path."""
    layers = {}
    for path in paths:
        parent, _, name = path.rpartition(".")
        holder = model.get_submodule(parent)
        layers[path] = LoraLinear(getattr(holder, name))
        setattr(holder, name, layers[path])
    return layers


class Rotary(torch.nn.Module):
    """cos and sin of each token's position, from the frequencies that serving rotates by; computed in float64, rounded once.

    Takes the place of every `rotary_emb`, whose frequencies would come from the configuration again, in float32.
    """

    def __init__(self, frequencies, factor):
        super().__init__()
        self._frequencies, self._factor = frequencies, factor  # [D/2], on the processor: mps has no float64
        self._tables = None

    def prepare(self, positions, device, dtype):
        """Makes the tables for a batch. positions: int64 [B, T], on the processor."""
        angles = positions.double()[..., None] * self._frequencies
        both = torch.cat([angles, angles], -1)
        self._tables = tuple((wave * self._factor).to(device, dtype) for wave in (both.cos(), both.sin()))

    def forward(self, *_, **__):
        return self._tables


class RotaryByLayer(torch.nn.Module):
    """Chooses between two rotations as transformers 5 asks, by the kind of the layer (Gemma 3)."""

    def __init__(self, full, sliding):
        super().__init__()
        self.full, self.sliding = full, sliding

    def forward(self, _hidden, _positions=None, layer_type=None, **__):
        return self.sliding() if layer_type == "sliding_attention" else self.full()


class LabelLogp(torch.autograd.Function):
    """Log-probability of each label and entropy of its distribution, the logits of `chunk` positions at a time.

    The gradients d logp / d hidden = W[label] - p W and, where the loss reads the entropy, d entropy / d hidden = p (E[z] - z) W are
    computed with the same probabilities (as `numerics/nn/fused-head.ts` does), so no logits are kept or computed again.

    The distribution is that of what was sampled: logits times `heat` (1 / T) and, where `is_limited`, among the ids of `kept` alone.
    """

    @staticmethod
    def forward(ctx, hidden, weight, labels, chunk, is_entropy_read, heat, kept):
        """heat: [N]. kept: None, or ids [N, K] with the label among them and whether they limit the token, [N]."""
        logp, entropy, slopes, entropy_slopes = [], [], [], []
        for at in range(0, hidden.shape[0], chunk):
            rows, label = hidden[at : at + chunk], labels[at : at + chunk]
            warm = heat[at : at + chunk, None]
            logits = functional.linear(rows, weight).float() * warm  # [C, V]
            if kept is not None:
                ids, is_limited = (each[at : at + chunk] for each in kept)
                within = torch.full_like(logits, NEVER).scatter_(1, ids, logits.gather(1, ids))
                logits = torch.where(is_limited[:, None], within, logits)
            normalizer = torch.logsumexp(logits, -1)
            logp.append(logits.gather(1, label[:, None])[:, 0] - normalizer)
            p = torch.softmax(logits, -1)
            expected = (p * logits).sum(-1)
            entropy.append(normalizer - expected)
            if ctx.needs_input_grad[0]:
                over_t = warm.to(weight.dtype)
                slopes.append((weight[label] - p.to(weight.dtype) @ weight) * over_t)
                if is_entropy_read:
                    entropy_slopes.append((p * (expected[:, None] - logits)).to(weight.dtype) @ weight * over_t)
            del logits, p
        if slopes:
            ctx.save_for_backward(*(torch.cat(each) for each in (slopes, entropy_slopes) if each))
        joined = torch.cat(entropy)
        if not is_entropy_read:
            ctx.mark_non_differentiable(joined)
        return torch.cat(logp), joined

    @staticmethod
    def backward(ctx, *gradients):
        parts = [gradient[:, None].to(slope.dtype) * slope for gradient, slope in zip(gradients, ctx.saved_tensors)]
        return sum(parts), None, None, None, None, None, None
