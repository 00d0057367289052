#!/usr/bin/env python3
"""Records losses, gradients and rewards of random preference pairs, computed by TRL's own DPOTrainer.dpo_loss in float64.

The gradients to every token's log-probability come from PyTorch autograd through the sums over tokens.
Run: python3 test/goldens/make_dpo_goldens.py (needs torch, transformers, trl; torch 2.9.1 and trl 0.26.2 made the file)
Writes test/goldens/preference-loss.json.
"""
import json
import pathlib
import random
from types import SimpleNamespace

import torch
from trl.trainer.dpo_config import FDivergenceType
from trl.trainer.dpo_trainer import DPOTrainer


def case(seed):
    rng = random.Random(seed)
    pairs = rng.randint(1, 6)
    beta = rng.choice([0.01, 0.1, 0.5, 1.0])
    smoothing = rng.choice([0.0, 0.0, 0.1, 0.3])
    reference_free = rng.random() < 0.3

    def answers():
        return [[-rng.expovariate(0.7) for _ in range(rng.randint(1, 7))] for _ in range(pairs)]

    chosen, rejected = answers(), answers()
    # one case in five starts where a job does: the policy is the reference
    is_start = rng.random() < 0.2
    reference_chosen = [sum(a) if is_start else sum(a) + rng.gauss(0, 3) for a in chosen]
    reference_rejected = [sum(a) if is_start else sum(a) + rng.gauss(0, 3) for a in rejected]
    tensors = [[torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in side] for side in (chosen, rejected)]
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        reference_free=reference_free,
        f_divergence_type=FDivergenceType.REVERSE_KL,
        f_divergence_params=None,
        beta=beta,
        label_smoothing=smoothing,
    )
    sums = [torch.stack([t.sum() for t in side]) for side in tensors]
    references = [torch.tensor(r, dtype=torch.float64) for r in (reference_chosen, reference_rejected)]
    if reference_free:
        references = [torch.zeros_like(r) for r in references]
    losses, chosen_rewards, rejected_rewards = DPOTrainer.dpo_loss(trainer, *sums, *references, "sigmoid", None)
    loss = losses.mean()
    loss.backward()
    return {
        "beta": beta,
        "label_smoothing": smoothing,
        "reference_free": reference_free,
        "chosen": chosen,
        "rejected": rejected,
        "reference_chosen": reference_chosen,
        "reference_rejected": reference_rejected,
        "loss": loss.item(),
        "gradient_chosen": [t.grad.tolist() for t in tensors[0]],
        "gradient_rejected": [t.grad.tolist() for t in tensors[1]],
        "rewards_chosen": chosen_rewards.tolist(),
        "rewards_rejected": rejected_rewards.tolist(),
    }


if __name__ == "__main__":
    target = pathlib.Path(__file__).parent / "preference-loss.json"
    target.write_text(json.dumps([case(seed) for seed in range(100)]) + "\n")
    print(f"wrote {target}")
