"""The official OpenAI client for Python at a server's limits: exception classes, raw answers, and waits it is told to make.

Run: python openai_limits.py <url> <key> <base model>. The server must allow 12 requests a minute and no unfinished bodies.
Prints one JSON object with what was seen.
"""
import json
import sys

import openai

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def refusal(call) -> list:
    try:
        call()
    except openai.APIStatusError as error:
        wait = error.response.headers.get("retry-after")
        has_id = error.request_id is not None and error.request_id == error.response.headers["x-request-id"]
        return [type(error).__name__, error.status_code, error.code, wait is not None and float(wait) > 0, has_id]
    return []


def chat(content: str, **options):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": content}], max_tokens=2, **options
    )


raw = client.chat.completions.with_raw_response.create(
    model=model, messages=[{"role": "user", "content": "Hi."}], max_tokens=2
)
seen = {
    "raw": [
        raw.status_code,
        raw.headers["x-ratelimit-limit-requests"],
        raw.request_id == raw.headers["x-request-id"],
        raw.parse().object,
    ],
    "bad": refusal(lambda: chat("Hi.", temperature=-1)),
    "stranger": refusal(lambda: client.with_options(api_key="no").models.list()),
    "missing": refusal(lambda: client.models.retrieve("nobody/nothing")),
    # a body of this size goes to the disk, where nothing may wait
    "busy": refusal(lambda: chat("word " * 400_000)),
}

limited: list = []
while not limited:
    limited = refusal(client.models.list)
seen["limited"] = limited
# one retry is enough only if it comes when the server said: the client's own first wait is a second at most, a token takes five
seen["after_waiting"] = client.with_options(max_retries=1).models.list().data[0].object
print(json.dumps(seen))
