"""Checkpoints to S3 and forks from there with the stock `openpipe-art`, its `aws` program and an S3 server on this machine.

Usage: art_s3.py BASE_URL API_KEY BASE_MODEL, with `aws` on the PATH and AWS_ENDPOINT_URL set. Prints one JSON line with what was seen.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
os.chdir(tempfile.mkdtemp())
# the client keeps copies of what it pulls below the temporary directory: no other run's
tempfile.tempdir = os.getcwd()
os.environ.update(
    WANDB_BASE_URL=BASE_URL,
    WANDB_API_KEY=API_KEY,
    WANDB_ERROR_REPORTING="false",
    WANDB_SILENT="true",
    HOME=os.getcwd(),
    LITELLM_LOCAL_MODEL_COST_MAP="True",
)

import art
from art.serverless.backend import ServerlessBackend

QUESTION, ANSWER = "What is the word of the day?", "Trainyard"
STORED = {"s3_bucket": "checkpoints", "prefix": "team/a"}


async def ask(model: art.TrainableModel) -> str:
    reply = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(),
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=12,
        temperature=0,
    )
    return reply.choices[0].message.content or ""


def dialogue() -> art.Trajectory:
    return art.Trajectory(
        messages_and_choices=[{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}], reward=0.0
    )


def digests(folder: str) -> dict[str, str]:
    return {
        os.path.relpath(os.path.join(place, name), folder): hashlib.sha256(
            open(os.path.join(place, name), "rb").read()
        ).hexdigest()
        for place, _, names in os.walk(folder)
        for name in names
    }


async def fork(backend: ServerlessBackend, name: str, **options: object) -> list[object]:
    model = art.TrainableModel(name=name, project="e2e", base_model=BASE_MODEL)
    await model.register(backend)
    await backend._experimental_fork_checkpoint(
        model, from_model="source", from_s3_bucket=STORED["s3_bucket"], prefix=STORED["prefix"], **options
    )
    pulled = await backend._experimental_pull_model_checkpoint(model, local_path=os.path.join(os.getcwd(), name))
    return [await model.get_step(), await ask(model), digests(pulled)]


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    source = art.TrainableModel(name="source", project="e2e", base_model=BASE_MODEL)
    await source.register(backend)
    seen: dict = {"before": await ask(source)}
    await source.train_sft([dialogue() for _ in range(32)], art.TrainSFTConfig(learning_rate=4e-3, batch_size=2))
    await source.train_sft([dialogue() for _ in range(2)], art.TrainSFTConfig(learning_rate=1e-4, batch_size=2))

    await backend._experimental_push_to_s3(source, **STORED)
    subprocess.run(["aws", "s3", "sync", "s3://checkpoints", "stored"], check=True, stdout=subprocess.DEVNULL)
    seen["stored"] = digests("stored")
    seen["served"] = {}
    for step in (1, 2):
        folder = await backend._experimental_pull_model_checkpoint(source, step=step, local_path=f"{os.getcwd()}/{step}")
        seen["served"][f"team/a/e2e/models/source/checkpoints/{step:04d}"] = digests(folder)
    # from here on only S3 has them
    await backend.delete(source)

    seen["fork"] = await fork(backend, "fork")
    seen["fork_of_step"] = await fork(backend, "fork-of-step", not_after_step=1)
    try:
        await fork(backend, "fork-of-none", not_after_step=0)
    except ValueError as error:
        seen["none"] = str(error)
    await backend.close()
    print(json.dumps(seen))


asyncio.run(main())
