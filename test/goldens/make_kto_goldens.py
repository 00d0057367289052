#!/usr/bin/env python3
"""Records losses, gradients and rewards of random labelled answers, computed by TRL's own KTOTrainer.kto_loss in float64.

The gradients to every token's log-probability come from PyTorch autograd through the sums over tokens.
Run: python3 test/goldens/make_kto_goldens.py (needs torch, transformers, trl; torch 2.13.0 and trl 0.26.2 made the file)
Writes test/goldens/kto-loss.json.
"""
import json
import pathlib
import random
from types import SimpleNamespace

import torch
from trl import KTOTrainer


def case(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 7)
    beta, good, bad = rng.choice([0.01, 0.1, 0.5, 1.0]), rng.choice([1.0, 1.0, 0.5]), rng.choice([1.0, 1.0, 3.0])
    labels = [rng.random() < 0.5 for _ in range(count)]
    answers = [[-rng.expovariate(0.7) for _ in range(rng.randint(1, 7))] for _ in range(count)]
    # one case in five starts where a job does: the policy is the reference
    spread = 0.0 if rng.random() < 0.2 else 3.0
    references = [sum(a) + rng.gauss(0, spread) for a in answers]
    mismatched = [-20 * rng.random() for _ in range(count if count > 1 else 0)]
    reference_mismatched = [m - rng.gauss(0.5, spread / 3) for m in mismatched]
    tokens = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in answers]
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu"), gather_for_metrics=lambda x: x),
        beta=beta, desirable_weight=good, undesirable_weight=bad, calculate_KL=count > 1, loss_type="kto",
    )

    def side(wanted, values):
        chosen = [v for v, label in zip(values, labels) if label == wanted]
        if not chosen:
            return torch.zeros(0, dtype=torch.float64)
        return torch.stack([v if torch.is_tensor(v) else torch.tensor(v, dtype=torch.float64) for v in chosen])

    sums = [t.sum() for t in tokens]
    losses, chosen_rewards, rejected_rewards, kl = KTOTrainer.kto_loss(
        trainer, side(True, sums), side(False, sums), torch.tensor(mismatched, dtype=torch.float64),
        side(True, references), side(False, references), torch.tensor(reference_mismatched, dtype=torch.float64))
    loss = losses.nanmean()
    loss.backward()
    return {
        "beta": beta, "desirable_weight": good, "undesirable_weight": bad, "labels": labels, "answers": answers,
        "references": references, "mismatched": mismatched, "reference_mismatched": reference_mismatched,
        "loss": loss.item(), "kl": kl.item() if kl.ndim == 0 else kl[0].item(), "gradients": [t.grad.tolist() for t in tokens],
        "rewards_chosen": chosen_rewards.tolist(), "rewards_rejected": rejected_rewards.tolist(),
    }


if __name__ == "__main__":
    target = pathlib.Path(__file__).parent / "kto-loss.json"
    target.write_text(json.dumps([case(seed) for seed in range(100)]) + "\n")
    print(f"wrote {target}")
