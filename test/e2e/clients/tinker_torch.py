"""Losses and gradients that the Tinker client gets, against PyTorch in float64. Prints JSON.

The gradient is read out of an update: with both betas 0 AdamW moves a parameter by lr g / (|g| + eps), which is solved for g. What the client
saves before and after is fetched and read by PEFT's names.
"""

import io
import json
import sys
import urllib.request

import tinker
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load
from tinker import types
from transformers import AutoModelForCausalLM

url, key, model, folder = sys.argv[1:5]
EPS = 1e4

service = tinker.ServiceClient(base_url=url, api_key="tml-" + key)
rest = service.create_rest_client()
run = service.create_lora_training_client(base_model=model, rank=4, seed=3).result()


def fetch(name):
    """The adapter as it is, by its names."""
    path = run.save_weights_external(name).result().path
    addresses = rest.get_external_weights_urls(path).result().urls
    files = {name: urllib.request.urlopen(address).read() for name, address in addresses.items()}
    return load(files["adapter_model.safetensors"]), json.load(io.BytesIO(files["adapter_config.json"]))


IDS = [[1, 20, 30, 40, 50, 60, 70, 80], [2, 21, 31, 41, 51], [3, 22, 32, 42, 52, 62]]


def rows(**inputs):
    return [
        types.Datum(
            model_input=types.ModelInput.from_ints(ids[:-1]),
            loss_fn_inputs={"target_tokens": ids[1:], **{name: values[r].tolist() for name, values in inputs.items()}},
        )
        for r, ids in enumerate(IDS)
    ]


def numbers(shift):
    return [torch.cos(torch.arange(1, len(ids), dtype=torch.float64) * 5 + r + shift) for r, ids in enumerate(IDS)]


# away from the beginning, where half of the adapter is 0
run.forward_backward(rows(weights=numbers(0.5)), "cross_entropy").result()
run.optim_step(types.AdamParams(learning_rate=2e-2)).result()
state = run.save_state("state").result().path
before, config = fetch("before")

torch.set_num_threads(1)
base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
modules = config["target_modules"]
peft = get_peft_model(base, LoraConfig(r=config["r"], lora_alpha=config["lora_alpha"], target_modules=modules))
parameters = {
    name.replace(".default.", "."): parameter for name, parameter in peft.named_parameters() if "lora_" in name
}
assert set(parameters) == set(before), sorted(set(parameters) ^ set(before))[:4]
for name, parameter in parameters.items():
    parameter.data = before[name].double()


def reference():
    """Log-probabilities of the targets, one row after the other."""
    found = []
    for ids in IDS:
        logits = peft(torch.tensor([ids[:-1]])).logits[0]
        found.append(torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0])
    return found


given = [(logp + 0.3 * torch.sin(torch.arange(len(logp)) * 7.0)).detach() for logp in reference()]
advantages = numbers(0)


def importance(logps):
    return -sum((torch.exp(p - q) * a).sum() for p, q, a in zip(logps, given, advantages))


def ppo(logps):
    total = 0
    for p, q, a in zip(logps, given, advantages):
        ratio = torch.exp(p - q)
        total = total - torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).sum()
    return total


def cross_entropy(logps):
    return -sum((p * a).sum() for p, a in zip(logps, advantages))


def squares(logps):
    return sum(((p - q) ** 2).sum() for p, q in zip(logps, given)) + sum(p.exp().sum() for p in logps)


def custom(data, logps):
    loss = sum(((p - q.to(p.dtype)) ** 2).sum() for p, q in zip(logps, given)) + sum(p.exp().sum() for p in logps)
    return loss, {"custom": float(loss.detach())}


policy = {"logprobs": given, "advantages": advantages}
losses = {
    "cross_entropy": (cross_entropy, lambda: run.forward_backward(rows(weights=advantages), "cross_entropy")),
    "importance_sampling": (importance, lambda: run.forward_backward(rows(**policy), "importance_sampling")),
    "ppo": (ppo, lambda: run.forward_backward(rows(**policy), "ppo")),
    "custom": (squares, lambda: run.forward_backward_custom(rows(), custom)),
}
step = types.AdamParams(learning_rate=EPS, beta1=0.0, beta2=0.0, eps=EPS)
report = {}
for name, (formula, call) in losses.items():
    peft.zero_grad()
    expected = formula(reference())
    expected.backward()
    run.load_state(state).result()
    metrics = call().result().metrics
    run.optim_step(step).result()
    after, _ = fetch(f"after-{name}")
    worst = 0.0
    for each, parameter in parameters.items():
        moved = before[each].double() - after[each].double()
        gradient = moved.sign() * moved.abs() * EPS / (EPS - moved.abs())
        scale = parameter.grad.abs().max()
        worst = max(worst, float((gradient - parameter.grad).abs().max() / scale))
    value = metrics["custom"] if name == "custom" else metrics["loss:sum"]
    wanted = float(expected.detach())
    report[name] = {"loss": abs(value - wanted) / abs(wanted), "gradient": worst}
print(json.dumps(report))
