"""Reinforcement learning with the stock `openpipe-art` client against a Trainyard server.

Usage: art_rl.py BASE_URL API_KEY BASE_MODEL STEPS. Prints one JSON line with what the client saw. The task suits a random
byte-level model: reward is the share of lowercase letters in the answer.
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

BASE_URL, API_KEY, BASE_MODEL, STEPS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PROMPTS = ["Say something.", "Write a word.", "Hello?", "What now?"]


def reward_of(text: str) -> float:
    return sum("a" <= character <= "z" for character in text) / max(1, len(text))


async def rollout(model: art.TrainableModel, prompt: str) -> art.Trajectory:
    client = model.openai_client()
    messages = [{"role": "user", "content": prompt}]
    reply = await client.chat.completions.create(
        model=model.get_inference_name(), messages=messages, max_tokens=16, temperature=1.0
    )
    choice = reply.choices[0]
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=reward_of(choice.message.content or ""))


async def mean_reward(model: art.TrainableModel) -> float:
    """Mean over 512 answers of 16 tokens: its standard error is about 0.004."""
    answers = await asyncio.gather(*(rollout(model, PROMPTS[i % len(PROMPTS)]) for i in range(512)))
    return sum(answer.reward for answer in answers) / len(answers)


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    model = art.TrainableModel(name="art-client", project="e2e", base_model=BASE_MODEL)
    await model.register(backend)
    seen = {"entity": model.entity, "first_step": await model.get_step(), "steps": [], "metrics": []}
    seen["before"] = await mean_reward(model)
    for _ in range(STEPS):
        groups = await art.gather_trajectory_groups(
            (art.TrajectoryGroup(rollout(model, prompt) for _ in range(16)) for prompt in PROMPTS), pbar_desc=None
        )
        result = await backend.train(model, groups, learning_rate=5e-3)
        seen["steps"].append(result.step)
        seen["metrics"].append(result.metrics)
    seen["after"] = await mean_reward(model)
    await model.delete_checkpoints()
    seen["inference_name"] = model.get_inference_name()
    await backend.delete(model)
    await backend.close()
    print(json.dumps(seen))


asyncio.run(main())
