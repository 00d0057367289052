"""The curves of `learn.js` in plain PyTorch: same tasks, batches, loss, optimizer and packing, nothing of Trainyard's but the weights.

    node test/bench/learning/learn.js --print-tasks > tasks.json
    python test/bench/learning/pytorch.py --weights src/assets/spark --tasks-file tasks.json --tasks order --methods cispo,sft --seeds 1,2,3

needs torch and transformers; weights of another model: `checkpoints download --step 0 --format merged`. One curve a line, as JSON, for `curves.json`.
"""

import argparse
import json
import math
import random
import re
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

RANK, ALPHA, BETAS, EPS = 8, 16, (0.9, 0.99), 1e-8
# Largest norm of the gradients, weight decay: of reinforcement learning, of examples.
RL, SFT = (0.1, 0.1), (1.0, 0.0)
MAX_TOKENS, SFT_BATCH = 12, 8
# Of the task with tools: longest answer, turns of an episode.
TOOL_TOKENS, TOOL_TURNS = 32, 3
# A start of fewer tokens is counted for each sequence of a step, a longer one that all have in common once.
MIN_SHARED = 64
# Examples before the first job: passes over them, examples to a step.
FIRST_EPOCHS, FIRST_BATCH = 2, 4
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


def reward_of(task, answer, question):
    """Of one turn, or of a second one after the right call, which has earned 0.2 before."""
    if "call" in question:
        return 0.8 if re.findall("[0-9]+", answer) == [question["answer"]] else 0.0
    text, expected = answer.strip(), question["answer"]
    return 1.0 if text == expected else task["partial"] if expected in text else 0.0


@torch.no_grad()
def sample(model, prompts, size, ends, max_tokens=MAX_TOKENS):
    """`size` answers to each prompt at temperature 1 with the raw log-probability of each token: lists of (prompt ids, ids, logps).

    A prompt is computed once; its keys and values are copied for each answer.
    """
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    position = (mask.cumsum(1) - 1).clamp(min=0)
    result = model(input_ids=ids, attention_mask=mask, position_ids=position, use_cache=True, logits_to_keep=1)
    cache = result.past_key_values
    cache.batch_repeat_interleave(size)
    logits, mask, position = (each.repeat_interleave(size, 0) for each in (result.logits[:, -1], mask, position[:, -1:]))
    out = [(prompt, [], []) for prompt in prompts for _ in range(size)]
    going = [True] * len(out)
    for token_number in range(max_tokens):
        if token_number > 0:
            mask = torch.cat([mask, torch.ones(len(out), 1, dtype=mask.dtype)], 1)
            position = position + 1
            result = model(input_ids=drawn, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True)
            logits = result.logits[:, -1]
        logps = torch.log_softmax(logits.float(), -1)
        drawn = torch.multinomial(logps.exp(), 1)
        for row, token in enumerate(drawn[:, 0].tolist()):
            if going[row]:
                out[row][1].append(token)
                out[row][2].append(logps[row, token].item())
                going[row] = token not in ends
        if not any(going):
            break
    return out


def logps_at(model, rows):
    """Log-probabilities of the tokens that stand at the places `at` of each row of ids, one tensor a row."""
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows])
    hidden = model.model(input_ids=ids).last_hidden_state
    out = []
    for row, (_, places) in enumerate(rows):
        at = torch.tensor(places)
        logps = torch.log_softmax(model.lm_head(hidden[row, at - 1]).float(), -1)
        out.append(logps.gather(1, ids[row, at][:, None])[:, 0])
    return out


def rollouts(model, tokenizer, task, questions, size, ends):
    """Per question a list of answers: all ids, those of them that were sampled (`at`), their logps, the reward."""

    def text_of(ids):
        return tokenizer.decode([t for t in ids if t not in ends], skip_special_tokens=True)

    if "tools" in task:
        return episodes(model, tokenizer, task, questions, size, ends)
    groups, called = [[] for _ in questions], []
    answers = sample(model, [chat(tokenizer, question) for question in questions], size, ends)
    for row, (prompt, ids, logps) in enumerate(answers):
        index, at = row // size, range(len(prompt), len(prompt) + len(ids))
        question = questions[index]
        entry = {"ids": prompt + ids, "at": list(at), "logps": logps, "reward": 0.0}
        groups[index].append(entry)
        if "call" not in question:
            entry["reward"] = reward_of(task, text_of(ids), question)
        elif text_of(ids).strip() == question["call"]:
            # What the template writes between the call and the next answer: the end of the turn once, then the result.
            end = [] if ids[-1] in ends else [min(ends)]
            entry["ids"] = entry["ids"] + end + between(tokenizer, question["result"])
            entry["reward"] = 0.2
            called.append((question, entry))
    if called:
        second = sample(model, [entry["ids"] for _, entry in called], 1, ends)
        for (question, entry), (prompt, ids, logps) in zip(called, second):
            entry["at"] = entry["at"] + list(range(len(prompt), len(prompt) + len(ids)))
            entry["ids"], entry["logps"] = prompt + ids, entry["logps"] + logps
            entry["reward"] += reward_of(task, text_of(ids), question)
    return groups


def episodes(model, tokenizer, task, questions, size, ends):
    """As `rollouts`, of the task with tools: calls are answered until an answer has none, which is judged with what was looked up."""
    start = {q["city"]: chat(tokenizer, q, task["tools"]) for q in questions}
    groups = [[{"ids": start[q["city"]], "at": [], "logps": [], "reward": 0.0, "asked": None} for _ in range(size)] for q in questions]
    going = [(q, entry) for q, group in zip(questions, groups) for entry in group]
    for _ in range(TOOL_TURNS):
        if not going:
            break
        answers = sample(model, [entry["ids"] for _, entry in going], 1, ends, TOOL_TOKENS)
        called = []
        for (question, entry), (prompt, ids, logps) in zip(going, answers):
            entry["at"] = entry["at"] + list(range(len(prompt), len(prompt) + len(ids)))
            entry["ids"], entry["logps"] = prompt + ids, entry["logps"] + logps
            text = tokenizer.decode([t for t in ids if t not in ends], skip_special_tokens=True)
            calls = calls_in(text)
            if not calls:
                numbers = re.findall("[0-9]+", text)
                entry["reward"] = 0.2 * (entry["asked"] == question["city"]) + 0.8 * (numbers == [question["answer"]])
                continue
            results = []
            for name, arguments in calls:
                if name != task["tools"][0]["function"]["name"]:
                    results.append(f'error: there is no tool "{name}"')
                elif not isinstance(arguments, dict):
                    results.append("error: the arguments are not a JSON object")
                else:
                    entry["asked"] = arguments.get("city")
                    results.append(question["result"])
            end = [] if ids[-1] in ends else [min(ends)]
            entry["ids"] = entry["ids"] + end + between(tokenizer, *results, role="tool")
            called.append((question, entry))
        going = called
    return groups


def calls_in(text):
    """Calls of tools as the model writes them: name and arguments, null where those are no JSON."""
    calls = []
    for source in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.S):
        try:
            call = json.loads(source)
        except ValueError:
            continue
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            calls.append((call["name"], call.get("arguments", {})))
    return calls


def advantages(groups):
    """Trajectories with their advantage and token weight, as `src/docs/reference/how-training-works.md` sections 2 and 3 define them."""
    kept = []
    for index, group in enumerate(groups):
        rewards = [entry["reward"] for entry in group]
        mean = sum(rewards) / len(rewards)
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
        if max(rewards) - min(rewards) <= 1e-12:
            continue
        for entry in group:
            a = (entry["reward"] - mean) / (std + 1e-6)
            if a != 0:
                kept.append({**entry, "group": index, "a": a, "w": 1 / (len(entry["at"]) + 1e-6)})
    if not kept:
        return []
    tokens = sum(len(t["at"]) for t in kept)
    scale = tokens / sum(t["w"] * len(t["at"]) for t in kept)
    for t in kept:
        t["w"] *= scale
    size = sum(abs(t["a"]) * t["w"] * len(t["at"]) for t in kept) / tokens
    for t in kept:
        t["a"] /= size
    return kept


def common_start(trajectories):
    """Tokens with which all begin, one fewer than what stands before the first trained one."""
    first = trajectories[0]["ids"]
    most = min(t["at"][0] - 1 for t in trajectories)
    return next((i for i in range(most) if any(t["ids"][i] != first[i] for t in trajectories)), most)


def pack(trajectories, capacity, rng):
    """Groups in decreasing length of their longest sequence, each sequence into the step that it fills best; the order of the steps is shuffled."""
    longest, steps = {}, []
    shared = common_start(trajectories) if trajectories else 0
    if shared < MIN_SHARED:
        shared = 0
    capacity -= shared
    for t in trajectories:
        longest[t["group"]] = max(longest.get(t["group"], 0), len(t["ids"]))
    for t in sorted(trajectories, key=lambda t: -longest[t["group"]]):
        length = len(t["ids"]) - shared
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
    total, count = 0.0, 0
    for t, new in zip(step, logps_at(model, [(t["ids"], t["at"]) for t in step])):
        ratio = (new - torch.tensor(t["logps"])).clamp(-30, 30).exp()
        clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
        if loss == "cispo":
            each = -clipped.detach() * t["a"] * new
        else:
            each = -torch.minimum(ratio * t["a"], clipped * t["a"])
        total = total + t["w"] * each.sum()
        count += len(new)
    return total / count


def chat(tokenizer, question, tools=None):
    messages = [{"role": "user", "content": question["prompt"]}]
    return list(tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, return_dict=False))


def between(tokenizer, *results, role="user"):
    """What stands between an answer's end of turn and the answer after `results`: the template with and without them, cut."""
    turns = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "-"}, *({"role": role, "content": r} for r in results)]
    before = tokenizer.apply_chat_template(turns[:2], tokenize=False).rstrip()
    after = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(after[len(before) :], add_special_tokens=False)


def sft_batches(tokenizer, questions, ends, size=SFT_BATCH):
    """A pass over the right answers in order, as all ids and the places that train; the end of a turn is trained with it."""
    end = tokenizer.convert_ids_to_tokens(min(ends))
    rows = []
    for q in questions:
        ids, at = chat(tokenizer, q), []
        for text in [q["call"], q["answer"]] if "call" in q else [q["answer"]]:
            if at:
                ids = ids + between(tokenizer, q["result"])
            answer = tokenizer.encode(text + end, add_special_tokens=False)
            at = at + list(range(len(ids), len(ids) + len(answer)))
            ids = ids + answer
        rows.append((ids, at))
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def sft_loss(model, batch):
    """Cross-entropy summed over the tokens of the answers, divided by their number."""
    logps = torch.cat(logps_at(model, batch))
    return -logps.sum() / len(logps)


def learn(options, task, method, seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer = AutoTokenizer.from_pretrained(options.weights)
    model = AutoModelForCausalLM.from_pretrained(options.weights, dtype=torch.float32).eval()
    parameters = add_lora(model)
    ends = {tokenizer.eos_token_id}

    def stepper(clip, decay):
        """A fresh optimizer, as that of a job of another kind than the one before; its steps."""
        optimizer = torch.optim.AdamW(parameters, lr=options.rate, betas=BETAS, eps=EPS, weight_decay=decay)

        def step(loss):
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()

        return step

    if options.examples > 0:
        show = stepper(*SFT)
        for _ in range(FIRST_EPOCHS):
            for batch in sft_batches(tokenizer, task["training"][: options.examples], ends, FIRST_BATCH):
                show(sft_loss(model, batch))
    take = stepper(*(SFT if method == "sft" else RL))

    def measure(questions):
        groups = rollouts(model, tokenizer, task, questions, task["heldOutSize"], ends)
        rewards = [entry["reward"] for group in groups for entry in group]
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
            take(loss())
            made += 1
        for name, questions in names.items():
            curves[name].append(measure(task[questions]))
        # A run that is cut short has shown what it has measured.
        print(f"seed {seed}:", *(f"{value:.4f}" for value in curves["curve"]), f"({made} steps)", file=sys.stderr, flush=True)
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
    parser.add_argument("--examples", type=int, default=0, help="right answers shown before the first job")
    options = parser.parse_args()
    with open(options.tasks_file) as file:
        tasks = json.load(file)
    for name in options.tasks.split(","):
        for method in options.methods.split(","):
            for seed in map(int, options.seeds.split(",")):
                curves, made = learn(options, tasks[name], method, seed)
                row = {"program": "pytorch", "model": options.model, "task": name, "method": method, "rate": options.rate, "seed": seed}
                if options.examples > 0:
                    row["examples"] = options.examples
                print(json.dumps({**row, "gradientSteps": made, **curves}), flush=True)


if __name__ == "__main__":
    main()
