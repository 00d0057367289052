#!/usr/bin/env python3
"""Records losses and gradients of optimizer steps with random options, computed by PyTorch autograd in float64.

Written from sections 5 and 6 of src/docs/reference/how-training-works.md, over whole steps of one to three rows: the mean that the KL penalty
is centred on is the step's. Every option is on, and every ratio level taken, in a hundred steps or more.
Run: python3 test/goldens/make_policy_goldens.py (needs torch; 2.9 made the file)
Writes test/goldens/policy-steps.json; null stands for an unknown log-probability.
"""
import json
import math
import pathlib
import random

import torch

LEVELS = ["token", "sequence", "average", "geometric_average"]
LIMIT = 30.0


def tensor(values):
    return torch.tensor([math.nan if v is None else v for v in values], dtype=torch.float64)


def ratios(config, difference, segments):
    """The ratio of each token, before clipping."""
    token = difference.clamp(-LIMIT, LIMIT)
    sequence = torch.stack([token[segments == s].mean() for s in segments]).exp()
    ratio = {
        "token": lambda: token.exp(),
        "sequence": lambda: sequence,
        "average": lambda: (token.exp() + sequence) / 2,
        "geometric_average": lambda: (token.exp() * sequence).sqrt(),
    }[config["importance_sampling_level"]]()
    most = config.get("max_negative_advantage_importance_sampling_weight")
    return ratio if most is None else ratio.clamp(max=most)


def bounds(config):
    epsilon, high = (0.2, None) if config["ppo"] else (1.0, 4.0)
    epsilon = config.get("epsilon", epsilon)
    high = config.get("epsilon_high", epsilon if high is None else high)
    return 1 - epsilon, 1 + high


def step_loss(config, rows, logps):
    """The loss of a step, and how near any ratio comes to a place where the loss has a kink."""
    low, high = bounds(config)
    edges = [low, high] + [v for k, v in config.items() if k.startswith("max_negative")]
    olds = [torch.where(torch.isnan(tensor(row["old"])), logp.detach(), tensor(row["old"])) for row, logp in zip(rows, logps)]
    ks = []
    for row, logp, old in zip(rows, logps, olds):
        source = old if config["kl_penalty_source"] == "sample" else logp.detach()
        ks.append(source - tensor(row["reference"]))
    mean, count = torch.cat(ks).mean(), sum(len(k) for k in ks)
    total, nearest = torch.zeros((), dtype=torch.float64), math.inf
    for row, logp, old, k in zip(rows, logps, olds, ks):
        segments, weight = torch.tensor(row["segments"]), tensor(row["weight"])
        difference = (logp.detach() - old).clamp(-LIMIT, LIMIT)
        fixed = ratios(config, difference, segments)
        free = config.copy()
        free.pop("max_negative_advantage_importance_sampling_weight", None)
        nearest = min([nearest] + [(ratios(free, difference, segments) - edge).abs().min().item() for edge in edges])
        advantage = tensor(row["advantage"]) - config["alt_k2_tau"] * difference + config["kl_penalty_coef"] * (mean - k)
        if config["ppo"]:
            ratio = ratios(config, logp - old, segments)
            loss = -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        else:
            loss = -fixed.clamp(low, high) * advantage * logp
        if config["mask_prob_ratio"]:
            weight = weight * ((fixed > low) & (fixed < high))
        if "truncated_importance_sampling" in config:
            sampler = tensor(row["sampler"])
            known = torch.where(torch.isnan(sampler), old, sampler)
            weight = weight * (old - known).exp().clamp(max=config["truncated_importance_sampling"])
        total = total + (loss * weight).sum()
    return total / count, nearest


def case(rng, index):
    config = {
        "ppo": index // 4 % 2 == 1,
        "importance_sampling_level": LEVELS[index % 4],
        "kl_penalty_coef": rng.choice([0, round(rng.uniform(0.01, 0.6), 3)]),
        "kl_penalty_source": rng.choice(["current_learner", "sample"]),
        "alt_k2_tau": rng.choice([0, round(rng.uniform(0.02, 0.3), 3)]),
        "mask_prob_ratio": rng.random() < 0.4,
    }
    for name, low, high in (
        ("epsilon", 0.1, 0.6),
        ("epsilon_high", 0.1, 1.0),
        ("max_negative_advantage_importance_sampling_weight", 0.8, 1.6),
        ("truncated_importance_sampling", 0.8, 1.5),
    ):
        if rng.random() < 0.4:
            config[name] = round(rng.uniform(low, high), 3)
    truncates = "truncated_importance_sampling" in config
    around = lambda values, spread, unknown: [None if rng.random() < unknown else round(v + rng.gauss(0, spread), 4) for v in values]
    rows = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        count = rng.randint(2, 5)
        logp = [round(-rng.uniform(0.05, 3), 4) for _ in range(count)]
        # the trainer's own numbers, which truncation implies, are never unknown
        old = around(logp, 0.3, 0 if truncates else 0.1)
        rows.append({
            "logp": logp,
            "old": old,
            **({"sampler": around(old, 0.2, 0.1)} if truncates else {}),
            "reference": around(logp, 0.5, 0),
            "advantage": [round(rng.gauss(0, 1), 4) for _ in range(count)],
            "weight": [round(rng.uniform(0.5, 1.5), 4) for _ in range(count)],
            "segments": sorted(rng.randint(0, 1) for _ in range(count)),
        })
    logps = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
    loss, nearest = step_loss(config, rows, logps)
    if nearest < 1e-4:
        return case(rng, index)  # float32 may lie on the other side of the kink
    loss.backward()
    for row, logp in zip(rows, logps):
        row["gradient"] = [round(v, 7) for v in logp.grad.tolist()]
    return {"config": config, "rows": rows, "loss": round(loss.item(), 7)}


rng = random.Random(31)
path = pathlib.Path(__file__).parent / "policy-steps.json"
path.write_text(json.dumps([case(rng, index) for index in range(400)], separators=(",", ":")) + "\n")
