"""Environments of verifiers (0.4.x, MIT) over lines of JSON: {id, op: describe|tasks|run|cancel, ...} -> {id, ok, ...}, in any order.

One process holds one environment, and plays as many episodes at once as are asked for. The environment asks the model itself, at the
address that `run` gives, with its trace's id in X-Session-ID. What packages print goes to stderr: stdout is for answers.
"""

import asyncio
import json
import os
import sys

ANSWERS = sys.stdout
sys.stdout = sys.stderr
# what an address asks for stands in it
KEY = "TRAINYARD_ROLLOUT_KEY"
os.environ.setdefault(KEY, "unused")


class Held:
    """The environment, and its tasks as far as they were read."""

    def __init__(self):
        self.env = None
        self.tasks = []
        self.source = None
        self.serving = None
        self.opening = asyncio.Lock()

    async def open(self, request):
        async with self.opening:
            if self.env is not None:
                return
            from verifiers.v1.utils.loaders import load_environment, resolve_env_config

            settings = dict(request["settings"])
            block = {"taskset": {**settings, "id": request["name"]}}
            config = resolve_env_config(block)
            for seat in agents_of(config):
                # every program runs beside this process: nothing is rented
                seat.runtime = local_runtime(seat)
                if request.get("max_turns"):
                    seat.max_turns = request["max_turns"]
            env = load_environment(config)
            self.serving = env.serving()
            await self.serving.__aenter__()
            self.env = env
            self.source = iter(env.taskset)

    def read(self, count):
        """Reads tasks up to so many; fewer where there are no more."""
        while len(self.tasks) < count:
            task = next(self.source, None)
            if task is None:
                break
            self.tasks.append(task)
        return self.tasks[:count]


def agents_of(config):
    from verifiers.v1.configs.agent import agent_config_fields

    return list(agent_config_fields(config).values())


def local_runtime(seat):
    from pydantic import TypeAdapter

    annotation = type(seat).model_fields["runtime"].annotation
    return TypeAdapter(annotation).validate_python({"type": "subprocess"})


held = Held()


async def describe(request):
    from importlib.metadata import version

    await held.open(request)
    taskset = held.env.taskset
    # endless ones are said to be; of the others the number is what reading them gives, up to a bound
    tasks = len(held.read(request["most"])) if taskset.bounded else None
    return {"version": version("verifiers"), "tasks": tasks, "seats": len(agents_of(held.env.config))}


async def tasks(request):
    await held.open(request)
    first, count = request["from"], request["count"]
    found = held.read(first + count)[first:]
    return {"tasks": [facts_of(task, first + i) for i, task in enumerate(found)]}


def facts_of(task, place):
    from verifiers.v1.task import task_key

    data = task.data.model_dump(mode="json")
    # its place says nothing of what it asks
    data.pop("idx", None)
    return {"place": place, "key": str(task_key(data)), "name": data.get("name"), "prompt": data.get("prompt")}


async def run(request):
    from verifiers.v1.clients import EvalClientConfig, ModelContext
    from verifiers.v1.env import RunSlot
    from verifiers.v1.types import SamplingConfig

    await held.open(request)
    place = request["place"]
    found = held.read(place + 1)
    if place >= len(found):
        raise ValueError(f"there is no task {place}")
    client = EvalClientConfig(base_url=request["base_url"], api_key_var=KEY)
    context = ModelContext(request["model"], client, SamplingConfig(**request["sampling"]))
    episode = await held.env.run_slot(RunSlot(found[place]), context)
    return {"traces": [trace_of(trace) for trace in episode.traces], "errors": errors_of(episode)}


def trace_of(trace):
    rewards = {
        name: None if reward is None else {"score": number(reward.score), "weight": number(reward.weight)}
        for name, reward in trace.rewards.items()
    }
    return {
        "id": trace.id,
        "ok": trace.ok,
        "rewards": rewards,
        "metrics": {name: number(value) for name, value in trace.metrics.items() if value is not None},
        "errors": errors_of(trace),
        "stop_condition": trace.stop_condition,
        "is_timeout": trace.is_timeout,
    }


def errors_of(owner):
    return [{"type": error.type, "message": str(error.message)[:4000]} for error in owner.errors]


def number(value):
    value = float(value)
    # JSON has no words for what is not finite
    return value if value == value and abs(value) != float("inf") else str(value)


async def cancel(request):
    playing = episodes.get(request["episode"])
    if playing is not None:
        playing.cancel()
    return {}


OPERATIONS = {"describe": describe, "tasks": tasks, "run": run, "cancel": cancel}
# by the names that `run` gave them
episodes = {}


async def answer(request):
    name = request.get("episode") if request["op"] == "run" else None
    if name is not None:
        episodes[name] = asyncio.current_task()
    try:
        said = {"ok": True, **await OPERATIONS[request["op"]](request)}
    except Exception as error:  # whatever an environment does wrong is told, and the next one asked
        said = {"ok": False, "error": f"{type(error).__name__}: {error}"[:8000]}
    except asyncio.CancelledError:
        said = {"ok": False, "error": "cancelled"}
    finally:
        episodes.pop(name, None)
    ANSWERS.write(json.dumps({"id": request["id"], **said}) + "\n")
    ANSWERS.flush()


async def main():
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while True:
        line = await reader.readline()
        if not line:
            break
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)
    for task in running:
        task.cancel()
    if held.serving is not None:
        await held.serving.__aexit__(None, None, None)


asyncio.run(main())
