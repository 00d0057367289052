"""The preference curves of `learn.js` by TRL's `DPOTrainer` with PEFT: same pairs in the same order, same adapter, same optimizer.

    node test/bench/learning/learn.js --print-tasks > tasks.json
    python test/bench/learning/preferences.py --weights src/assets/spark --tasks-file tasks.json --tasks order --seeds 1,2,3

needs trl, peft and what `pytorch.py` needs, whose sampling measures the rewards here. One entry a line, as JSON, for `curves.js`.
"""

import argparse
import json
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from pytorch import ALPHA, BETAS, EPS, RANK, SFT, SFT_BATCH, rollouts
from torch.utils.data import SequentialSampler
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class InOrder(DPOTrainer):
    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset if dataset is not None else self.train_dataset)


class AfterEpoch(TrainerCallback):
    def __init__(self, measure):
        self.measure = measure

    def on_epoch_end(self, *_, **__):
        self.measure()


def pairs(questions, tokenizer):
    """Rendered prompts and answers: of conversations TRL also scores what the template writes after the end of the turn."""

    def prompt(text):
        return tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)

    rows = [q for q in questions if q["answer"] != q["wrong"]]
    return Dataset.from_list([{"prompt": prompt(q["prompt"]), "chosen": q["answer"], "rejected": q["wrong"]} for q in rows])


def learn(options, task, seed):
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(options.weights, dtype=torch.float32)
    clip, decay = SFT
    with tempfile.TemporaryDirectory() as folder:
        config = DPOConfig(
            output_dir=folder, seed=seed, num_train_epochs=options.jobs, per_device_train_batch_size=SFT_BATCH, per_device_eval_batch_size=SFT_BATCH,
            learning_rate=options.rate, lr_scheduler_type="constant", adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_epsilon=EPS, weight_decay=decay,
            max_grad_norm=clip, beta=0.1, save_strategy="no", report_to=[], logging_strategy="no", bf16=False, use_cpu=True, disable_tqdm=True,
            gradient_checkpointing=False, dataloader_pin_memory=False, disable_dropout=True,
        )
        lora = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=MODULES, task_type="CAUSAL_LM")
        trainer = InOrder(
            model=model, args=config, processing_class=tokenizer, peft_config=lora,
            train_dataset=pairs(task["training"], tokenizer), eval_dataset=pairs(task["heldOut"], tokenizer),
        )
        curves = {"curve": [], "trained": [], "accuracy": [], "margin": []}

        def measure():
            was_training = trainer.model.training
            trainer.model.eval()
            for name, questions in (("curve", "heldOut"), ("trained", "training")):
                groups = rollouts(trainer.model, tokenizer, task, task[questions], task["heldOutSize"], {tokenizer.eos_token_id})
                rewards = [entry[3] for group in groups for entry in group]
                curves[name].append(sum(rewards) / len(rewards))
            metrics = trainer.evaluate()
            curves["accuracy"].append(metrics["eval_rewards/accuracies"])
            curves["margin"].append(metrics["eval_rewards/margins"])
            trainer.model.train(was_training)

        measure()
        trainer.add_callback(AfterEpoch(measure))
        trainer.train()
        return curves, trainer.state.global_step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--model", default="trainyard/spark", help="name of the weights in the answer")
    parser.add_argument("--tasks-file", required=True)
    parser.add_argument("--tasks", default="order")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()
    with open(options.tasks_file) as file:
        tasks = json.load(file)
    for name in options.tasks.split(","):
        for seed in map(int, options.seeds.split(",")):
            curves, made = learn(options, tasks[name], seed)
            row = {"program": "trl", "model": options.model, "task": name, "method": "dpo", "rate": options.rate, "seed": seed}
            print(json.dumps({**row, "gradientSteps": made, **curves}), flush=True)


if __name__ == "__main__":
    main()
