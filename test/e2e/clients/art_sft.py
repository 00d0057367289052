"""Supervised fine-tuning, checkpoint pull and fork, and metrics with the stock `openpipe-art` and `wandb` clients.

Usage: art_sft.py BASE_URL API_KEY BASE_MODEL. Prints one JSON line with what the clients saw.
"""

import asyncio
import json
import os
import sys
import tempfile

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
os.chdir(tempfile.mkdtemp())
# WANDB_BASE_URL is all a user needs to set; the rest keeps the client's own files and error reports on this machine.
os.environ.update(
    WANDB_BASE_URL=BASE_URL,
    WANDB_API_KEY=API_KEY,
    WANDB_ERROR_REPORTING="false",
    WANDB_SILENT="true",
    HOME=os.getcwd(),
    LITELLM_LOCAL_MODEL_COST_MAP="True",
)

import art
import wandb
from art.serverless.backend import ServerlessBackend

QUESTION, ANSWER = "What is the word of the day?", "Trainyard"


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


async def main() -> None:
    backend = ServerlessBackend(api_key=API_KEY, base_url=f"{BASE_URL}/v1")
    model = art.TrainableModel(name="student", project="e2e", base_model=BASE_MODEL)
    await model.register(backend)
    seen: dict = {"before": await ask(model)}

    await model.train_sft([dialogue() for _ in range(32)], art.TrainSFTConfig(learning_rate=4e-3, batch_size=2))
    seen["step"] = await model.get_step()
    seen["after"] = await ask(model)
    await model.log(metrics={"accuracy": 0.75}, split="val", step=seen["step"])
    wandb.finish()

    folder = await backend._experimental_pull_model_checkpoint(model, local_path=os.path.join(os.getcwd(), "pulled"))
    seen["pulled"] = sorted(os.listdir(folder))

    fork = art.TrainableModel(name="fork", project="e2e", base_model=BASE_MODEL)
    await fork.register(backend)
    await backend._experimental_fork_checkpoint(fork, from_model="student")
    seen["fork_step"] = await fork.get_step()
    seen["fork_after"] = await ask(fork)
    await fork.train_sft([dialogue() for _ in range(4)], art.TrainSFTConfig(learning_rate=1e-4, batch_size=2))
    seen["fork_next_step"] = await fork.get_step()

    run = wandb.Api().run("local/e2e/student")
    seen["summary"] = run.summary.get("val/accuracy")
    seen["history"] = [row.get("val/accuracy") for row in run.history(pandas=False)]
    artifact = wandb.Api().artifact("local/e2e/student:latest", type="lora")
    seen["provenance"] = artifact.metadata.get("wandb.provenance")
    wandb.finish()
    await backend.close()
    print(json.dumps(seen))


asyncio.run(main())
