"""Calls of the stock `openpipe-art` client that its training loops do not make, and its client's retries and exceptions.

Usage: art_calls.py BASE_URL API_KEY BASE_MODEL. Prints one JSON line with what the client saw.
"""

import asyncio
import json
import os
import sys
import tempfile

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
os.chdir(tempfile.mkdtemp())
os.environ.update(
    WANDB_BASE_URL=BASE_URL,
    WANDB_API_KEY=API_KEY,
    WANDB_ERROR_REPORTING="false",
    WANDB_SILENT="true",
    HOME=os.getcwd(),
    TMPDIR=os.getcwd(),
    LITELLM_LOCAL_MODEL_COST_MAP="True",
)

import art
import openai
import wandb
from art.serverless.backend import ServerlessBackend

SEEN: dict = {}


async def answer(model: art.TrainableModel, step: int | None = None) -> art.Trajectory:
    messages = [{"role": "user", "content": "How are you?"}]
    client = model.openai_client().with_options(timeout=600)
    reply = await client.chat.completions.create(
        model=model.get_inference_name(step), messages=messages, max_tokens=8, logprobs=True
    )
    return art.Trajectory(messages_and_choices=[*messages, reply.choices[0]], reward=0.0, metrics={"turns": 1})


async def groups_of(model: art.TrainableModel) -> list[art.TrajectoryGroup]:
    groups = await art.gather_trajectory_groups([art.TrajectoryGroup(answer(model) for _ in range(4))], pbar_desc=None)
    for group in groups:
        for i, trajectory in enumerate(group.trajectories):
            trajectory.reward = float(i)
    return groups


async def refused(call) -> list:
    try:
        await call
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]
    return []


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    client = backend._client
    model = art.TrainableModel(name="rest", project="e2e", base_model=BASE_MODEL)
    await model.register(backend)

    # every setting of the loss, in two jobs; the rewards of a group are never all the same
    for options in (
        {"learning_rate": 1e-4, "ppo": True, "epsilon": 0.2, "epsilon_high": 0.3, "advantage_balance": 0.25},
        {
            "scale_rewards": False,
            "importance_sampling_level": "sequence",
            "max_negative_advantage_importance_sampling_weight": 2.0,
            "mask_prob_ratio": True,
            "kimi_k2_tau": 0.5,
            "precalculate_logprobs": True,
        },
    ):
        result = await backend.train(model, await groups_of(model), **options)
        SEEN.setdefault("artifacts", []).append(result.artifact_name)
    # without a backend's help: the job itself, and its events a page at a time
    config = {"importance_sampling_level": "geometric_average"}
    job = await client.training_jobs.create(
        model_id=model.id, trajectory_groups=await groups_of(model), experimental_config=config
    )
    events: list = []
    while not events or events[-1].type not in ("training_ended", "training_failed"):
        await asyncio.sleep(0.2)
        after = events[-1].id if events else openai.NOT_GIVEN
        events += [
            event async for event in client.training_jobs.events.list(training_job_id=job.id, after=after, limit=1)
        ]
    SEEN["events"] = [event.type for event in events]

    SEEN["steps"] = [
        checkpoint.step async for checkpoint in client.models.checkpoints.list(model_id=model.id, limit=2, order="asc")
    ]
    SEEN["old_step_answers"] = len((await answer(model, step=1)).messages_and_choices)
    SEEN["litellm"] = model.litellm_completion_params(step=2)["model"]

    # evaluation: what is logged goes to the client's run, and to the model's log by the client itself
    model.update_wandb_config({"note": "kept"})
    await model.log(await groups_of(model), split="val", metrics={"extra": 2.0})
    await client.models.log(model_id=model.id, trajectory_groups=await groups_of(model), split="val")
    model._get_wandb_run().finish()
    run = wandb.Api().run("local/e2e/rest")
    SEEN["summary"] = [run.summary.get("val/reward"), run.summary.get("val/extra"), run.config.get("note")]

    SEEN["pulled"] = []
    for step in (1, "latest"):
        folder = await backend._experimental_pull_model_checkpoint(model, step=step)
        SEEN["pulled"].append([os.path.basename(folder), sorted(os.listdir(folder))])
    fork = art.TrainableModel(name="fork-of-rest", project="other", base_model=BASE_MODEL)
    await fork.register(backend)
    await backend._experimental_fork_checkpoint(fork, from_model="rest", from_project="e2e", not_after_step=2)
    SEEN["fork_step"] = await fork.get_step()

    deleted = await client.models.checkpoints.delete(model_id=model.id, steps=[1])
    SEEN["deleted"] = deleted.deleted_count
    SEEN["pull_of_deleted"] = ""
    try:
        await backend._experimental_pull_model_checkpoint(model, step=1)
    except wandb.errors.CommError as error:
        SEEN["pull_of_deleted"] = type(error).__name__

    SEEN["refused"] = [
        await refused(client.models.create(project="e2e", name="x", base_model="nobody/nothing")),
        await refused(client.models.create(project="e2e", name="rest", base_model=BASE_MODEL)),
        await refused(client.models.delete(model_id="00000000-0000-7000-8000-000000000000")),
        await refused(client.training_jobs.create(model_id=model.id, trajectory_groups=[])),
        await refused(client.sft_training_jobs.create(model_id=model.id, training_data_url="http://127.0.0.1:9/x")),
        await refused(ServerlessBackend(api_key="no", base_url=f"{BASE_URL}/v1")._client.models.delete(model_id="x")),
    ]
    await backend.delete(model)
    SEEN["gone"] = await refused(model.get_step())
    await backend.close()
    print(json.dumps(SEEN))


asyncio.run(main())
