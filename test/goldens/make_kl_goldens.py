#!/usr/bin/env python3
"""Records losses and gradients of optimizer steps with a KL penalty, computed by PyTorch autograd in float64.

Written from the formulas of src/docs/how-training-works.md, over whole steps of one to three rows: the mean that the penalty is
centred on is the step's. Run: python3 test/goldens/make_kl_goldens.py (needs torch; 2.15 made the file)
Writes test/goldens/kl-penalty.json; null stands for an unknown old log-probability.
"""
import json
import math
import pathlib
import random

import torch


def step_loss(config, rows, logps):
    everything = [t for row in rows for t in range(len(row["old"]))]
    ks = []
    for row, logp in zip(rows, logps):
        fixed = logp.detach()
        old = torch.tensor([math.nan if v is None else v for v in row["old"]], dtype=torch.float64)
        old = torch.where(torch.isnan(old), fixed, old)
        source = old if config["kl_penalty_source"] == "sample" else fixed
        ks.append((source - torch.tensor(row["reference"], dtype=torch.float64), old))
    mean = torch.cat([k for k, _ in ks]).mean()
    low, high = (0.0, 5.0) if not config["ppo"] else (0.8, 1.2)
    total = torch.zeros((), dtype=torch.float64)
    for row, logp, (k, old) in zip(rows, logps, ks):
        advantage = torch.tensor(row["advantage"], dtype=torch.float64)
        weight = torch.tensor(row["weight"], dtype=torch.float64)
        segments = torch.tensor(row["segments"])

        def ratio_of(values):
            difference = values - old
            if config["importance_sampling_level"] == "token":
                return difference.exp()
            means = torch.stack([difference[segments == s].mean() for s in segments])
            return means.exp()

        shaped = advantage - config["alt_k2_tau"] * (logp.detach() - old) + config["kl_penalty_coef"] * (mean - k)
        if config["ppo"]:
            ratio = ratio_of(logp)
            loss = -torch.minimum(ratio * shaped, ratio.clamp(low, high) * shaped)
        else:
            loss = -ratio_of(logp).detach().clamp(low, high) * shaped * logp
        total = total + (loss * weight).sum()
    return total / len(everything)


def case(rng):
    config = {
        "ppo": rng.random() < 0.5,
        "importance_sampling_level": rng.choice(["token", "sequence"]),
        "kl_penalty_coef": round(rng.uniform(0.01, 0.6), 3),
        "kl_penalty_source": rng.choice(["current_learner", "sample"]),
        "alt_k2_tau": rng.choice([0, 0, 0.1]),
    }
    rows = []
    for _ in range(rng.randint(1, 3)):
        count = rng.randint(2, 7)
        logp = [round(-rng.uniform(0.05, 3), 4) for _ in range(count)]
        rows.append({
            "logp": logp,
            "old": [None if rng.random() < 0.1 else round(v + rng.gauss(0, 0.3), 4) for v in logp],
            "reference": [round(v + rng.gauss(0, 0.5), 4) for v in logp],
            "advantage": [round(rng.gauss(0, 1), 4) for _ in range(count)],
            "weight": [round(rng.uniform(0.5, 1.5), 4) for _ in range(count)],
            "segments": sorted(rng.randint(0, 1) for _ in range(count)),
        })
    logps = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
    loss = step_loss(config, rows, logps)
    loss.backward()
    for row, logp in zip(rows, logps):
        row["gradient"] = [round(v, 7) for v in logp.grad.tolist()]
    return {"config": config, "rows": rows, "loss": round(loss.item(), 7)}


rng = random.Random(31)
path = pathlib.Path(__file__).parent / "kl-penalty.json"
path.write_text(json.dumps([case(rng) for _ in range(100)], separators=(",", ":")) + "\n")
