#!/usr/bin/env python3
"""Makes the goldens of adapters from elsewhere: files that PEFT saves, and the weights that it merges of them.

The base model is the small random one that test/plugins/export/given-adapters.test.ts writes; mlx-lm runs on Macs alone, so its
adapters are merged here with numpy, by the formulas of its `LoRALinear`, `LoRAEmbedding` and `DoRALinear` (0.28).

Run: python test/goldens/make_adapter_goldens.py <folder of the base> <folder of the tied base>   (needs torch, peft 0.13, transformers)
Writes adapters.json beside itself.
"""
import base64
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file, save
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
KINDS = {
    "patterns": dict(r=2, lora_alpha=5, target_modules=LINEAR, rank_pattern={"q_proj": 4, "layers.0.mlp.down_proj": 1},
                     alpha_pattern={r".*\.mlp\.(up|gate)_proj": 3}),
    "stabilized": dict(r=3, lora_alpha=4, target_modules=["q_proj", "v_proj", "up_proj"], use_rslora=True, rank_pattern={"v_proj": 2}),
    "fan-in": dict(r=2, lora_alpha=4, target_modules=["q_proj", "down_proj"], fan_in_fan_out=True),
    "saved-along": dict(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"]),
    "dora": dict(r=2, lora_alpha=4, target_modules=LINEAR, use_dora=True),
    "modules": dict(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"]),
    "embedding": dict(r=2, lora_alpha=6, target_modules=["embed_tokens", "lm_head", "o_proj"]),
}


def packed(array):
    array = np.ascontiguousarray(array, dtype=np.float32)
    return {"shape": list(array.shape), "float32": base64.b64encode(array.tobytes()).decode()}


def base_tensors(folder):
    return load_file(pathlib.Path(folder) / "model.safetensors")


def changed(before, after):
    return {name: packed(array) for name, array in after.items() if name not in before or not np.array_equal(before[name], array)}


def by_peft(name, config, folder):
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    peft_model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **config))
    rng = np.random.default_rng(len(name))
    with torch.no_grad():
        for key, tensor in peft_model.named_parameters():
            if "lora_" in key or "modules_to_save" in key:
                noise = torch.tensor(rng.normal(0, 0.3, tuple(tensor.shape)), dtype=torch.float32)
                tensor.copy_(tensor * (1 + noise) if "magnitude" in key else tensor + noise if "modules_to_save" in key else noise)
    peft_model.create_or_update_model_card = lambda *_: None
    with tempfile.TemporaryDirectory() as target:
        peft_model.save_pretrained(target, save_embedding_layers=name == "saved-along")
        files = pathlib.Path(target)
        settings = json.loads((files / "adapter_config.json").read_text())
        weights = (files / "adapter_model.safetensors").read_bytes()
    settings["base_model_name_or_path"] = "base"
    merged = {key: value.numpy().copy() for key, value in peft_model.merge_and_unload().state_dict().items()}
    tied = "lm_head.weight" not in base_tensors(folder)
    if tied:
        merged.pop("lm_head.weight", None)
    return {"config": settings, "weights": base64.b64encode(weights).decode(), "merged": changed(base_tensors(folder), merged)}


def by_mlx(kind, folder, paths, rank=2, scale=3.0):
    base = base_tensors(folder)
    rng = np.random.default_rng(9)
    tensors, merged = {}, {}
    for path in paths:
        weight = base[f"{path}.weight"].astype(np.float64)
        rows, columns = weight.shape
        inside, outside = (rows, columns) if path.endswith("embed_tokens") else (columns, rows)
        a = rng.normal(0, 0.3, (inside, rank)).astype(np.float32)
        b = rng.normal(0, 0.3, (rank, outside)).astype(np.float32)
        tensors[f"{path}.lora_a"], tensors[f"{path}.lora_b"] = a, b
        product = scale * (a.astype(np.float64) @ b.astype(np.float64))
        adapted = weight + (product if path.endswith("embed_tokens") else product.T)
        if kind == "dora":
            m = (np.linalg.norm(weight, axis=1) * (1 + rng.normal(0, 0.2, rows))).astype(np.float32)
            tensors[f"{path}.m"] = m
            adapted = (m / np.linalg.norm(adapted, axis=1))[:, None] * adapted
        merged[f"{path}.weight"] = packed(adapted)
    config = {"fine_tune_type": kind, "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0}, "num_layers": 1, "model": "base"}
    return {"config": config, "weights": base64.b64encode(save(tensors)).decode(), "merged": merged}


def main(plain, tied):
    goldens = {name: {"base": "plain", **by_peft(name, config, plain)} for name, config in KINDS.items()}
    goldens["tied-embedding"] = {"base": "tied", **by_peft("tied-embedding", dict(r=2, lora_alpha=6, target_modules=["embed_tokens"]), tied)}
    layer = "model.layers.0"
    linear = [f"{layer}.self_attn.q_proj", f"{layer}.self_attn.o_proj", f"{layer}.mlp.down_proj"]
    goldens["mlx-lora"] = {"base": "plain", **by_mlx("lora", plain, linear)}
    goldens["mlx-dora"] = {"base": "plain", **by_mlx("dora", plain, linear)}
    goldens["mlx-embedding"] = {"base": "tied", **by_mlx("lora", tied, ["model.embed_tokens", *linear])}
    (HERE / "adapters.json").write_text(json.dumps(goldens, indent=1) + "\n")


main(*sys.argv[1:])
