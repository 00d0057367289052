"""The curves of `learn.js` in plain PyTorch: same tasks, batches, loss, optimizer and packing, nothing of Trainyard's but the weights.

    node test/bench/learning/learn.js --print-tasks > tasks.json
    python test/bench/learning/pytorch.py --weights src/assets/spark --tasks-file tasks.json --tasks order --methods cispo,sft --seeds 1,2,3

needs torch and transformers; weights of another model: `checkpoints download --step 0 --format merged`. One curve a line, as JSON, for `curves.json`. Tasks of one turn only.
"""

import argparse
import json
import math
import random

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

RANK, ALPHA, BETAS, EPS = 8, 16, (0.9, 0.99), 1e-8
# Largest norm of the gradients, weight decay: of reinforcement learning, of examples.
RL, SFT = (0.1, 0.1), (1.0, 0.0)
MAX_TOKENS, SFT_BATCH = 12, 8
CLIPS = {"cispo": (1.0, 4.0), "ppo": (0.2, 0.2)}


class Lora(torch.nn.Module):
    """y = x W^T + (alpha / rank) (x A^T) B^T; A uniform in +-1/sqrt(in), B zero."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        bound = 1 / math.sqrt(base.in_features)
        self.a = torch.nn.Parameter(torch.empty(RANK, base.in_features).uniform_(-bound, bound))
        self.b = torch.nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, x):
        return self.base(x) + (ALPHA / RANK) * (x @ self.a.T) @ self.b.T


def add_lora(model):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer in model.model.layers:
        for parent, names in ((layer.self_attn, "qkvo"), (layer.mlp, ("gate", "up", "down"))):
            for name in names:
                setattr(parent, f"{name}_proj", Lora(getattr(parent, f"{name}_proj")))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def reward_of(task, answer, expected):
    text = answer.strip()
    return 1.0 if text == expected else task["partial"] if expected in text else 0.0


@torch.no_grad()
def sample(model, tokenizer, prompts, ends):
    """Answers at temperature 1 with the raw log-probability of each token; one entry per prompt: (prompt ids, ids, logps)."""
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    position = (mask.cumsum(1) - 1).clamp(min=0)
    out = [([], []) for _ in prompts]
    going = [True] * len(prompts)
    cache, step_ids, step_position = None, ids, position
    for _ in range(MAX_TOKENS):
        result = model(input_ids=step_ids, attention_mask=mask, position_ids=step_position, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        logps = torch.log_softmax(result.logits[:, -1].float(), -1)
        drawn = torch.multinomial(logps.exp(), 1)
        for row, token in enumerate(drawn[:, 0].tolist()):
            if going[row]:
                out[row][0].append(token)
                out[row][1].append(logps[row, token].item())
                going[row] = token not in ends
        if not any(going):
            break
        step_ids, step_position = drawn, step_position[:, -1:] + 1
        mask = torch.cat([mask, torch.ones(len(prompts), 1, dtype=mask.dtype)], 1)
    return [(prompt, *answer) for prompt, answer in zip(prompts, out)]


def rollouts(model, tokenizer, task, questions, size, ends):
    """Per question a list of (prompt, ids, logps, reward)."""
    prompts = [chat(tokenizer, question) for question in questions]
    answers = sample(model, tokenizer, [prompt for prompt in prompts for _ in range(size)], ends)
    groups = []
    for i, question in enumerate(questions):
        group = []
        for prompt, ids, logps in answers[i * size : (i + 1) * size]:
            text = tokenizer.decode([t for t in ids if t not in ends], skip_special_tokens=True)
            group.append((prompt, ids, logps, reward_of(task, text, question["answer"])))
        groups.append(group)
    return groups


def advantages(groups):
    """Trajectories with their advantage and token weight, as `src/docs/how-training-works.md` sections 2 and 3 define them."""
    kept = []
    for index, group in enumerate(groups):
        rewards = [entry[3] for entry in group]
        mean = sum(rewards) / len(rewards)
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
        if max(rewards) - min(rewards) <= 1e-12:
            continue
        for (prompt, ids, logps, reward) in group:
            a = (reward - mean) / (std + 1e-6)
            if a != 0:
                kept.append({"group": index, "prompt": prompt, "ids": ids, "logps": logps, "a": a, "w": 1 / (len(ids) + 1e-6)})
    if not kept:
        return []
    tokens = sum(len(t["ids"]) for t in kept)
    scale = tokens / sum(t["w"] * len(t["ids"]) for t in kept)
    for t in kept:
        t["w"] *= scale
    size = sum(abs(t["a"]) * t["w"] * len(t["ids"]) for t in kept) / tokens
    for t in kept:
        t["a"] /= size
    return kept


def pack(trajectories, capacity, rng):
    """Groups in decreasing length of their longest sequence, each sequence into the step that it fills best; the order of the steps is shuffled."""
    longest, steps = {}, []
    for t in trajectories:
        longest[t["group"]] = max(longest.get(t["group"], 0), len(t["prompt"]) + len(t["ids"]))
    for t in sorted(trajectories, key=lambda t: -longest[t["group"]]):
        length = len(t["prompt"]) + len(t["ids"])
        fitting = [s for s in steps if s[0] + length <= capacity]
        best = max(fitting, key=lambda s: s[0]) if fitting else None
        if best is None:
            steps.append([length, [t]])
        else:
            best[0] += length
            best[1].append(t)
    rng.shuffle(steps)
    return [s[1] for s in steps]


def loss_of(model, step, loss):
    """Sum over trained tokens of weight times the policy loss, divided by their number."""
    epsilon, epsilon_high = CLIPS[loss]
    longest = max(len(t["prompt"]) + len(t["ids"]) for t in step)
    ids = torch.tensor([t["prompt"] + t["ids"] + [0] * (longest - len(t["prompt"]) - len(t["ids"])) for t in step])
    logps = torch.log_softmax(model(input_ids=ids).logits.float(), -1)
    total, count = 0.0, 0
    for row, t in enumerate(step):
        start = len(t["prompt"])
        answer = torch.tensor(t["ids"])
        new = logps[row, start - 1 : start - 1 + len(answer)].gather(1, answer[:, None])[:, 0]
        ratio = (new - torch.tensor(t["logps"])).clamp(-30, 30).exp()
        clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
        if loss == "cispo":
            each = -clipped.detach() * t["a"] * new
        else:
            each = -torch.minimum(ratio * t["a"], clipped * t["a"])
        total = total + t["w"] * each.sum()
        count += len(answer)
    return total / count


def chat(tokenizer, question):
    messages = [{"role": "user", "content": question["prompt"]}]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def sft_batches(tokenizer, questions, ends):
    """A pass over the right answers in order; the end of the turn is trained with them."""
    end = tokenizer.convert_ids_to_tokens(min(ends))
    rows = [(chat(tokenizer, q), tokenizer.encode(q["answer"] + end, add_special_tokens=False)) for q in questions]
    return [rows[i : i + SFT_BATCH] for i in range(0, len(rows), SFT_BATCH)]


def sft_loss(model, batch):
    """Cross-entropy summed over the tokens of the answers, divided by their number."""
    longest = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.tensor([p + a + [0] * (longest - len(p) - len(a)) for p, a in batch])
    logps = torch.log_softmax(model(input_ids=ids).logits.float(), -1)
    total, count = 0.0, 0
    for row, (prompt, answer) in enumerate(batch):
        at = logps[row, len(prompt) - 1 : len(prompt) - 1 + len(answer)]
        total = total - at.gather(1, torch.tensor(answer)[:, None]).sum()
        count += len(answer)
    return total / count


def learn(options, task, method, seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    model = AutoModelForCausalLM.from_pretrained(options.weights, dtype=torch.float32).eval()
    parameters = add_lora(model)
    clip, decay = SFT if method == "sft" else RL
    optimizer = torch.optim.AdamW(parameters, lr=options.rate, betas=BETAS, eps=EPS, weight_decay=decay)
    ends = {tokenizer.eos_token_id}

    def measure(questions):
        groups = rollouts(model, tokenizer, task, questions, task["heldOutSize"], ends)
        rewards = [entry[3] for group in groups for entry in group]
        return sum(rewards) / len(rewards)

    def losses(job):
        """The losses of a job, each made when the step before it is taken."""
        training = task["training"]
        if method == "sft":
            return (lambda b=b: sft_loss(model, b) for b in sft_batches(tokenizer, training, ends))
        batch = [training[(job * task["perStep"] + i) % len(training)] for i in range(task["perStep"])]
        groups = rollouts(model, tokenizer, task, batch, task["size"], ends)
        steps = pack(advantages(groups), options.tokens_per_step, rng)
        return (lambda s=s: loss_of(model, s, method) for s in steps)

    names = {"curve": "heldOut", **({"trained": "training"} if method == "sft" else {})}
    curves, made = {name: [measure(task[questions])] for name, questions in names.items()}, 0
    for job in range(options.jobs):
        for loss in losses(job):
            optimizer.zero_grad()
            loss().backward()
            torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
            made += 1
        for name, questions in names.items():
            curves[name].append(measure(task[questions]))
    return curves, made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--model", default="trainyard/spark", help="name of the weights in the answer")
    parser.add_argument("--tasks-file", required=True)
    parser.add_argument("--tasks", default="order")
    parser.add_argument("--methods", default="cispo")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--tokens-per-step", type=int, default=384)
    options = parser.parse_args()
    with open(options.tasks_file) as file:
        tasks = json.load(file)
    for name in options.tasks.split(","):
        for method in options.methods.split(","):
            for seed in map(int, options.seeds.split(",")):
                curves, made = learn(options, tasks[name], method, seed)
                row = {"program": "pytorch", "model": options.model, "task": name, "method": method, "rate": options.rate, "seed": seed}
                print(json.dumps({**row, "gradientSteps": made, **curves}), flush=True)


if __name__ == "__main__":
    main()
