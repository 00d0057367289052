"""A reinforcement job with the stock `openai` client, as its guides have it: BASE_URL API_KEY BASE_MODEL; one JSON line."""

import io
import json
import sys
import time

import openai

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
seen: dict = {}

grader = {
    "type": "string_check",
    "name": "right",
    "operation": "like",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
}
graders = client.fine_tuning.alpha.graders
seen["validated"] = graders.validate(grader=grader).grader.type == "string_check"
seen["graded"] = graders.run(grader=grader, item={"answer": "4"}, model_sample="it is 4").reward

near = {
    "type": "text_similarity",
    "name": "near",
    "evaluation_metric": "fuzzy_match",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
}
mail = "Hello, where is order {}? Regards, Tom. Which number is the order?"
rows = [{"messages": [{"role": "user", "content": mail.format(n)}], "answer": str(n)} for n in range(20, 28)]
text = "".join(json.dumps(row) + "\n" for row in rows)
file = client.files.create(file=("rows.jsonl", io.BytesIO(text.encode())), purpose="fine-tune")


def create(wanted: dict):
    return client.fine_tuning.jobs.create(
        model=BASE_MODEL,
        training_file=file.id,
        validation_file=file.id,
        suffix="py",
        metadata={"client": openai.__version__},
        method={
            "type": "reinforcement",
            "reinforcement": {
                "grader": wanted,
                "hyperparameters": {"batch_size": 4, "n_epochs": 1, "reasoning_effort": "default"},
            },
        },
    )


refused = []
for wanted in ({"type": "python", "source": "x", "name": "x"}, {**grader, "reference": "{{item.gone}}"}):
    try:
        create(wanted)
    except (openai.BadRequestError, openai.PermissionDeniedError) as error:
        refused.append(error.param)
seen["refused"] = refused

job = create(near)
seen["created"] = [job.object, job.method.type, job.method.reinforcement.hyperparameters.batch_size]


def wait_for(*statuses: str):
    while True:
        now = client.fine_tuning.jobs.retrieve(job.id)
        if now.status in statuses or now.finished_at is not None:
            return now
        time.sleep(0.2)


client.fine_tuning.jobs.pause(job.id)
seen["paused"] = wait_for("paused").status == "paused"
seen["resumed"] = client.fine_tuning.jobs.resume(job.id).status in ("queued", "running")
job = wait_for("succeeded")
seen["ended"] = [job.status, job.fine_tuned_model is not None]
events = list(client.fine_tuning.jobs.list_events(job.id, limit=4))
steps = [event.data["step"] for event in events if event.type == "metrics" and "train_mean_reward" in event.data]
seen["metrics"] = steps == [2, 1]
checkpoints = client.fine_tuning.jobs.checkpoints.list(job.id).data
seen["checkpoint"] = checkpoints[0].fine_tuned_model_checkpoint == job.fine_tuned_model
seen["result"] = client.files.content(job.result_files[0]).read().decode().split("\n")[0]
seen["listed"] = [each.id for each in client.fine_tuning.jobs.list(metadata={"client": openai.__version__})] == [job.id]
reply = client.chat.completions.create(model=job.fine_tuned_model, messages=rows[0]["messages"], max_tokens=8)
seen["answer"] = len(reply.choices) == 1
print(json.dumps(seen))
