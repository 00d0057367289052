#!/usr/bin/env python3
"""Records losses and gradients of random rows for the losses of the plugin `literature`, computed by the code of TRL and verl.

TRL has its formulas inside `GRPOTrainer._compute_loss` and `DPOTrainer._compute_loss`, `SFTTrainer.compute_loss`: the statements between the ratio
and the loss of a token (of a pair) are taken from their source as they are and run on tensors of our own. verl's are functions of
its `core_algos`, run without the rest of the package. Gradients come from PyTorch autograd, in float64.
Run: python3 test/goldens/make_loss_goldens.py VERL TRL [LOSS …] (needs torch; VERL and TRL are unpacked wheels; torch 2.15.0, trl 1.16.0 and
verl 0.9.1 made the file, torch 1.13.0 and trl 1.16.0 aot and aot_unpaired). Writes test/goldens/losses.json; with names only their cases.
"""
import ast
import functools
import json
import pathlib
import random
import sys
from types import SimpleNamespace
from typing import Any, Optional

import torch
import torch.nn.functional as F

VERL, TRL = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def method(owner, name):
    """A method of one of TRL's trainers, as it stands in its source."""
    file = TRL / "trl" / "trainer" / f"{owner.removesuffix('Trainer').lower()}_trainer.py"
    members = next(each for each in ast.parse(file.read_text()).body if isinstance(each, ast.ClassDef) and each.name == owner).body
    return next(each for each in members if isinstance(each, ast.FunctionDef) and each.name == name)


def run(statements, names):
    exec(compile(ast.Module(list(statements), []), "theirs", "exec"), names)
    return names


def grpo(logp, old, advantages, mask, **options):
    """Loss of each token by TRL, [B, T]."""
    names = {
        "torch": torch,
        "per_token_logps": logp,
        "old_per_token_logps": old,
        "advantages": advantages[:, None],
        "mask": mask,
        "self": SimpleNamespace(
            loss_type=options["loss_type"],
            importance_sampling_level=options.get("level", "token"),
            epsilon_low=options.get("epsilon", 0.2),
            epsilon_high=options.get("epsilon_high", 0.2),
            beta=0.0,
            args=SimpleNamespace(
                delta=options.get("delta"),
                sapo_temperature_pos=options.get("sapo_temperature_pos", 1.0),
                sapo_temperature_neg=options.get("sapo_temperature_neg", 1.05),
            ),
        ),
    }
    lines = method("GRPOTrainer", "_compute_loss").body
    first = next(i for i, line in enumerate(lines) if ast.unparse(line).startswith("log_ratio ="))
    last = next(i for i, line in enumerate(lines) if ast.unparse(line).startswith("if self.off_policy_mask_threshold is not None:") and i > first)
    return run(lines[first:last], names)["per_token_loss"] * mask


def dpo(chosen, rejected, references, loss, beta, smoothing):
    """Loss of each pair by TRL, [P]."""
    chosen_reference, rejected_reference = references
    names = {
        "torch": torch,
        "F": F,
        "device": "cpu",
        "chosen_logratios": chosen,
        "rejected_logratios": rejected,
        "chosen_logps": chosen + chosen_reference,
        "rejected_logps": rejected + rejected_reference,
        "ref_chosen_logps": chosen_reference,
        "ref_rejected_logps": rejected_reference,
        "delta_score": chosen - rejected,
        "loss_type": loss,
        "self": SimpleNamespace(beta=beta, label_smoothing=smoothing),
    }
    loops = [node for node in ast.walk(method("DPOTrainer", "_compute_loss")) if isinstance(node, ast.For)]
    loop = next(each for each in loops if "loss_type" in ast.unparse(each.target))
    return run(loop.body[:1], names)["per_sequence_loss"]


def dft(logp):
    lines = [node for node in ast.walk(method("SFTTrainer", "compute_loss")) if isinstance(node, ast.If)]
    line = next(each for each in lines if ast.unparse(each.test) == "self.args.loss_type == 'dft'" and "per_token_loss" in ast.unparse(each.body[0]))
    names = {
        "torch": torch,
        "per_token_loss": -logp,
        "outputs": SimpleNamespace(log_probs=logp),
        "self": SimpleNamespace(args=SimpleNamespace(loss_type="dft")),
    }
    return run([line], names)["per_token_loss"]


class ActorConfig(SimpleNamespace):
    def get(self, name, otherwise):
        return getattr(self, name, otherwise)


@functools.cache
def verl():
    """The functions of verl that are called, by their names."""
    source = ast.parse((VERL / "verl" / "trainer" / "ppo" / "core_algos.py").read_text())
    helpers = ast.parse((VERL / "verl" / "utils" / "torch_functional.py").read_text())
    pick = lambda tree, wanted: [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    means = run(pick(helpers, {"masked_sum", "masked_mean"}), {"torch": torch})
    names = {
        "torch": torch, "Any": Any, "Optional": Optional, "ActorConfig": ActorConfig, "AlgoConfig": type("AlgoConfig", (), {}),
        "DictConfig": type("DictConfig", (), {}),
        "verl_F": SimpleNamespace(masked_sum=means["masked_sum"], masked_mean=means["masked_mean"]),
    }
    wanted = {"agg_loss", *(f"compute_policy_loss_{name}" for name in ("vanilla", "gspo", "gpg", "geo_mean", "sapo"))}
    functions = pick(source, wanted)
    for function in functions:
        function.decorator_list = []
    return run(functions, names)


def by_verl(name, logp, old, advantages, mask, mode, **config):
    otherwise = {"clip_ratio_low": None, "clip_ratio_high": None, "clip_ratio": 0.2, "global_batch_info": {}}
    given = ActorConfig(**{**otherwise, **config})
    call = verl()[f"compute_policy_loss_{name}"]
    return call(old, logp, advantages[:, None].expand_as(logp) * mask, mask, loss_agg_mode=mode, config=given)[0]


# name of ours, its options, and who computes it how; `mode` says how tokens make up the loss
POLICIES = [
    ("dual_clip", {"delta": 1.5}, "trl", lambda *a: grpo(*a, loss_type="grpo", delta=1.5).sum(), "sum"),
    ("dual_clip", {"delta": 3.0}, "verl", lambda *a: by_verl("vanilla", *a, "token-sum", clip_ratio_c=3.0), "sum"),
    ("sapo", {}, "trl", lambda *a: grpo(*a, loss_type="sapo").sum(), "sum"),
    ("sapo", {"sapo_temperature_pos": 2.0, "sapo_temperature_neg": 0.5}, "trl", lambda *a: grpo(*a, loss_type="sapo", sapo_temperature_pos=2.0, sapo_temperature_neg=0.5).sum(), "sum"),
    ("gpg", {}, "verl", lambda *a: by_verl("gpg", *a, "token-sum"), "sum"),
    ("luspo", {"epsilon": 0.1, "epsilon_high": 0.2}, "trl", lambda *a: (grpo(*a, loss_type="luspo", level="sequence", epsilon=0.1, epsilon_high=0.2)).sum(), "sum"),
    ("gspo_token", {"epsilon": 0.1, "epsilon_high": 0.2}, "verl", lambda *a: by_verl("gspo", *a, "token-sum", clip_ratio_low=0.1, clip_ratio_high=0.2), "sum"),
    ("gmpo", {"epsilon": 0.4, "epsilon_high": 0.4}, "verl", lambda *a: by_verl("geo_mean", *a, "", clip_ratio_low=0.4, clip_ratio_high=0.4), "sequences"),
    ("gmpo", {"epsilon": 0.1, "epsilon_high": 0.3}, "verl", lambda *a: by_verl("geo_mean", *a, "", clip_ratio_low=0.1, clip_ratio_high=0.3), "sequences"),
]
PREFERENCES = [
    ("robust", 0.1), ("robust", 0.3), ("exo_pair", 1e-3), ("exo_pair", 0.1),
    *((name, 0.0) for name in ("bco_pair", "nca_pair", "sppo_hard", "apo_zero", "apo_down")),
    ("aot", 0.0), ("aot", 0.2), ("aot_unpaired", 0.0), ("aot_unpaired", 0.2),
]


def policy_case(seed, name, options, by, call, mode):
    rng = random.Random(f"{seed}{name}{by}{options}")
    lengths = [rng.randint(1, 6) for _ in range(rng.randint(1, 5))]
    width = max(lengths)
    drift = rng.choice([0.02, 0.3, 1.2])
    logp = [[-rng.expovariate(0.5) for _ in range(n)] for n in lengths]
    old = [[value + rng.gauss(0, drift) for value in row] for row in logp]
    advantages = [rng.gauss(0, 1) for _ in lengths]
    pad = lambda rows: torch.tensor([row + [0.0] * (width - len(row)) for row in rows], dtype=torch.float64)
    new = pad(logp).requires_grad_()
    mask = pad([[1.0] * n for n in lengths])
    loss = call(new, pad(old), torch.tensor(advantages, dtype=torch.float64), mask)
    loss.backward()
    gradient = [row[:n] for row, n in zip(new.grad.tolist(), lengths)]
    return {"loss": name, "options": options, "by": by, "mode": mode, "logp": logp, "old": old, "advantages": advantages, "value": loss.item(), "gradient": gradient}


def preference_case(seed, name, smoothing):
    rng = random.Random(f"{seed}{name}{smoothing}")
    beta = rng.choice([0.05, 0.1, 0.5])
    sides = [[rng.gauss(0, 6) for _ in range(rng.randint(1, 5))] for _ in range(1)]
    sides.append([rng.gauss(0, 6) for _ in sides[0]])
    chosen, rejected = (torch.tensor(side, dtype=torch.float64, requires_grad=True) for side in sides)
    references = [[-rng.expovariate(0.05) for _ in side] for side in sides]
    loss = dpo(chosen, rejected, [torch.tensor(side, dtype=torch.float64) for side in references], name, beta, smoothing).sum()
    loss.backward()
    # others depend on gains alone
    more = dict(zip(("chosen_reference", "rejected_reference"), references)) if name == "aot" else {}
    return {**more, "loss": name, "beta": beta, "label_smoothing": smoothing, "chosen": sides[0], "rejected": sides[1], "value": loss.item(), "gradient_chosen": chosen.grad.tolist(), "gradient_rejected": (rejected.grad if rejected.grad is not None else torch.zeros_like(rejected)).tolist()}


def example_case(seed):
    rng = random.Random(seed)
    logp = torch.tensor([-rng.expovariate(0.5) for _ in range(rng.randint(1, 8))], dtype=torch.float64, requires_grad=True)
    loss = dft(logp).sum()
    loss.backward()
    return {"loss": "dft", "logp": logp.tolist(), "value": loss.item(), "gradient": logp.grad.tolist()}


if __name__ == "__main__":
    target = pathlib.Path(__file__).parent / "losses.json"
    wanted = sys.argv[3:]
    known = json.loads(target.read_text()) if wanted else {"policies": [], "preferences": [], "examples": []}
    is_wanted = lambda name: not wanted or name in wanted
    cases = {
        "policies": [policy_case(seed, *each) for each in POLICIES if is_wanted(each[0]) for seed in range(15)],
        "preferences": [preference_case(seed, *each) for each in PREFERENCES if is_wanted(each[0]) for seed in range(15)],
        "examples": [example_case(seed) for seed in range(15) if is_wanted("dft")],
    }
    kept = {kind: [case for case in known[kind] if not is_wanted(case["loss"])] for kind in cases}
    target.write_text(json.dumps({kind: kept[kind] + cases[kind] for kind in cases}) + "\n")
    print(f"wrote {target}")
