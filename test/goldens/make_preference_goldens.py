#!/usr/bin/env python3
"""Records losses and gradients of random preference pairs for the losses besides DPO's own, computed by TRL's own functions.

`hinge`, `ipo` and `simpo` are CPOTrainer.cpo_loss, given the gain over the reference instead of the log-probability where there is a
reference; `orpo` is ORPOTrainer.odds_ratio_loss (float32 inside). The SFT term is the mean over the tokens of all chosen answers, as
DPOTrainer's loss "sft". The gradients to every token's log-probability come from PyTorch autograd.
Run: python3 test/goldens/make_preference_goldens.py (needs torch, trl; torch 2.15.0 and trl 1.16.0 made the file)
Writes test/goldens/preference-losses.json.
"""
import json
import pathlib
import random
from types import SimpleNamespace

import torch
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

BETAS = {"hinge": [0.1, 0.5], "ipo": [0.1, 0.5], "orpo": [0.1, 1.0], "simpo": [2.0, 2.5]}


def case(seed, loss):
    rng = random.Random(f"{seed}{loss}")
    pairs = rng.randint(1, 5)
    beta = rng.choice(BETAS[loss])
    smoothing = rng.choice([0.0, 0.1]) if loss == "simpo" else 0.0
    gamma = rng.choice([0.5, 1.6]) if loss == "simpo" else 0.5
    weight = rng.choice([0.0, 1.0, 0.3])

    def answers():
        # mean log-probabilities near 0 as well, where the odds are large
        scale = rng.choice([0.01, 1.0])
        return [[-rng.expovariate(0.7) * scale for _ in range(rng.randint(1, 7))] for _ in range(pairs)]

    chosen, rejected = answers(), answers()
    has_reference = loss in ("hinge", "ipo")
    references = [[sum(a) + rng.gauss(0, 3) if has_reference else 0.0 for a in side] for side in (chosen, rejected)]
    tensors = [[torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in side] for side in (chosen, rejected)]
    gains = []
    for side, reference in zip(tensors, references):
        reference = torch.tensor(reference, dtype=torch.float64)
        lengths = torch.tensor([1 if loss == "hinge" else len(t) for t in side])
        gains.append((torch.stack([t.sum() for t in side]) - reference) / lengths)
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        alpha=0.0,
        beta=beta,
        label_smoothing=smoothing,
        loss_type=loss,
        simpo_gamma=gamma,
    )
    if loss == "orpo":
        losses, chosen_rewards, rejected_rewards, *_ = ORPOTrainer.odds_ratio_loss(trainer, *gains)
        losses = -losses
    else:
        losses, chosen_rewards, rejected_rewards = CPOTrainer.cpo_loss(trainer, *gains)
    total = losses.mean() - weight * torch.cat(tensors[0]).mean()
    total.backward()
    return {
        "loss_type": loss,
        "beta": beta,
        "label_smoothing": smoothing,
        "simpo_gamma": gamma,
        "rpo_alpha": weight,
        "chosen": chosen,
        "rejected": rejected,
        "reference_chosen": references[0],
        "reference_rejected": references[1],
        "loss": total.item(),
        "gradient_chosen": [t.grad.tolist() for t in tensors[0]],
        "gradient_rejected": [t.grad.tolist() for t in tensors[1]],
        "rewards_chosen": chosen_rewards.tolist(),
        "rewards_rejected": rejected_rewards.tolist(),
    }


if __name__ == "__main__":
    target = pathlib.Path(__file__).parent / "preference-losses.json"
    target.write_text(json.dumps([case(seed, loss) for loss in BETAS for seed in range(25)]) + "\n")
    print(f"wrote {target}")
