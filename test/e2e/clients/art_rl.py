"""Reinforcement learning with the stock `openpipe-art` client against a Trainyard server.

Usage: art_rl.py BASE_URL API_KEY BASE_MODEL MAX_STEPS. Prints one JSON line with what the client saw. The task: answer small talk
in few words, which every answer does a little better or worse than another, so that every group teaches something. Trains until
a step's own answers are clearly better than the first ones, or MAX_STEPS.
"""

import asyncio
import json
import os
import sys
import tempfile

os.environ.pop("WANDB_API_KEY", None)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.chdir(tempfile.mkdtemp())

import art
from art.serverless.backend import ServerlessBackend

BASE_URL, API_KEY, BASE_MODEL, MAX_STEPS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PROMPTS = ["How are you today?", "Thank you for that.", "Good morning, Spark.", "What can you do?"]
LEARNING_RATE = 4e-3
ENOUGH = 0.3


def reward_of(text: str) -> float:
    """1 for one word, 0.85 of it for every further word, 0 for nothing."""
    count = len(text.split())
    return 0.0 if count == 0 else 0.85 ** (count - 1)


async def rollout(model: art.TrainableModel, prompt: str) -> art.Trajectory:
    client = model.openai_client()
    messages = [{"role": "user", "content": prompt}]
    reply = await client.chat.completions.create(
        model=model.get_inference_name(), messages=messages, max_tokens=32, temperature=1.0
    )
    choice = reply.choices[0]
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=reward_of(choice.message.content or ""))


def mean_reward(trajectories: list[art.Trajectory]) -> float:
    return sum(trajectory.reward for trajectory in trajectories) / len(trajectories)


async def evaluate(model: art.TrainableModel) -> float:
    """Mean over 256 answers. A reward lies in [0, 1], so the standard error is at most 0.03, whatever the model does."""
    return mean_reward(await asyncio.gather(*(rollout(model, PROMPTS[i % len(PROMPTS)]) for i in range(256))))


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    model = art.TrainableModel(name="art-client", project="e2e", base_model=BASE_MODEL)
    await model.register(backend)
    seen = {"entity": model.entity, "first_step": await model.get_step(), "steps": [], "rewards": [], "metrics": []}
    seen["before"] = await evaluate(model)
    for _ in range(MAX_STEPS):
        groups = await art.gather_trajectory_groups(
            (art.TrajectoryGroup(rollout(model, prompt) for _ in range(16)) for prompt in PROMPTS), pbar_desc=None
        )
        seen["rewards"].append(mean_reward([trajectory for group in groups for trajectory in group.trajectories]))
        if seen["rewards"][-1] > seen["before"] + ENOUGH:
            break
        result = await backend.train(model, groups, learning_rate=LEARNING_RATE)
        seen["steps"].append(result.step)
        seen["metrics"].append(result.metrics)
    seen["after"] = await evaluate(model)
    await model.delete_checkpoints()
    seen["inference_name"] = model.get_inference_name()
    await backend.delete(model)
    await backend.close()
    print(json.dumps(seen))


asyncio.run(main())
