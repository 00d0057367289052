#!/usr/bin/env python3
"""Makes the goldens of model families: transformers' own classes on tiny random models, in float64.

For each family the logits of one token sequence, of the base model and with a LoRA adapter merged in, the loss (mean cross
entropy of the next token) and its gradient to every adapter tensor. Weights are not stored: both sides make them from the hash
formula of `uniform` (test/support/model/decoder-goldens.ts has the other half). The sequence is longer than the sliding windows.

Run: python test/goldens/make_family_goldens.py [families]   (needs torch and transformers 4.57; 4.45 for those with a rotation that
is stretched by yarn, dynamic or longrope)
Writes families.json beside itself, or those families into it.
"""
import base64
import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
MASK32 = 0xFFFFFFFF
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, ALPHA, LENGTH = 2, 4.0, 21
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=64, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)

FAMILIES = {
    "llama-3.2": dict(model_type="llama", rms_norm_eps=1e-5, rope_theta=20.0, tie_word_embeddings=True, rope_scaling=dict(
        rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)),
    "mistral": dict(model_type="mistral", rms_norm_eps=1e-5, rope_theta=1e4, head_dim=16, sliding_window=None,
                    tie_word_embeddings=False),
    "qwen2": dict(model_type="qwen2", rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True),
    "qwen3": dict(model_type="qwen3", rms_norm_eps=1e-6, rope_theta=1e6, head_dim=16, tie_word_embeddings=True),
    "smollm3": dict(model_type="smollm3", rms_norm_eps=1e-6, rope_theta=5e6, num_hidden_layers=4, no_rope_layer_interval=4,
                    no_rope_layers=[1, 1, 1, 0], tie_word_embeddings=True, pad_token_id=0),
    # 4.45 takes the context for the original one, so both are the same here
    "llama-yarn": dict(model_type="llama", rms_norm_eps=1e-5, rope_theta=20.0, head_dim=16, max_position_embeddings=8,
                       tie_word_embeddings=True,
                       rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=2.0, beta_slow=0.5)),
    "llama-dynamic": dict(model_type="llama", rms_norm_eps=1e-5, rope_theta=1e4, max_position_embeddings=32,
                          tie_word_embeddings=True, rope_scaling=dict(rope_type="dynamic", factor=4.0)),
    # 4.45 takes the long factors for every length, 5 the short ones for these
    "llama-longrope": dict(model_type="llama", rms_norm_eps=1e-5, rope_theta=20.0, max_position_embeddings=256,
                           original_max_position_embeddings=32, tie_word_embeddings=True,
                           rope_scaling=dict(rope_type="longrope", short_factor=[1.0, 1.5, 2.0, 3.0], long_factor=[1.0, 1.5, 2.0, 3.0])),
    "gemma3": dict(model_type="gemma3_text", rms_norm_eps=1e-6, rope_theta=1e6, rope_local_base_freq=1e4, head_dim=16,
                   num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=3, sliding_window=8, query_pre_attn_scalar=20,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                   hidden_activation="gelu_pytorch_tanh"),
}


def fnv1a(text):
    h = 0x811C9DC5
    for byte in text.encode():
        h = ((h ^ byte) * 0x01000193) & MASK32
    return h


def uniform(name, count):
    """count numbers in [-1, 1) on a grid of 2^-23, from the tensor's name."""
    x = (np.arange(count, dtype=np.uint64) + fnv1a(name)) & MASK32
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x7FEB352D)) & MASK32
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x846CA68B)) & MASK32
    x ^= x >> np.uint64(16)
    return (x >> np.uint64(8)).astype(np.float64) / 2**23 - 1


def tensor(name, shape, scale, offset=0.0):
    values = (offset + uniform(name, math.prod(shape)) * scale).astype(np.float32)
    return torch.tensor(values.astype(np.float64)).reshape(shape)


def weight(name, shape, family):
    if len(shape) == 2:
        return tensor(name, shape, 0.3)
    if name.endswith("bias"):
        return tensor(name, shape, 0.1)
    # gemma's norms multiply with 1 + weight
    return tensor(name, shape, 0.2, 0.0 if family == "gemma3" else 1.0)


def pack(values):
    array = values.detach().numpy()
    return {"shape": list(array.shape), "float32": base64.b64encode(array.astype("<f4").tobytes()).decode()}


def golden(family, fields):
    config_fields = {**SIZES, **fields}
    config = AutoConfig.for_model(**config_fields)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).double().eval()
    shapes = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name, tuple(parameter.shape), family))
            shapes[name] = list(parameter.shape)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    tokens = torch.tensor([[int(x) for x in np.floor((uniform("tokens", LENGTH) + 1) / 2 * SIZES["vocab_size"])]])
    base = model(tokens).logits[0]
    leaves, merged = {}, {}
    for layer in range(config.num_hidden_layers):
        for projection in PROJECTIONS:
            block = "mlp" if projection in ("gate_proj", "up_proj", "down_proj") else "self_attn"
            path = f"model.layers.{layer}.{block}.{projection}"
            out, inner = shapes[f"{path}.weight"]
            a = tensor(f"{path}.lora_A", (RANK, inner), 0.3).requires_grad_(True)
            b = tensor(f"{path}.lora_B", (out, RANK), 0.3).requires_grad_(True)
            leaves[f"{path}.lora_A.weight"], leaves[f"{path}.lora_B.weight"] = a, b
            merged[f"{path}.weight"] = model.get_parameter(f"{path}.weight") + ALPHA / RANK * b @ a
    functional_call = getattr(torch, "func", torch.nn.utils.stateless).functional_call
    adapted = functional_call(model, merged, (tokens,)).logits[0]
    loss = torch.nn.functional.cross_entropy(adapted[:-1], tokens[0, 1:])
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    architectures = [type(model).__name__]
    return {
        "config": {**config_fields, "architectures": architectures},
        "shapes": shapes,
        "tokens": tokens[0].tolist(),
        "logits": pack(base),
        "adapter": {"rank": RANK, "alpha": ALPHA},
        "adaptedLogits": pack(adapted),
        "loss": float(loss),
        "gradients": {name: pack(gradient) for name, gradient in zip(leaves, gradients)},
    }


def main():
    path = HERE / "families.json"
    names = sys.argv[1:] or list(FAMILIES)
    made = {family: golden(family, FAMILIES[family]) for family in names}
    out = {**(json.loads(path.read_text()) if len(sys.argv) > 1 else {}), **made}
    path.write_text(json.dumps(out, separators=(",", ":")) + "\n")
    print(transformers.__version__, path.stat().st_size, {f: round(g["loss"], 4) for f, g in out.items()})


main()
