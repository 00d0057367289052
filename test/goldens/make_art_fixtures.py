#!/usr/bin/env python3
"""Records what the Python client library posts, and what its trainer computes, as fixtures for the trajectory tests.

Runs the library's own code (PyPI openpipe-art 0.5.18, Apache-2.0): the pydantic types that are dumped into the request, the
group advantages, the packing with its batch scaling, and the loss. Nothing of it is copied. Modules that need a GPU stack are
replaced by empty ones, and chat templating by the token ids given here.

Run: pip download --no-deps openpipe-art==0.5.18 && unzip openpipe_art-*.whl -d art-wheel
     python3 test/goldens/make_art_fixtures.py art-wheel     (needs torch >= 1.13, numpy, pydantic, openai)
Writes client-train-request.json, art-batches.json and art-losses.json into test/fixtures/trajectories.
"""
import json
import math
import pathlib
import random
import sys
import types

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "trajectories"


def import_library(root):
    """The library's modules without its package initialisers."""
    for name, path in [("art", "art"), ("art.utils", "art/utils"), ("art.preprocessing", "art/preprocessing"), ("art.dev", None)]:
        module = types.ModuleType(name)
        module.__path__ = [str(root / path)] if path else []
        sys.modules[name] = module
    sys.modules["art"].dev = sys.modules["art.dev"]
    sys.modules["art.dev"].TrainConfig = dict
    for name, attributes in {
        "PIL": ["Image"],
        "transformers": [],
        "transformers.image_processing_utils": ["BaseImageProcessor"],
        "transformers.tokenization_utils_base": ["BatchEncoding", "PreTrainedTokenizerBase"],
    }.items():
        module = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {"Image": object}))
        sys.modules[name] = module
    from art import loss, trajectories
    from art.preprocessing import pack, tokenize

    return trajectories, tokenize, pack, loss


def client_request(trajectories):
    """A train request with every kind of element, dumped as the client dumps it."""
    from openai.types.chat.chat_completion import Choice

    def choice(ids, prompt, text, tool_call=None):
        message = {"role": "assistant", "content": text}
        if tool_call:
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": tool_call}]
        return Choice.model_validate(
            {
                "finish_reason": "tool_calls" if tool_call else "stop",
                "index": 0,
                "message": message,
                "logprobs": {
                    "content": [{"token": f"token_id:{i}", "logprob": -0.1 * n, "bytes": [97 + n], "top_logprobs": []} for n, i in enumerate(ids)]
                },
                "token_ids": ids,
                "prompt_token_ids": prompt,
            }
        )

    system = {"role": "system", "content": "Use the tool."}
    user = {"role": "user", "content": "Capital of Chad?"}
    tool = {"type": "function", "function": {"name": "look_up", "description": "Finds a fact.", "parameters": {"type": "object", "properties": {}}}}
    called = choice([11, 12, 13], [1, 2, 3, 4], None, {"name": "look_up", "arguments": "{}"})
    answered = choice([21, 22], [1, 2, 3, 4, 11, 12, 13, 5, 6], "N'Djamena")
    groups = [
        trajectories.TrajectoryGroup(
            [
                trajectories.Trajectory(
                    messages_and_choices=[system, user, called, {"role": "tool", "tool_call_id": "call_1", "content": "N'Djamena"}, answered],
                    tools=[tool],
                    additional_histories=[trajectories.History(messages_and_choices=[user, choice([31], [7, 8], "yes")])],
                    reward=1.0,
                    metrics={"solved": True, "turns": 2},
                    metadata={"scenario_id": "chad", "note": None},
                    logs=["started"],
                ),
                trajectories.Trajectory(messages_and_choices=[user, choice([41], [7, 8], "no")], reward=0.0, initial_policy_version=3, final_policy_version=4),
                ValueError("rollout failed"),
            ],
            metrics={"best": 1.0},
            metadata={"scenario_id": "chad"},
        ),
        trajectories.TrajectoryGroup(
            [trajectories.Trajectory(messages_and_choices=[user, {"role": "assistant", "content": "plain"}], reward=r) for r in (0.25, 0.75)]
        ),
    ]
    config = {
        "advantage_balance": 0.0, "epsilon": None, "epsilon_high": None, "importance_sampling_level": "token", "kimi_k2_tau": None,
        "learning_rate": 5e-6, "mask_prob_ratio": False, "max_negative_advantage_importance_sampling_weight": None, "ppo": False,
        "precalculate_logprobs": False, "scale_rewards": True,
    }
    dumped = [group.model_dump(mode="json") for group in groups]
    for group in dumped:
        for exception in group["exceptions"]:
            exception["traceback"] = "(left out)"
    return {"model_id": "00000000-0000-7000-8000-000000000000", "trajectory_groups": dumped, "experimental_config": config}


def batch_case(trajectories, tokenize, pack, rng, scale_rewards, balance):
    """Random groups through the library's advantages and packing; coefficients read back per trajectory."""
    spec, groups, counter = [], [], 0
    for _ in range(rng.randint(1, 4)):
        members, items = [], []
        for _ in range(rng.randint(1, 5)):
            reward = rng.choice([0.0, 1.0, 0.5, round(rng.gauss(0, 2), 3)])
            trajectory = trajectories.Trajectory(reward=reward)
            histories = [(rng.randint(1, 6), rng.randint(1, 9)) for _ in range(rng.choice([1, 1, 2]))]
            trajectory.additional_histories = [trajectories.History(messages_and_choices=[]) for _ in histories[1:]]
            trajectory.metadata = {"histories": json.dumps(histories), "index": counter}
            items.append(trajectory)
            members.append({"reward": reward, "histories": histories, "index": counter})
            counter += 1
        spec.append(members)
        groups.append(trajectories.TrajectoryGroup(items))
    calls = {}

    def tokenize_history(tokenizer, image_processor, history, advantage, allow, trajectory, **_):
        index = trajectory.metadata["index"]
        h = calls.get(index, 0)
        calls[index] = h + 1
        prompt, completion = json.loads(trajectory.metadata["histories"])[h]
        length = prompt + completion
        return tokenize.TokenizedResult(
            advantage=advantage, chat="", token_ids=[1000 + index * 100 + h * 50 + t for t in range(length)], input_pos=list(range(length)),
            assistant_mask=[0] * prompt + [1] * completion, logprobs=[math.nan] * prompt + [-0.5] * completion, pixel_values=None,
            image_grid_thw=None, trajectory=trajectory, choice_offsets=[prompt], extra_logprobs={}, _tokenizer=None,
        )

    tokenize.tokenize_trajectory = tokenize_history
    results = list(tokenize.tokenize_trajectory_groups(None, groups, False, scale_rewards))
    if not results:
        return None
    packed = pack.packed_tensors_from_tokenized_results(results, seq_len=20, pad_token_id=0, truncate_long_results=False, advantage_balance=balance)
    found = {}
    tokens, mask = packed["tokens"].flatten().tolist(), packed["assistant_mask"].flatten().tolist()
    for token, trained, advantage, weight in zip(tokens, mask, packed["advantages"].flatten().tolist(), packed["weights"].flatten().tolist()):
        if trained:
            found[(token - 1000) // 100] = [advantage, weight]
    for members in spec:
        for member in members:
            member["coefficients"] = found.get(member.pop("index"))
    return {"scaleRewards": scale_rewards, "advantageBalance": balance, "groups": spec}


def loss_case(loss, rng, options, has_original):
    """Random rows through the library's loss, in float64."""
    import torch

    count, segments = rng.randint(3, 9), rng.randint(1, 3)
    of = lambda f: [f() for _ in range(count)]
    new, old, reference = (of(lambda: -rng.random() * 3 - 0.01) for _ in range(3))
    original = of(lambda: -rng.random() * 3 - 0.01)
    advantages, weights = of(lambda: rng.gauss(0, 1)), of(lambda: rng.random() + 0.5)
    ids = sorted(rng.randint(1, segments) for _ in range(count))
    row = lambda values, first: torch.tensor([[first, *values]], dtype=torch.float64)
    inputs = {
        "logprobs": row(old, math.nan), "advantages": row(advantages, 0), "weights": row(weights, 0),
        "assistant_mask": torch.tensor([[False] + [True] * count]), "group_ids": torch.tensor([[0, *ids]]),
    }
    if has_original:
        inputs["original_logprobs"] = row(original, math.nan)
    logprobs = torch.tensor([[*new, 0.0]], dtype=torch.float64, requires_grad=True)
    references = torch.tensor([[*reference, 0.0]], dtype=torch.float64)
    result = loss.loss_fn(inputs, logprobs, references, None, dict(options))
    result.policy_loss.backward()
    return {
        "config": options, "logprobs": new, "samplerLogprobs": original if has_original else old,
        "precalculatedLogprobs": old if has_original else None, "referenceLogprobs": reference, "advantages": advantages, "weights": weights,
        "segmentIds": ids, "loss": result.policy_loss.item(), "gradient": logprobs.grad[0, :count].tolist(),
    }


def rounded(value, digits=9):
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return [rounded(item, digits) for item in value] if isinstance(value, (list, tuple)) else value


def write(name, value):
    (OUT / name).write_text(json.dumps(rounded(value), indent=None if name.startswith("art-") else 1) + "\n")


def main():
    trajectories, tokenize, pack, loss = import_library(pathlib.Path(sys.argv[1]))
    rng = random.Random(5)
    write("client-train-request.json", client_request(trajectories))
    batches = []
    while len(batches) < 40:
        case = batch_case(trajectories, tokenize, pack, rng, rng.random() < 0.5, rng.choice([0.0, 0.0, 0.5, -0.3]))
        if case is not None and any(m["coefficients"] for g in case["groups"] for m in g):
            batches.append(case)
    write("art-batches.json", batches)
    losses = []
    for level in ["token", "sequence", "average", "geometric_average"]:
        for extra in [{}, {"ppo": True}, {"ppo": True, "epsilon_high": 0.28}, {"max_negative_advantage_importance_sampling_weight": 1.2},
                      {"kimi_k2_tau": 0.2}, {"kl_penalty_coef": 0.3}, {"ppo": True, "kl_penalty_coef": 0.2, "kimi_k2_tau": 0.1}]:
            losses.append(loss_case(loss, rng, {"importance_sampling_level": level, **extra}, False))
    for options in [{"truncated_importance_sampling": 1.5}, {"truncated_importance_sampling": 2.0, "ppo": True}, {"mask_prob_ratio": True}]:
        losses.append(loss_case(loss, rng, options, "truncated_importance_sampling" in options))
    write("art-losses.json", losses)


if __name__ == "__main__":
    main()
