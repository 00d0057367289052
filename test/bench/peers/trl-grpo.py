"""The peer of `rl-step.bench.js`: one GRPO step of TRL on the same model, batch and lengths. Not run by itself:
`npm run bench -- rl-step --against PYTHON --weights DIR`, DIR as `checkpoints download --step 0 --format merged` writes it.

LoRA rank 8 on all seven projections, float32, prompts of random words cut to the same number of tokens, answers sampled to their full
length at temperature 1, no reference model, one optimizer step. Prints JSON: seconds of the step, by parts as TRL reports them.
"""

import argparse
import json
import random
import tempfile
import time

import torch
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--weights", required=True)
for name, default in (("prompts", 16), ("answers", 8), ("tokens", 270), ("length", 64), ("threads", 2)):
    parser.add_argument(f"--{name}", type=int, default=default)
options = parser.parse_args()
torch.set_num_threads(options.threads)

tokenizer = AutoTokenizer.from_pretrained(options.weights)
model = AutoModelForCausalLM.from_pretrained(options.weights, dtype=torch.float32)
chance = random.Random(1)


def prompt():
    """A prompt of exactly so many tokens, no two alike."""
    ids = [chance.randrange(1000, 40000) for _ in range(3 * options.tokens)]
    kept = tokenizer(tokenizer.decode(ids))["input_ids"][: options.tokens]
    return tokenizer.decode(kept)


batch = options.prompts * options.answers
config = GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=options.answers,
    gradient_accumulation_steps=options.prompts,
    generation_batch_size=batch,
    num_generations=options.answers,
    max_completion_length=options.length,
    generation_kwargs={"min_new_tokens": options.length},
    max_steps=1,
    beta=0.0,
    temperature=1.0,
    learning_rate=1e-5,
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    report_to=[],
    save_strategy="no",
    logging_steps=1,
    disable_tqdm=True,
)
times = {}


class Clock(TrainerCallback):
    """Without what comes before and after the one step."""

    def on_step_begin(self, *args, **kwargs):
        times["began"] = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        times["ended"] = time.perf_counter()


trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=lambda completions, **_: [float(index % 2) for index in range(len(completions))],
    args=config,
    train_dataset=Dataset.from_list([{"prompt": prompt()} for _ in range(options.prompts)]),
    peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear"),
    callbacks=[Clock()],
)
generate = trainer._generate_and_score_completions


def timed(inputs):
    began = time.perf_counter()
    scored = generate(inputs)
    times["sampled"] = times.get("sampled", 0) + time.perf_counter() - began
    times["tokens"] = int(scored["completion_mask"].sum())
    return scored


trainer._generate_and_score_completions = timed
trainer.train()
seconds = times["ended"] - times["began"]
print(json.dumps({"seconds": seconds, "sampled": times["sampled"], "tokens": times["tokens"], "trl": trl.__version__}))
