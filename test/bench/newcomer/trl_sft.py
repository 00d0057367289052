"""The examples of `run.js` by TRL's `SFTTrainer` with PEFT: the same rows, passes, rows to a step, rate, adapter and optimizer.

    node test/bench/newcomer/run.js --print-tasks > tasks.json
    python test/bench/newcomer/trl_sft.py --weights src/assets/spark --tasks-file tasks.json --tasks labels,json,remainder --seeds 1,2,3

needs trl, peft and what `../learning/pytorch.py` needs, whose sampling measures held-out answers. A line of JSON for each run: the reward of
held-out prompts before and after, minutes by the clock and of processors, of training and of measuring.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import time

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "learning"))
from pytorch import ALPHA, BETAS, EPS, RANK, SFT, chat, sample  # noqa: E402

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Rows to a step, and the rows below which they are gone through several times, up to so many: as `train sft` has them.
BATCH, ENOUGH, MOST_PASSES = 2, 400, 6
ASKED = 4


def reward_of(task, answer, row):
    if task["reward"] == "exact":
        return float(answer.strip() == row["answer"])
    wanted = json.loads(row["answer"])
    try:
        given = json.loads(answer)
    except ValueError:
        return 0.0
    if not isinstance(given, dict):
        return 0.0
    right = sum(key in given and given[key] == value for key, value in wanted.items())
    return (1.0 if set(given) <= set(wanted) else 0.5) * right / len(wanted)


def measure(model, tokenizer, task):
    model.eval()
    ends = {tokenizer.eos_token_id}
    answers = sample(model, [chat(tokenizer, row) for row in task["heldOut"]], ASKED, ends, task["maxTokens"])
    rewards = []
    for at, (_, ids, _) in enumerate(answers):
        text = tokenizer.decode([t for t in ids if t not in ends], skip_special_tokens=True)
        rewards.append(reward_of(task, text, task["heldOut"][at // ASKED]))
    return sum(rewards) / len(rewards)


def learn(options, task, seed):
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(options.weights, dtype=torch.float32)
    before = measure(model, tokenizer, task)
    clip, decay = SFT
    shown = task["training"][: task["examples"]]
    rows = [
        {
            "prompt": tokenizer.apply_chat_template([{"role": "user", "content": row["prompt"]}], tokenize=False, add_generation_prompt=True),
            "completion": row["answer"] + tokenizer.eos_token,
        }
        for row in shown
    ]
    passes = max(1, min(MOST_PASSES, math.ceil(ENOUGH / len(rows))))
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder, seed=seed, num_train_epochs=passes, per_device_train_batch_size=BATCH, learning_rate=options.rate,
            lr_scheduler_type="constant", adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_epsilon=EPS, weight_decay=decay, max_grad_norm=clip,
            save_strategy="no", report_to=[], logging_strategy="no", bf16=False, use_cpu=True, disable_tqdm=True, gradient_checkpointing=False,
            dataloader_pin_memory=False, max_length=None,
        )
        lora = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=MODULES, task_type="CAUSAL_LM")
        trainer = SFTTrainer(model=model, args=config, processing_class=tokenizer, peft_config=lora, train_dataset=Dataset.from_list(rows))
        trainer.train()
        return before, measure(trainer.model, tokenizer, task), trainer.state.global_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--tasks-file", required=True)
    parser.add_argument("--tasks", default="labels,json,remainder")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()
    with open(options.tasks_file) as file:
        tasks = json.load(file)
    for name in options.tasks.split(","):
        for seed in map(int, options.seeds.split(",")):
            clock, processor = time.perf_counter(), time.process_time()
            before, after, steps = learn(options, tasks[name], seed)
            minutes, busy = (time.perf_counter() - clock) / 60, (time.process_time() - processor) / 60
            row = {"task": name, "program": "trl", "seed": seed, "curve": [before, after], "steps": steps}
            print(json.dumps({**row, "minutes": round(minutes, 2), "processorMinutes": round(busy, 2)}), flush=True)


if __name__ == "__main__":
    main()
