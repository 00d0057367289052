#!/usr/bin/env python3
"""Records six steps of torch.optim.AdamW with clip_grad_norm_ in float32 for each of several settings, and two groups of other rates (LoRA+).

Run: python3 test/goldens/make_adamw_goldens.py (needs torch)
Writes test/goldens/adamw-options.json.
"""
import torch
from make_decoder_goldens import pack, tensor, write

PLAIN = {"adam_beta1": 0.9, "adam_beta2": 0.99, "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0, "loraplus_lr_ratio": 1}
CASES = [{}, {"adam_beta1": 0.5}, {"adam_beta2": 0.9}, {"adam_epsilon": 0.1}, {"weight_decay": 0.3}, {"max_grad_norm": 0.05}, {"max_grad_norm": 0},
         {"loraplus_lr_ratio": 16}, {"loraplus_lr_ratio": 4, "weight_decay": 0.2, "adam_beta1": 0.8, "adam_epsilon": 1e-3, "max_grad_norm": 0.5}]
SHAPES = {"m.lora_A.weight": (2, 5), "m.lora_B.weight": (7, 2)}


def case(changes):
    options = {**PLAIN, **changes}
    parameters = {n: torch.nn.Parameter(tensor(f"adamw/{n}", s, 1.0).float()) for n, s in SHAPES.items()}
    groups = [{"params": [p], "ratio": options["loraplus_lr_ratio"] if "lora_B" in n else 1} for n, p in parameters.items()]
    optimizer = torch.optim.AdamW(groups, betas=(options["adam_beta1"], options["adam_beta2"]), eps=options["adam_epsilon"],
                                  weight_decay=options["weight_decay"])
    for step in range(6):
        for n, p in parameters.items():
            p.grad = tensor(f"adamw/{n}/gradient/{step}", SHAPES[n], 0.2 if step % 2 else 2.0).float()
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), options["max_grad_norm"] or float("inf"))
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 1) * group["ratio"]
        optimizer.step()
    return {"options": options, "parameters": {n: pack(p.data) for n, p in parameters.items()}}


if __name__ == "__main__":
    write("adamw-options.json", {"shapes": {n: list(s) for n, s in SHAPES.items()}, "cases": [case(changes) for changes in CASES]})
