"""Reinforcement learning with the newest `openpipe-art` client (0.5.23, Python 3.12 or newer) against a Trainyard server.

It records what a program asks for by itself, as `exchanges` of a trajectory: chat completions, completions, responses and Anthropic's
messages, of OpenAI's and Anthropic's own clients. Usage: art_exchanges.py BASE_URL API_KEY BASE_MODEL. Prints one JSON line with what was
recorded and what the client saw of the training on it, by kind; then of a group with all kinds.
"""

import asyncio
import json
import os
import sys
import tempfile
from importlib.metadata import version

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
os.chdir(tempfile.mkdtemp())
os.environ.pop("WANDB_API_KEY", None)
os.environ.update(HOME=os.getcwd(), TMPDIR=os.getcwd(), LITELLM_LOCAL_MODEL_COST_MAP="True")

import anthropic
import art
import openai
from art.serverless.backend import ServerlessBackend

TEXT = "How are you today?"
MESSAGES = [{"role": "user", "content": TEXT}]
# far more than an answer to it has: the client records no stream of a response that was cut off
LIMIT = 256


async def ask(kind: str, name: str, is_streamed: bool) -> None:
    client = openai.AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
    if kind == "chat_completions":
        answer = await client.chat.completions.create(model=name, messages=MESSAGES, max_tokens=LIMIT, stream=is_streamed)
    elif kind == "completions":
        # the ids and log-probabilities of a completion come where they are asked for
        answer = await client.completions.create(
            model=name,
            prompt=TEXT,
            max_tokens=12,
            logprobs=0,
            extra_body={"return_token_ids": True},
            stream=is_streamed,
        )
    elif kind == "responses":
        answer = await client.responses.create(model=name, input=TEXT, max_output_tokens=LIMIT, stream=is_streamed)
    else:
        # the client sees what goes through httpx, which newer majors of anthropic have left
        other = anthropic.AsyncAnthropic(base_url=BASE_URL, api_key=API_KEY)
        answer = await other.messages.create(model=name, messages=MESSAGES, max_tokens=LIMIT, stream=is_streamed)
    if is_streamed:
        async for _ in answer:
            pass


async def record(kind: str, name: str, i: int) -> art.Trajectory:
    with art.Trajectory() as trajectory:
        await ask(kind, name, i % 2 == 1)
    trajectory.reward = float(i)
    return trajectory


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    model = art.TrainableModel(name="exchanges", run_name="exchanges", project="e2e", base_model=BASE_MODEL)
    await model.register(backend)
    kinds = ["chat_completions", "completions", "responses", "messages"]
    seen: dict = {"version": version("openpipe-art")}
    for group_kinds in [*([kind] * 4 for kind in kinds), kinds]:
        name = model.get_inference_name()
        trajectories = [await record(kind, name, i) for i, kind in enumerate(group_kinds)]
        recorded = {kind: sum(len(getattr(each.exchanges, kind)) for each in trajectories) for kind in kinds}
        result = await backend.train(model, [art.TrajectoryGroup(trajectories)], learning_rate=1e-4)
        seen["+".join(dict.fromkeys(group_kinds))] = {
            "recorded": sum(recorded.values()),
            "step": result.step,
            "metrics": result.metrics,
        }
    await backend.close()
    print(json.dumps(seen))


asyncio.run(main())
