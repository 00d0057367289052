"""Anthropic's client for Python against a service: messages whole and streamed, tools, a schema, token counts, exceptions.

Run: python anthropic_messages.py <url> <key> <base model>
Prints one JSON object with what was seen.
"""
import json
import sys

import anthropic
import pydantic

url, key, model = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
weather = {
    "name": "weather",
    "description": "Tells the weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


class Verdict(pydantic.BaseModel):
    good: bool


def ask(text):
    body = dict(temperature=0)  # the client has no argument for it any more
    return dict(model=model, max_tokens=24, extra_body=body, messages=[{"role": "user", "content": text}])


def texts():
    request = ask("Say hello.")
    whole = client.messages.create(**request)
    with client.messages.stream(**request) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    counted = client.messages.count_tokens(model=model, messages=request["messages"])
    return {
        "same": streamed == whole.content[0].text == final.content[0].text,
        "stop_reason": final.stop_reason,
        "counted": counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens,
    }


def tools():
    request = ask("What is the weather in Oslo?") | dict(tools=[weather], tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=200)
    called = client.messages.create(**request)
    call = next(block for block in called.content if block.type == "tool_use")
    with client.messages.stream(**request) as stream:
        final = stream.get_final_message()
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "It rains."}
    turns = [*request["messages"], {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    answered = client.messages.create(**request | dict(messages=turns, tool_choice={"type": "none"}))
    return {
        "called": [call.name, sorted(call.input), called.stop_reason],
        "same": [(block.name, block.input) for block in final.content] == [(call.name, call.input)],
        "answered": answered.content[0].type,
    }


def schema():
    parsed = client.messages.parse(**ask("Is the sea salty?"), output_format=Verdict)
    return isinstance(parsed.parsed_output.good, bool)


def raised(**changes):
    try:
        client.messages.create(**ask("x") | changes)
    except anthropic.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.body["error"]["type"], error.request_id is not None]


print(
    json.dumps(
        {
            "texts": texts(),
            "tools": tools(),
            "schema": schema(),
            "bad": raised(max_tokens=0),
            "missing": raised(model="none"),
        }
    )
)
