"""Files and fine-tuning with the stock `openai` client: BASE_URL API_KEY BASE_MODEL; one JSON line."""

import io
import json
import sys
import time

import openai

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
seen: dict = {}

row = {"messages": [{"role": "user", "content": "Which word?"}, {"role": "assistant", "content": "Python"}]}
text = (json.dumps(row) + "\n") * 16
file = client.files.create(file=("rows.jsonl", io.BytesIO(text.encode())), purpose="fine-tune")
seen["file"] = [file.filename, file.bytes == len(text), file.purpose, file.status]
seen["content"] = client.files.content(file.id).read().decode() == text
seen["listed"] = file.id in [each.id for each in client.files.list(purpose="fine-tune")]

errors = []
for call in (
    lambda: client.files.retrieve("file-none"),
    lambda: client.files.create(file=b"x", purpose="nonsense"),
    lambda: client.fine_tuning.jobs.create(model="nobody", training_file=file.id),
    lambda: client.fine_tuning.jobs.create(model=BASE_MODEL, training_file="file-none"),
    lambda: client.fine_tuning.jobs.create(model=BASE_MODEL, training_file=file.id, method={"type": "reinforcement"}),
    lambda: client.fine_tuning.jobs.retrieve("ftjob-none"),
    lambda: openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key="x" * 40).files.list(),
):
    try:
        call()
        errors.append("none")
    except openai.APIError as error:
        errors.append(type(error).__name__)
seen["errors"] = errors
raw = client.files.with_raw_response.retrieve(file.id)
seen["raw"] = [raw.status_code, raw.parse().id == file.id, raw.headers.get("x-request-id") is not None]

job = client.fine_tuning.jobs.create(
    model=BASE_MODEL,
    training_file=file.id,
    suffix="py",
    seed=7,
    metadata={"team": "a"},
    method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 4, "learning_rate_multiplier": 4}}},
)
seen["created"] = [job.object, job.status in ("queued", "running"), job.hyperparameters.n_epochs, job.seed]
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.5)
    job = client.fine_tuning.jobs.retrieve(job.id)
seen["ended"] = [job.status, job.trained_tokens is not None and job.trained_tokens > 0, job.finished_at is not None]
events = list(client.fine_tuning.jobs.list_events(job.id, limit=3))
seen["events"] = [events[0].message.startswith("New fine-tuned model"), events[1].type, events[-1].message]
checkpoints = client.fine_tuning.jobs.checkpoints.list(job.id).data
seen["checkpoint"] = checkpoints[0].fine_tuned_model_checkpoint == job.fine_tuned_model
seen["jobs"] = [each.id for each in client.fine_tuning.jobs.list(metadata={"team": "a"})] == [job.id]
seen["others"] = len(list(client.fine_tuning.jobs.list(metadata={"team": "b"})))
reply = client.chat.completions.create(
    model=job.fine_tuned_model, messages=row["messages"][:1], max_tokens=8, temperature=0
)
seen["answer"] = reply.choices[0].message.content
seen["deleted"] = client.files.delete(file.id).deleted
print(json.dumps(seen))
