#!/usr/bin/env python3
"""Makes the goldens that the training numerics are checked against, with PyTorch in float64.

A plain decoder (grouped-query attention, RoPE with llama3 scaling, RMSNorm, SwiGLU, LoRA on seven projections), the SFT
loss, the policy losses of src/docs/reference/how-training-works.md, and torch.optim.AdamW. No model library is used, so
that every formula can be read here. Weights are not stored: both sides make them from the hash formula of `uniform`
(test/support/model/decoder-goldens.ts has the other half).

Run: python3 test/goldens/make_decoder_goldens.py   (needs torch >= 1.13 and numpy; Debian: python3-torch)
Writes decoder-<variant>.json, full-gradients.json, policy-loss.json and adamw.json beside itself; with names of files as arguments
only those.
"""
import base64
import json
import math
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
MASK32 = 0xFFFFFFFF
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, ALPHA = 4, 8.0


# ---- numbers from a formula -------------------------------------------------------------------------------------------


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


def pack(array):
    array = np.asarray(array.detach().numpy() if torch.is_tensor(array) else array)
    return {
        "shape": list(array.shape),
        "float32": base64.b64encode(array.astype("<f4").tobytes()).decode(),
    }


# ---- decoder ----------------------------------------------------------------------------------------------------------


def config(family, **changes):
    base = dict(
        family=family, layerCount=2, hiddenSize=32, headCount=4, kvHeadCount=2, headSize=8, mlpSize=48,
        vocabularySize=50, contextLength=64, normEpsilon=1e-5,
        rotary=dict(theta=10000.0, llama3Scaling=None, linearFactor=1), activation="silu",
        hasQkvBias=False, hasOutputBias=False, hasMlpBias=False, hasQkNorm=False, isEmbeddingTied=True,
    )
    base.update(changes)
    return base


VARIANTS = {
    # theta 20 puts one frequency or more into each branch of the llama3 scaling.
    "llama": config("llama", rotary=dict(theta=20.0, linearFactor=1, llama3Scaling=dict(
        factor=8, lowFrequencyFactor=1, highFrequencyFactor=4, originalContextLength=32))),
    "qwen2": config("qwen2", hasQkvBias=True, normEpsilon=1e-6, rotary=dict(theta=1e6, linearFactor=1, llama3Scaling=None)),
    "qwen3": config("qwen3", hasQkNorm=True, isEmbeddingTied=False, headSize=16, kvHeadCount=1, normEpsilon=1e-6,
                    rotary=dict(theta=1e6, linearFactor=2, llama3Scaling=None)),
    "biased": config("llama", hasQkvBias=True, hasOutputBias=True, hasMlpBias=True, isEmbeddingTied=False, kvHeadCount=4),
}


def projection_shape(c, projection):
    e, f, q, kv = c["hiddenSize"], c["mlpSize"], c["headCount"] * c["headSize"], c["kvHeadCount"] * c["headSize"]
    return {"q_proj": (q, e), "k_proj": (kv, e), "v_proj": (kv, e), "o_proj": (e, q),
            "gate_proj": (f, e), "up_proj": (f, e), "down_proj": (e, f)}[projection]


def module_path(layer, projection):
    block = "mlp" if projection in ("gate_proj", "up_proj", "down_proj") else "self_attn"
    return f"model.layers.{layer}.{block}.{projection}"


def has_bias(c, projection):
    if projection in ("q_proj", "k_proj", "v_proj"):
        return c["hasQkvBias"]
    return c["hasOutputBias"] if projection == "o_proj" else c["hasMlpBias"]


def make_weights(c):
    e, w = c["hiddenSize"], {}
    w["model.embed_tokens.weight"] = tensor("model.embed_tokens.weight", (c["vocabularySize"], e), 0.5)
    if not c["isEmbeddingTied"]:
        w["lm_head.weight"] = tensor("lm_head.weight", (c["vocabularySize"], e), 0.5)
    norms = ["model.norm"]
    for layer in range(c["layerCount"]):
        norms += [f"model.layers.{layer}.input_layernorm", f"model.layers.{layer}.post_attention_layernorm"]
        for projection in PROJECTIONS:
            path, shape = module_path(layer, projection), projection_shape(c, projection)
            w[path + ".weight"] = tensor(path + ".weight", shape, math.sqrt(3 / shape[1]))
            if has_bias(c, projection):
                w[path + ".bias"] = tensor(path + ".bias", (shape[0],), 0.3)
        if c["hasQkNorm"]:
            for name in ("q_norm", "k_norm"):
                path = f"model.layers.{layer}.self_attn.{name}.weight"
                w[path] = tensor(path, (c["headSize"],), 0.2, 1.0)
    for name in norms:
        w[name + ".weight"] = tensor(name + ".weight", (e,), 0.2, 1.0)
    return w


def make_adapter(c):
    adapter = {}
    for layer in range(c["layerCount"]):
        for projection in PROJECTIONS:
            path, (rows, columns) = module_path(layer, projection), projection_shape(c, projection)
            adapter[path + ".lora_A.weight"] = tensor(path + ".lora_A.weight", (RANK, columns), math.sqrt(3 / columns))
            adapter[path + ".lora_B.weight"] = tensor(path + ".lora_B.weight", (rows, RANK), 0.3)
    for value in adapter.values():
        value.requires_grad_(True)
    return adapter


def rotary_frequencies(c):
    """Inverse frequencies; llama3 scaling as in the Llama 3.1 reference code."""
    rotary, d = c["rotary"], c["headSize"]
    inverse = 1.0 / rotary["theta"] ** (torch.arange(0, d, 2, dtype=torch.float64) / d) / rotary["linearFactor"]
    scaling = rotary["llama3Scaling"]
    if scaling is None:
        return inverse
    low = scaling["originalContextLength"] / scaling["lowFrequencyFactor"]
    high = scaling["originalContextLength"] / scaling["highFrequencyFactor"]
    wavelength = 2 * math.pi / inverse
    smooth = (scaling["originalContextLength"] / wavelength - scaling["lowFrequencyFactor"]) / (
        scaling["highFrequencyFactor"] - scaling["lowFrequencyFactor"])
    middle = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
    scaled = torch.where(wavelength > low, inverse / scaling["factor"], middle)
    return torch.where(wavelength < high, inverse, scaled)


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(x, positions, frequencies):
    """x [B,H,T,D]; halves are the pairs, as in Hugging Face."""
    angle = positions[:, None, :, None].double() * frequencies
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def allowed(groups, parents):
    """q sees k if k is not later in the row and group[k] is group[q] or parent[q]."""
    t = groups.shape[1]
    same = (groups[:, None, :] == groups[:, :, None]) | (groups[:, None, :] == parents[:, :, None])
    return same & torch.ones(t, t).tril().bool()[None]


def decode(c, w, adapter, tokens, positions, mask):
    b, t = tokens.shape
    h, k, d, eps = c["headCount"], c["kvHeadCount"], c["headSize"], c["normEpsilon"]
    frequencies = rotary_frequencies(c)

    def linear(x, layer, projection):
        path = module_path(layer, projection)
        y = x @ w[path + ".weight"].T
        if path + ".bias" in w:
            y = y + w[path + ".bias"]
        return y + ALPHA / RANK * (x @ adapter[path + ".lora_A.weight"].T) @ adapter[path + ".lora_B.weight"].T

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(c["layerCount"]):
        prefix = f"model.layers.{layer}."
        n = rms_norm(x, w[prefix + "input_layernorm.weight"], eps)
        q = linear(n, layer, "q_proj").view(b, t, h, d).transpose(1, 2)
        key = linear(n, layer, "k_proj").view(b, t, k, d).transpose(1, 2)
        value = linear(n, layer, "v_proj").view(b, t, k, d).transpose(1, 2)
        if c["hasQkNorm"]:
            q = rms_norm(q, w[prefix + "self_attn.q_norm.weight"], eps)
            key = rms_norm(key, w[prefix + "self_attn.k_norm.weight"], eps)
        q, key = rotate(q, positions, frequencies), rotate(key, positions, frequencies)
        key, value = key.repeat_interleave(h // k, 1), value.repeat_interleave(h // k, 1)
        scores = (q @ key.transpose(-1, -2) / math.sqrt(d)).masked_fill(~mask[:, None], -math.inf)
        attended = (scores.softmax(-1) @ value).transpose(1, 2).reshape(b, t, h * d)
        x = x + linear(attended, layer, "o_proj")
        n = rms_norm(x, w[prefix + "post_attention_layernorm.weight"], eps)
        gate = linear(n, layer, "gate_proj")
        x = x + linear(gate * gate.sigmoid() * linear(n, layer, "up_proj"), layer, "down_proj")
    x = rms_norm(x, w["model.norm.weight"], eps)
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


# ---- losses -----------------------------------------------------------------------------------------------------------


def policy_loss(logp, old, advantage, weight, segments, options, sampler=None, reference=None):
    """One row, all tokens trainable (formulas: src/docs/reference/how-training-works.md).

    Per-token lists of the trainable tokens; NaN in `old` means the current policy. Returns loss.
    """
    fixed = logp.detach()
    old = torch.where(old.isnan(), fixed, old)
    d, rho_token = logp - old, (logp - old).exp()
    sequence = torch.stack([d[segments == s].mean() for s in segments]).exp()
    level = options.get("importance_sampling_level", "token")
    rho = {"token": rho_token, "sequence": sequence, "average": (rho_token + sequence) / 2,
           "geometric_average": (rho_token * sequence).sqrt()}[level]
    ppo = options.get("ppo", False)
    epsilon = options.get("epsilon", 0.2 if ppo else 1.0)
    epsilon_high = options.get("epsilon_high", epsilon if ppo else 4.0)
    low, high = 1 - epsilon, 1 + epsilon_high
    cap = options.get("max_negative_advantage_importance_sampling_weight")
    if cap:
        rho = rho.clamp(max=cap)
    keep = torch.ones_like(fixed)
    if options.get("mask_prob_ratio"):
        keep = ((rho > low) & (rho < high)).double().detach()
    if options.get("kimi_k2_tau"):
        advantage = advantage - options["kimi_k2_tau"] * d.detach()
    if options.get("kl_penalty_coef"):
        source = old if options.get("kl_penalty_source") == "sample" else fixed
        kl = source - reference
        advantage = advantage + options["kl_penalty_coef"] * (kl.mean() - kl)
    if ppo:
        loss = -torch.minimum(rho * advantage, rho.clamp(low, high) * advantage)
    else:
        loss = -rho.clamp(low, high).detach() * advantage * logp
    loss = loss * keep
    limit = options.get("truncated_importance_sampling")
    if limit:
        drift = torch.where(sampler.isnan(), torch.zeros_like(old), old - sampler)
        loss = loss * drift.exp().clamp(max=limit)
    return (loss * weight).sum() / len(fixed)


POLICY_CASES = {
    "cispo": {},
    "cispo_tight": {"epsilon": 0.2, "epsilon_high": 0.28},
    "ppo": {"ppo": True},
    "ppo_clip_higher": {"ppo": True, "epsilon_high": 0.28},
    "sequence": {"importance_sampling_level": "sequence"},
    "sequence_ppo": {"importance_sampling_level": "sequence", "ppo": True},
    "average_ppo": {"importance_sampling_level": "average", "ppo": True},
    "geometric_average_ppo": {"importance_sampling_level": "geometric_average", "ppo": True},
    "cap": {"max_negative_advantage_importance_sampling_weight": 1.1},
    "cap_ppo": {"max_negative_advantage_importance_sampling_weight": 1.1, "ppo": True, "epsilon": 0.5},
    "mask": {"mask_prob_ratio": True, "epsilon": 0.2, "epsilon_high": 0.3},
    "mask_ppo": {"mask_prob_ratio": True, "ppo": True},
    "tau": {"kimi_k2_tau": 0.3},
    "kl_current": {"kl_penalty_coef": 0.5},
    "kl_sample": {"kl_penalty_coef": 0.5, "kl_penalty_source": "sample", "ppo": True},
    "tis": {"truncated_importance_sampling": 1.2},
    "everything": {"truncated_importance_sampling": 1.2, "kl_penalty_coef": 0.2, "kimi_k2_tau": 0.1, "ppo": True,
                   "mask_prob_ratio": True, "importance_sampling_level": "average", "epsilon": 0.4,
                   "max_negative_advantage_importance_sampling_weight": 1.5},
}


def policy_goldens():
    segments = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2])
    n = len(segments)
    logp = tensor("policy/logp", (n,), 1.0, -1.5)
    # Offsets avoid ties at the clip borders, where the gradient is a convention.
    old = (logp + tensor("policy/drift", (n,), 0.9, 0.05)).detach()
    old[5] = math.nan
    sampler = old + tensor("policy/mismatch", (n,), 0.4)
    sampler[2] = math.nan
    reference = logp + tensor("policy/reference", (n,), 0.6)
    advantage = torch.tensor([1.2] * 4 + [-0.7] * 3 + [0.4] * 5, dtype=torch.float64)
    weight = torch.tensor([1.0] * 4 + [4 / 3] * 3 + [0.8] * 5, dtype=torch.float64)
    cases = {}
    for name, options in POLICY_CASES.items():
        x = logp.clone().requires_grad_(True)
        loss = policy_loss(x, old, advantage, weight, segments, options, sampler, reference)
        loss.backward()
        cases[name] = {"options": options, "loss": loss.item(), "gradient": x.grad.tolist()}

    def with_null(values):
        return [None if math.isnan(v) else v for v in values.tolist()]

    write("policy-loss.json", {
        "logp": logp.tolist(), "old": with_null(old), "sampler": with_null(sampler), "reference": reference.tolist(),
        "advantage": advantage.tolist(), "weight": weight.tolist(), "segments": segments.tolist(), "cases": cases})


# ---- rows -------------------------------------------------------------------------------------------------------------


def rows(c):
    """Two packed rows of 14 tokens. Row 0: one prompt of 5 shared by two completions. Row 1: one sequence, then padding.

    The last prompt token is private to each completion, because it predicts the completion's first token.
    """
    t, v = 14, c["vocabularySize"]
    tokens = torch.tensor(((uniform("rows/tokens", 2 * t) + 1) / 2 * v).astype(np.int64)).reshape(2, t)
    groups = torch.tensor([[0] * 4 + [1] * 5 + [2] * 5, [3] * 11 + [-1] * 3])
    parents = torch.tensor([[0] * 4 + [0] * 10, [3] * 11 + [-1] * 3])
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8], [*range(11), 0, 0, 0]])
    mask = torch.tensor([[0] * 5 + [1] * 4 + [0] + [1] * 4, [0] * 3 + [1, 1, 0, 0, 1, 1, 1, 1] + [0] * 3])
    return tokens, groups, parents, positions, mask


def decoder_goldens(name, c):
    w, adapter = make_weights(c), make_adapter(c)
    tokens, groups, parents, positions, mask = rows(c)
    logits = decode(c, w, adapter, tokens, positions, allowed(groups, parents))
    # Position t predicts token t + 1 of the same row; the mask belongs to the predicted token.
    where = [(r, i) for r in range(2) for i in range(tokens.shape[1] - 1) if mask[r, i + 1] == 1]
    flat = torch.tensor([r * tokens.shape[1] + i for r, i in where])
    labels = torch.tensor([tokens[r, i + 1].item() for r, i in where])
    segments = torch.tensor([groups[r, i + 1].item() for r, i in where])
    table = logits.reshape(-1, c["vocabularySize"])[flat].log_softmax(-1)
    logp = table.gather(1, labels[:, None])[:, 0]
    entropy = -(table.exp() * table).sum(-1)

    old = (logp + tensor("rows/drift", (len(where),), 0.5)).detach()
    advantage = torch.tensor([{1: 0.9, 2: -1.1, 3: 0.6}[s.item()] for s in segments], dtype=torch.float64)
    weight = torch.tensor([{1: 1.25, 2: 1.25, 3: 0.8}[s.item()] for s in segments], dtype=torch.float64)

    losses = {"sft": -logp.sum() / len(where)}
    for case in ("cispo", "sequence_ppo"):
        losses[case] = policy_loss(logp, old, advantage, weight, segments, POLICY_CASES[case])
    golden = {
        "config": c, "adapter": {"rank": RANK, "alpha": ALPHA},
        "tokens": tokens.tolist(), "groups": groups.tolist(), "parents": parents.tolist(),
        "positions": positions.tolist(), "mask": mask.tolist(),
        "labelPositions": flat.tolist(), "labels": labels.tolist(), "segments": segments.tolist(),
        "old": pack(old), "advantage": advantage.tolist(), "weight": weight.tolist(),
        "logits": pack(logits), "logp": pack(logp), "entropy": pack(entropy), "losses": {},
    }
    # All gradients of a case lie in one array, in the order of the sorted names: one line instead of 56.
    names = sorted(adapter)
    golden["gradientNames"] = names
    for case, loss in losses.items():
        gradients = torch.autograd.grad(loss, [adapter[n] for n in names], retain_graph=True)
        golden["losses"][case] = {
            "options": POLICY_CASES.get(case, {}), "loss": loss.item(),
            "gradients": pack(torch.cat([g.reshape(-1) for g in gradients]))}
    write(f"decoder-{name}.json", golden)


def full_gradient_goldens():
    """Gradients of every weight, no adapter, of a weighted cross-entropy over the packed rows. Of each gradient: its norm, its
    products with two tensors of the formula, and eight elements at places of the formula."""
    goldens = {}
    for variant, c in VARIANTS.items():
        w = {n: t.requires_grad_(True) for n, t in make_weights(c).items()}
        adapter = {n: torch.zeros_like(t) for n, t in make_adapter(c).items()}
        tokens, groups, parents, positions, mask = rows(c)
        logp = decode(c, w, adapter, tokens, positions, allowed(groups, parents)).log_softmax(-1)
        loss = 0
        for r in range(2):
            for i in range(1, tokens.shape[1]):
                if mask[r, i] == 1 and i % 5 != 2:
                    loss = loss - (0.5 + i % 4) * logp[r, i - 1, tokens[r, i]] / 9
        loss.backward()
        gradients = {}
        for n, t in w.items():
            flat = t.grad.reshape(-1)
            places = ((uniform(n + "/places", 8) + 1) / 2 * len(flat)).astype(np.int64)
            gradients[n] = {
                "norm": flat.norm().item(),
                "products": [(flat * tensor(f"{n}/product/{k}", flat.shape, 1.0)).sum().item() for k in range(2)],
                "elements": flat[torch.tensor(places)].tolist()}
        goldens[variant] = {"loss": loss.item(), "gradients": gradients}
    write("full-gradients.json", goldens)


# ---- optimizer --------------------------------------------------------------------------------------------------------


def adamw_goldens():
    """Six steps of torch.optim.AdamW on float32 with clip_grad_norm_, weight decay and a changing learning rate."""
    shapes, steps = {"a": (3, 5), "b": (7,)}, []
    parameters = {n: torch.nn.Parameter(tensor(f"adamw/{n}", s, 1.0).float()) for n, s in shapes.items()}
    optimizer = torch.optim.AdamW(parameters.values(), betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    for step in range(6):
        rate, clip = 0.01 / (step + 1), 1.5
        for n, p in parameters.items():
            p.grad = tensor(f"adamw/{n}/gradient/{step}", shapes[n], 0.2 if step % 2 else 2.0).float()
        norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        steps.append({
            "learningRate": rate, "clip": clip, "norm": norm.item(),
            "parameters": {n: pack(p.data.clone()) for n, p in parameters.items()},
            "m": {n: pack(optimizer.state[p]["exp_avg"].clone()) for n, p in parameters.items()},
            "v": {n: pack(optimizer.state[p]["exp_avg_sq"].clone()) for n, p in parameters.items()}})
    write("adamw.json", {"betas": [0.9, 0.99], "epsilon": 1e-8, "weightDecay": 0.1,
                         "shapes": {n: list(s) for n, s in shapes.items()}, "steps": steps})


def write(file, value):
    if len(sys.argv) > 1 and file not in sys.argv[1:]:
        return
    (HERE / file).write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    for variant, settings in VARIANTS.items():
        decoder_goldens(variant, settings)
    full_gradient_goldens()
    policy_goldens()
    adamw_goldens()
