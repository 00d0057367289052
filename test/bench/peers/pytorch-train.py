"""The peer of `train.bench.js`: the same training step in PyTorch and PEFT. Not run by itself: `npm run bench -- train --against PYTHON`.

LoRA rank 8 on all seven projections of SmolLM2-135M's shape, AdamW, gradients clipped at 1, random weights, every token trained. With
bf16 the frozen weights are bfloat16 and the step runs under autocast, which is what PyTorch is fastest at on a CPU. Prints JSON:
tokens per second of the best and of the mean step, and the peak resident memory.
"""

import json
import resource
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

rows, length, steps, dtype, threads = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
torch.set_num_threads(threads)
torch.manual_seed(1)
is_bf16 = dtype == "bf16"
config = LlamaConfig(
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    vocab_size=49152,
    rms_norm_eps=1e-5,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    use_cache=False,
)
model = LlamaForCausalLM(config)
if is_bf16:
    model = model.to(torch.bfloat16)
targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules=targets))
model.train()
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
for parameter in trained:
    parameter.data = parameter.data.float()
optimizer = torch.optim.AdamW(trained, lr=1e-4)
times = []
for step in range(steps + 1):
    ids = torch.randint(0, config.vocab_size, (rows, length))
    began = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step > 0:  # the first one packs weights and takes memory
        times.append(time.perf_counter() - began)
tokens = rows * length
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"best": tokens / min(times), "mean": tokens * len(times) / sum(times), "peakBytes": peak, "torch": torch.__version__}))
