"""Rollouts of an environment of verifiers 0.4 by its own training client: arguments base URL, model, folder of the tokenizer, rollouts a task.

Prints a JSON object: of each trace its id, errors and sampled turns with ids and log-probabilities.
"""

import asyncio
import json
import os
import sys

from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.env import RunSlot
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

BASE_URL, MODEL, TOKENIZER, COUNT = sys.argv[1:5]
os.environ.setdefault("ROLLOUT_KEY", "unused")


def turns_of(trace):
    return [
        {
            "token_ids": [token for token, mask in zip(node.token_ids, node.mask) if mask],
            "logprobs": [float(logprob) for logprob in node.logprobs],
        }
        for node in trace.nodes
        if node.sampled
    ]


async def main():
    config = resolve_env_config({"taskset": {"id": "echo-v1", "phrases": ["hello world"]}, "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}, "max_turns": 2}})
    env = load_environment(config)
    client = TrainClientConfig(base_url=BASE_URL, api_key_var="ROLLOUT_KEY", renderer_model_name=TOKENIZER)
    context = ModelContext(MODEL, client, SamplingConfig(max_tokens=16))
    async with env.serving():
        tasks = [task for task in env.taskset.load() for _ in range(int(COUNT))]
        episodes = await asyncio.gather(*(env.run_slot(RunSlot(task), context) for task in tasks))
    traces = [trace for episode in episodes for trace in episode.traces]
    print(json.dumps([
        {"id": trace.id, "errors": [f"{error.type}: {error.message}"[:500] for error in trace.errors], "turns": turns_of(trace)}
        for trace in traces
    ]))


asyncio.run(main())
