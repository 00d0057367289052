#!/usr/bin/env python3
"""Records three passes of PPO over one rollout, computed by PyTorch autograd and torch.optim.AdamW in float64.

The decoder, its weights and its adapter are those of make_decoder_goldens.py. An optimizer step is three answers, run one by one; the
order of the steps over all passes is that of the test, which asserts it. Advantages are those of section 2 and 3 of
src/docs/reference/how-training-works.md.
Run: python3 test/goldens/make_passes_goldens.py (needs torch)
Writes test/goldens/policy-passes.json.
"""
import torch
from make_decoder_goldens import VARIANTS, decode, make_adapter, make_weights, pack, uniform, write

VARIANT = "llama"
STEPS, ORDER = 4, [2, 1, 0, 3, 0, 3, 1, 2, 0, 2, 1, 3]
RATES = [0.001 * (1 - at / (len(ORDER) - 1)) for at in range(len(ORDER))]
EPSILON, CLIP, DECAY, BETA = 0.2, 0.1, 0.1, 0.05


def ids(name, count, vocabulary):
    return [int((u + 1) / 2 * vocabulary) for u in uniform(name, count)]


def rollout(c):
    """Twelve answers of one group, three to a step: the tests make the steps of equal length."""
    prompt = ids("passes/prompt", 5, c["vocabularySize"])
    return [{"prompt": prompt, "answer": ids(f"passes/answer/{i}", 6, c["vocabularySize"]), "reward": [0.0, 1.0, 0.25][i % 3] + i / 16}
            for i in range(3 * STEPS)]


def logprobs(c, w, adapter, item):
    tokens = torch.tensor([item["prompt"] + item["answer"]])
    t = tokens.shape[1]
    logits = decode(c, w, adapter, tokens, torch.arange(t)[None], torch.ones(t, t).tril().bool()[None])
    taken = logits[0].log_softmax(-1)[:-1].gather(1, tokens[0, 1:, None])[:, 0]
    return taken[len(item["prompt"]) - 1:]


def main():
    c = VARIANTS[VARIANT]
    w, adapter, items = make_weights(c), make_adapter(c), rollout(c)
    rewards = torch.tensor([item["reward"] for item in items], dtype=torch.float64)
    raw = (rewards - rewards.mean()) / (rewards.std(correction=0) + 1e-6)
    advantages = raw / raw.abs().mean()
    base = {name: value.detach() * (0 if "lora_B" in name else 1) for name, value in adapter.items()}
    with torch.no_grad():
        reference = [logprobs(c, w, base, item) for item in items]
        for index, (item, start) in enumerate(zip(items, [logprobs(c, w, adapter, item) for item in items])):
            item["logprobs"] = [round(x + 0.05 * u, 6) for x, u in zip(start.tolist(), uniform(f"passes/noise/{index}", 6))]
    order, members = ORDER, [items[3 * step:3 * step + 3] for step in range(STEPS)]
    optimizer = torch.optim.AdamW(adapter.values(), betas=(0.9, 0.99), eps=1e-8, weight_decay=DECAY)
    made = []
    for step, rate in zip(order, RATES):
        total, drift = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for index in range(3 * step, 3 * step + 3):
            now, old = logprobs(c, w, adapter, items[index]), torch.tensor(items[index]["logprobs"], dtype=torch.float64)
            ratio, a, x = (now - old).exp(), advantages[index], reference[index] - now
            total = total - torch.minimum(ratio * a, ratio.clamp(1 - EPSILON, 1 + EPSILON) * a).sum() + BETA * (x.exp() - x - 1).sum()
            drift = drift + ((now - old).exp() - (now - old) - 1).sum()
        loss = total / 18
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(adapter.values()), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        made.append({"loss": loss.item(), "grad_norm": norm.item(), "kl_div": drift.item() / 18})
    write("policy-passes.json", {
        "variant": VARIANT, "order": order, "learning_rate": RATES[0], "beta": BETA, "items": items, "steps": made,
        "adapter": {name: pack(value.detach()) for name, value in adapter.items() if ".1.mlp.down" in name or "0.self_attn.q" in name},
    })
    assert len(members) == STEPS


if __name__ == "__main__":
    main()
