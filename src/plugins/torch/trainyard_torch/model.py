"""A base model by transformers' architecture with the weights that Trainyard prepared, and what is computed with it.

The architecture comes from a configuration, the weights from the prepared float32 file, mapped: in float32 on the processor all
processes share its pages, and whatever file a model came in (GGUF too), it trains.
"""

import copy
import functools
import math
import os

import torch
from torch.utils.checkpoint import checkpoint

from .layers import LabelLogp, Rotary, RotaryByLayer, wrap_linear_layers

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# positions whose logits exist at once: 50 MB for a vocabulary of 49,152, and what keeps a graphics card busy
CHUNKS = {"cpu": 256, "cuda": 2048, "mps": 512}


class UnsupportedModel(Exception):
    """The installed transformers cannot build this model."""


class Model:
    """An opened base model: `forward`, then `backward` if its gradient is wanted."""

    def __init__(self, message, frequencies, device):
        self.device, self.dtype = device, DTYPES[message["dtype"]]
        self._window, self._layer_types = message["sliding_window"], message["layer_types"]
        self._causal = build(message["config"])
        factor = message["rotary_factor"]
        self._rotaries = {kind: Rotary(values, factor) for kind, values in frequencies.items()}
        replace_rotary(self._causal.model, self._rotaries)
        weights = map_weights(message["weights_file"])
        for listed in message["tensors"]:
            self._place(weights, listed)
        if "embedding_scale" in message and hasattr(self._causal.model.embed_tokens, "embed_scale"):
            scale = torch.tensor(message["embedding_scale"], dtype=self.dtype, device=device)
            self._causal.model.embed_tokens.embed_scale = scale
        self._head = (self._causal.lm_head if message["has_head"] else self._causal.model.embed_tokens).weight
        for name, tensor in [*self._causal.model.named_parameters(), *self._causal.model.named_buffers()]:
            if tensor.is_meta:
                raise UnsupportedModel(f"the tensor {name} of {type(self._causal).__name__} has no values")
        self._causal.eval()
        self._layers = wrap_linear_layers(self._causal, message["modules"])
        self._plain = {layer: layer.forward for layer in self._causal.model.layers}
        self._outputs, self._leaves = None, {}

    def forward(self, message, arrays):
        """Log-probabilities and entropies of the labels, [N] each. Keeps what `backward` needs if the message wants a gradient."""
        self.drop()
        wants_gradient = message["wants_gradient"]
        self._recompute(wants_gradient and message["is_recomputed"])
        leaves = self._set_adapter(arrays, message["scales"], wants_gradient)
        tensor = lambda name: torch.from_numpy(arrays[name])
        if message["dropout"] is not None:
            self._set_dropout(message["dropout"], tensor)
        tokens, positions = tensor("tokens"), tensor("positions")
        for rotary in self._rotaries.values():
            rotary.prepare(positions, self.device, self.dtype)
        masks = self._masks(tensor("groups"), tensor("parents"), positions)
        with torch.set_grad_enabled(wants_gradient):
            hidden = self._causal.model(
                input_ids=tokens.to(self.device),
                position_ids=positions.to(self.device),
                attention_mask=masks,
                use_cache=False,
            )[0]
            rows = hidden.reshape(-1, hidden.shape[-1])[tensor("label_positions").flatten().to(self.device)]
            labels = tensor("labels").flatten().to(self.device)
            chunk, heat = CHUNKS[self.device], tensor("inverse_temperature").flatten().to(self.device)
            kept = None
            if "kept_ids" in arrays:
                kept = tensor("kept_ids").flatten(0, 1).to(self.device), tensor("is_limited").flatten().to(self.device)
            logp, entropy = LabelLogp.apply(rows, self._head, labels, chunk, message["reads_entropy"], heat, kept)
        if wants_gradient:
            self._outputs, self._leaves = {"logp_gradient": logp, "entropy_gradient": entropy}, leaves
        return {"logp": to_array(logp), "entropy": to_array(entropy)}

    def backward(self, arrays):
        """The gradient of each adapter tensor by its name, from d loss / d logp [N] and, where the loss reads it, d loss / d entropy [N]."""
        if self._outputs is None:
            raise RuntimeError("a gradient was asked for before its log-probabilities")
        slopes = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        outputs = [self._outputs[name] for name in slopes]
        # layers that are computed again read the adapter where the forward pass did
        gradients = torch.autograd.grad(outputs, list(self._leaves.values()), list(slopes.values()))
        result = {name: to_array(gradient) for name, gradient in zip(self._leaves, gradients)}
        self.drop()
        return result

    def drop(self):
        """Gives up what a forward pass kept."""
        self._outputs, self._leaves = None, {}
        for layer in self._layers.values():
            layer.a = layer.b = layer.dropout = None

    def _set_adapter(self, arrays, scales, wants_gradient):
        """scales: by the path of each adapted layer; the others stay plain."""
        leaves = {}
        for path, scale in scales.items():
            layer = self._layers[path]
            names = f"{path}.lora_A.weight", f"{path}.lora_B.weight"
            layer.a, layer.b = (
                torch.from_numpy(arrays[name]).to(self.device).requires_grad_(wants_gradient) for name in names
            )
            layer.scale = scale
            leaves[names[0]], leaves[names[1]] = layer.a, layer.b
        return leaves

    def _set_dropout(self, dropout, tensor):
        for path, names in dropout["sites"].items():
            rows, columns = (tensor(name).to(self.device) for name in names)
            self._layers[path].dropout = rows, columns, dropout["share"]

    def _recompute(self, is_wanted):
        for layer, plain in self._plain.items():
            layer.forward = functools.partial(checkpoint, plain, use_reentrant=False) if is_wanted else plain

    def _masks(self, groups, parents, positions):
        """What each token adds to its scores, [B, 1, T, T]: 0 for the earlier tokens of its segment and its parent, else the least number.

        In the form transformers takes: one for all layers, or one for each kind of layer.
        """
        groups, parents, positions = (each.to(self.device) for each in (groups, parents, positions))
        length = groups.shape[1]
        sees = (groups[:, :, None] == groups[:, None, :]) | (parents[:, :, None] == groups[:, None, :])
        sees &= torch.ones(length, length, dtype=torch.bool, device=self.device).tril()

        def bias(seen):
            nothing = torch.zeros((), dtype=self.dtype, device=self.device)
            return torch.where(seen, nothing, torch.full_like(nothing, torch.finfo(self.dtype).min))[:, None]

        kinds = set(self._layer_types)
        full = bias(sees)
        if "sliding_attention" not in kinds:
            return full
        near = positions[:, :, None] - positions[:, None, :] < self._window
        sliding = bias(sees & near)
        return sliding if len(kinds) == 1 else {"full_attention": full, "sliding_attention": sliding}

    def _place(self, weights, listed):
        """One tensor of the file as a parameter. `listed`: its name, offset in elements, shape, and what is subtracted from it."""
        shape, offset = listed["shape"], listed["offset"]
        values = weights[offset : offset + math.prod(shape)].view(shape)
        if listed["subtract"] != 0:
            values = values - listed["subtract"]
        parent, _, name = listed["name"].rpartition(".")
        holder = self._causal.get_submodule(parent)
        expected = tuple(getattr(holder, name).shape)
        if expected != tuple(shape):
            raise UnsupportedModel(f"{listed['name']} is {shape}, transformers expects {list(expected)}")
        placed = values.to(self.device, self.dtype)
        setattr(holder, name, torch.nn.Parameter(placed, requires_grad=False))


def build(config):
    """The architecture of a configuration, without weights where torch has tensors of that kind (2.0 and later)."""
    import transformers

    known = copy.deepcopy(config)
    try:
        described = transformers.AutoConfig.for_model(known.pop("model_type"), **known)
    except (ValueError, KeyError):
        raise UnsupportedModel(
            f"transformers {transformers.__version__} has no architecture {config['model_type']}: install a later one"
        ) from None
    attention = "sdpa" if hasattr(torch.nn.functional, "scaled_dot_product_attention") else "eager"
    make = functools.partial(transformers.AutoModelForCausalLM.from_config, described, attn_implementation=attention)
    if attention == "eager":
        return make()
    with torch.device("meta"):
        return make()


def replace_rotary(decoder, rotaries):
    """Every rotation of the model becomes one of ours."""
    full = rotaries["full"]
    sliding = rotaries.get("sliding", full)
    for _, module in decoder.named_modules():
        if hasattr(module, "rotary_emb"):
            module.rotary_emb = full
    if hasattr(decoder, "rotary_emb_local"):  # Gemma 3 before transformers 5
        decoder.rotary_emb_local = sliding
    elif sliding is not full:
        decoder.rotary_emb = RotaryByLayer(full, sliding)


def map_weights(path):
    """The whole file as float32, mapped and not read; nothing is ever written to it."""
    return torch.from_file(path, shared=False, size=os.path.getsize(path) // 4, dtype=torch.float32)


def to_array(tensor):
    return tensor.detach().float().cpu().numpy()
