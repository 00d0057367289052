"""Uploads, batches and evals with the stock `openai` client: BASE_URL API_KEY BASE_MODEL; one JSON line."""

import io
import json
import sys
import time

import openai

BASE_URL, API_KEY, BASE_MODEL = sys.argv[1], sys.argv[2], sys.argv[3]
client = openai.OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
seen: dict = {}


def until_ended(read, statuses):
    while True:
        now = read()
        if now.status in statuses:
            return now
        time.sleep(0.2)


# the client's own helper cuts the bytes into parts
lines = [
    {
        "custom_id": f"line-{n}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": BASE_MODEL, "messages": [{"role": "user", "content": f"Number {n}?"}], "max_tokens": 4},
    }
    for n in range(5)
]
text = "".join(json.dumps(line) + "\n" for line in lines).encode()
upload = client.uploads.upload_file_chunked(
    file=text, filename="lines.jsonl", bytes=len(text), mime_type="application/jsonl", purpose="batch", part_size=200
)
seen["upload"] = [upload.status, upload.file.bytes == len(text)]

batch = client.batches.create(
    input_file_id=upload.file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"of": "lines"}
)
batch = until_ended(lambda: client.batches.retrieve(batch.id), ("completed", "failed", "expired"))
answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
seen["batch"] = [
    batch.status,
    batch.request_counts.completed,
    sorted(answer["custom_id"] for answer in answers) == sorted(line["custom_id"] for line in lines),
    next(iter(client.batches.list(limit=1))).id == batch.id,
]

criteria = [
    {
        "type": "string_check",
        "name": "equal",
        "operation": "eq",
        "input": "{{ sample.output_text }}",
        "reference": "{{ item.answer }}",
    },
    {
        "type": "text_similarity",
        "name": "near",
        "evaluation_metric": "fuzzy_match",
        "pass_threshold": 0.5,
        "input": "{{ sample.output_text }}",
        "reference": "{{ item.answer }}",
    },
]
made = client.evals.create(
    name="numbers",
    data_source_config={
        "type": "custom",
        "item_schema": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
        "include_sample_schema": True,
    },
    testing_criteria=criteria,
    metadata={"client": openai.__version__},
)
seen["eval"] = [
    made.object,
    made.data_source_config.type,
    [each.type for each in made.testing_criteria],
    client.evals.retrieve(made.id).name,
    client.evals.update(made.id, name="renamed").name,
    made.id in [each.id for each in client.evals.list(order="desc", limit=2)],
]

given = [{"item": {"answer": "4"}, "sample": {"output_text": said}} for said in ("4", "5")]
run = client.evals.runs.create(
    made.id, name="given", data_source={"type": "jsonl", "source": {"type": "file_content", "content": given}}
)
ended = ("completed", "failed", "canceled")
run = until_ended(lambda: client.evals.runs.retrieve(run.id, eval_id=made.id), ended)
items = list(client.evals.runs.output_items.list(run.id, eval_id=made.id, limit=1))
seen["given"] = [
    run.status,
    [run.result_counts.total, run.result_counts.passed, run.result_counts.failed, run.result_counts.errored],
    [[each.testing_criteria, each.passed] for each in run.per_testing_criteria_results],
    [item.status for item in items],
    items[0].results[0].passed,
    client.evals.runs.output_items.retrieve(items[1].id, eval_id=made.id, run_id=run.id).datasource_item_id,
]

file = client.files.create(
    file=("rows.jsonl", io.BytesIO(b'{"item": {"question": "one", "answer": "x"}}\n')), purpose="evals"
)
asked = client.evals.runs.create(
    made.id,
    data_source={
        "type": "completions",
        "model": BASE_MODEL,
        "input_messages": {
            "type": "template",
            "template": [{"type": "message", "role": "user", "content": {"type": "input_text", "text": "Say {{ item.question }}."}}],
        },
        "sampling_params": {"max_completion_tokens": 6, "temperature": 0, "seed": 7},
        "source": {"type": "file_id", "id": file.id},
    },
)
asked = until_ended(lambda: client.evals.runs.retrieve(asked.id, eval_id=made.id), ended)
item = next(iter(client.evals.runs.output_items.list(asked.id, eval_id=made.id)))
seen["asked"] = [
    asked.status,
    asked.per_model_usage[0].model_name == BASE_MODEL,
    asked.per_model_usage[0].invocation_count,
    item.sample.input[0].content,
    item.sample.usage.completion_tokens <= 6,
]
seen["runs"] = [each.id for each in client.evals.runs.list(made.id, order="asc")] == [run.id, asked.id]
seen["deleted"] = [client.evals.runs.delete(run.id, eval_id=made.id).deleted, client.evals.delete(made.id).deleted]
try:
    client.evals.retrieve(made.id)
except openai.NotFoundError as error:
    seen["gone"] = error.code
print(json.dumps(seen))
