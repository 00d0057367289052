"""Tasks and scores of reasoning-gym over lines of JSON: {id, op: describe|tasks|score} -> {id, ok, ...}.

What the package prints goes to stderr: stdout is for answers. Ends when stdin does.
"""

import json
import sys
from collections import OrderedDict

ANSWERS = sys.stdout
sys.stdout = sys.stderr

# tasks that are kept for their scores; others are made again of their seeds
KEPT = 20_000
entries: "OrderedDict[str, tuple]" = OrderedDict()


def make(dataset, settings, seed):
    import reasoning_gym

    key = json.dumps([dataset, settings, seed], sort_keys=True)
    if key not in entries:
        # of any generator an item follows from its seed alone
        made = reasoning_gym.create_dataset(dataset, **{**settings, "seed": seed, "size": 1})
        entries[key] = (made, made[0])
        if len(entries) > KEPT:
            entries.popitem(last=False)
    return entries[key]


def describe(request):
    from importlib.metadata import version

    from reasoning_gym.factory import DATASETS

    name = request["dataset"]
    if name not in DATASETS:
        import difflib

        near = difflib.get_close_matches(name, DATASETS, n=3)
        meant = f": did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f'there is no task "{name}" among {len(DATASETS)}{meant}')
    made, _ = make(name, request["settings"], 0)
    config = {key: value for key, value in vars(made.config).items() if key not in ("seed", "size")}
    return {"version": version("reasoning-gym"), "config": json.loads(json.dumps(config, default=str))}


def tasks(request):
    found = [make(request["dataset"], request["settings"], seed)[1] for seed in request["seeds"]]
    return {
        "tasks": [
            {
                "question": entry["question"],
                "answer": None if entry["answer"] is None else str(entry["answer"]),
                "metadata": json.loads(json.dumps(entry.get("metadata", {}), default=str)),
            }
            for entry in found
        ]
    }


def score(request):
    made, entry = make(request["dataset"], request["settings"], request["seed"])
    reward = float(made.score_answer(answer=request["answer"], entry=entry))
    # JSON has no words for what is not finite
    return {"reward": reward if reward == reward and abs(reward) != float("inf") else str(reward)}


OPERATIONS = {"describe": describe, "tasks": tasks, "score": score}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"ok": True, **OPERATIONS[request["op"]](request)}
    except Exception as error:  # whatever a task does wrong is told, and the next one asked
        answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    ANSWERS.write(json.dumps({"id": request["id"], **answer}) + "\n")
    ANSWERS.flush()
