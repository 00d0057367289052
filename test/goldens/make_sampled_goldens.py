#!/usr/bin/env python3
"""Makes the goldens of training on what was sampled: temperatures and kept sets, mixed in packed rows, with PyTorch in float64.

log q(a) = z_a / T - log sum_{k in K} exp(z_k / T) of src/docs/reference/how-training-works.md, its entropy, and the gradient of a policy loss with
k3 to a reference and an entropy bonus, by autograd through the decoder of make_decoder_goldens.py.

Run: python3 test/goldens/make_sampled_goldens.py   (needs torch >= 1.13 and numpy)
Writes sampled.json beside itself.
"""
import json

import torch

import make_decoder_goldens as decoder
from make_decoder_goldens import pack, tensor, uniform

VOCABULARY = 600
TEMPERATURES = [0.3, 0.5, 1.0, 1.7, 2.0]
SIZES = [None, 1, 2, 64, 512]
TOP_P = 0.8
GRAMMAR = 5
BETA, ENTROPY = 0.3, 0.05
LENGTH = 40


def rows():
    """Row 0: a prompt of 5 that two completions share (its last token is private to each). Row 1: one sequence, then padding."""
    tokens = torch.tensor(((uniform("sampled/tokens", 2 * LENGTH) + 1) / 2 * VOCABULARY).astype(int)).reshape(2, LENGTH)
    groups = torch.tensor([[0] * 4 + [1] * 18 + [2] * 18, [3] * 30 + [-1] * 10])
    parents = torch.tensor([[0] * LENGTH, [3] * 30 + [-1] * 10])
    positions = torch.tensor([[*range(4), *range(4, 22), *range(4, 22)], [*range(30)] + [0] * 10])
    mask = torch.tensor([[0] * 5 + [1] * 17 + [0] + [1] * 17, [0] * 3 + [1] * 10 + [0] * 2 + [1] * 15 + [0] * 10])
    return tokens, groups, parents, positions, mask


def kept_of(n, size, label, z):
    """The set of token n: `size` ids, the nucleus of 0.8, or a handful as a grammar leaves; with the label in it."""
    if size is None:
        return None
    if size == "top_p":
        q, order = z.softmax(-1).sort(descending=True)
        ids = order[: int((q.cumsum(-1) < TOP_P).sum()) + 1].tolist()
    else:
        order = torch.tensor(uniform(f"sampled/kept/{n}", VOCABULARY)).argsort().tolist()
        ids = [id for id in order if id != label][: (GRAMMAR if size == "grammar" else size) - 1]
    return sorted({*ids, label})


def main():
    c = {**decoder.VARIANTS["llama"], "vocabularySize": VOCABULARY}
    w, adapter = decoder.make_weights(c), decoder.make_adapter(c)
    tokens, groups, parents, positions, mask = rows()
    logits = decoder.decode(c, w, adapter, tokens, positions, decoder.allowed(groups, parents))
    where = [(r, i) for r in range(2) for i in range(LENGTH - 1) if mask[r, i + 1] == 1]
    segments = torch.tensor([groups[r, i + 1].item() for r, i in where])
    drawn = [(t, size) for size in [*SIZES, "top_p", "grammar"] for t in TEMPERATURES]
    temperatures, kept, logps, entropies = [], [], [], []
    for n, (r, i) in enumerate(where):
        t, size = drawn[(11 * n) % len(drawn)]
        label = tokens[r, i + 1].item()
        z = logits[r, i] / t
        ids = kept_of(n, size, label, z.detach())
        among = z if ids is None else z[torch.tensor(ids)]
        logq = among.log_softmax(-1)
        logps.append(logq[label if ids is None else ids.index(label)])
        entropies.append(-(logq.exp() * logq).sum())
        temperatures.append(t)
        kept.append(ids)
    logp, entropy = torch.stack(logps), torch.stack(entropies)
    assert {*range(len(drawn))} <= {(11 * n) % len(drawn) for n in range(len(where))}, "each pair has a token"

    old = (logp + tensor("sampled/drift", (len(where),), 0.5)).detach().clamp(max=0)
    reference = (logp + tensor("sampled/reference", (len(where),), 0.4)).detach()
    advantage = torch.tensor([{1: 0.9, 2: -1.1, 3: 0.6}[s.item()] for s in segments], dtype=torch.float64)
    weight = torch.tensor([{1: 1.25, 2: 1.25, 3: 0.8}[s.item()] for s in segments], dtype=torch.float64)
    loss = decoder.policy_loss(logp, old, advantage, weight, segments, {})
    x = reference - logp
    loss = loss + (weight * (BETA * (x.exp() - x - 1) - ENTROPY * entropy)).sum() / len(where)
    names = sorted(adapter)
    gradients = torch.autograd.grad(loss, [adapter[n] for n in names])
    golden = {
        "config": c, "adapter": {"rank": decoder.RANK, "alpha": decoder.ALPHA},
        "tokens": tokens.tolist(), "groups": groups.tolist(), "parents": parents.tolist(),
        "positions": positions.tolist(), "mask": mask.tolist(),
        "temperatures": temperatures, "kept": kept,
        "old": pack(old), "reference": pack(reference), "advantage": advantage.tolist(), "weight": weight.tolist(),
        "options": {"beta": BETA, "entropy_coef": ENTROPY}, "loss": loss.item(),
        "logp": pack(logp), "entropy": pack(entropy),
        "gradientNames": names, "gradients": pack(torch.cat([g.reshape(-1) for g in gradients])),
    }
    (decoder.HERE / "sampled.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
