"""The official OpenAI client for Python against a service: completions, responses, parse and streaming helpers, tools.

Run: python openai_routes.py <url> <key> <base model>
Prints one JSON object with what was seen.
"""
import json
import sys
from typing import Literal

import openai
import pydantic

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


class Verdict(pydantic.BaseModel):
    verdict: Literal["yes", "no"]


class Weather(pydantic.BaseModel):
    """Weather of a city"""

    city: Literal["Oslo", "Lima"]
    unit: Literal["c", "f"]


def completions():
    request = dict(model=model, prompt=["Once upon", "na\u00efve"], max_tokens=6, seed=1, n=2, logprobs=2, echo=True)
    whole = client.completions.create(**request)
    texts = [""] * 4
    for chunk in client.completions.create(**request, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    scored = client.completions.create(model=model, prompt="Once upon a time", max_tokens=0, echo=True, logprobs=1)
    return {
        "same": texts == [choice.text for choice in whole.choices],
        "scored": len(scored.choices[0].logprobs.token_logprobs) == scored.usage.prompt_tokens,
    }


def responses():
    first = client.responses.create(model=model, input="Say yes.", max_output_tokens=12)
    second = client.responses.create(model=model, input="Again.", previous_response_id=first.id, max_output_tokens=12)
    types, text = [], ""
    with client.responses.stream(model=model, input="Say yes.", max_output_tokens=12) as stream:
        for event in stream:
            types.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = stream.get_final_response()
    parsed = client.responses.parse(model=model, input="Well?", text_format=Verdict, max_output_tokens=200, temperature=0)
    tool = openai.pydantic_function_tool(Verdict, name="decide")["function"]
    called = client.responses.create(
        model=model,
        input="Decide.",
        max_output_tokens=400,
        temperature=0,
        tools=[{"type": "function", **tool}],
        tool_choice={"type": "function", "name": "decide"},
    )
    arguments = [item.arguments for item in called.output if item.type == "function_call"]
    items = client.responses.input_items.list(second.id)
    counted = client.responses.input_tokens.count(model=model, input="Say yes.")
    client.responses.delete(first.id)
    try:
        client.responses.retrieve(first.id)
        is_gone = False
    except openai.NotFoundError:
        is_gone = True
    return {
        "input_grows": second.usage.input_tokens > first.usage.input_tokens,
        "first_and_last_event": [types[0], types[-1]],
        "text_is_final": text == final.output_text,
        "verdict": parsed.output_parsed.verdict,
        "arguments": json.loads(arguments[0]),
        "input_items": len(list(items)),
        "counted": counted.input_tokens == first.usage.input_tokens,
        "is_gone": is_gone,
    }


def chat_helpers():
    messages = [{"role": "user", "content": "Well?"}]
    request = dict(model=model, messages=messages, max_tokens=200, temperature=0)
    parsed = client.chat.completions.parse(**request, response_format=Verdict)
    with client.chat.completions.stream(**request, response_format=Verdict) as stream:
        types = {event.type for event in stream}
        streamed = stream.get_final_completion()
    tool = openai.pydantic_function_tool(Verdict, name="decide")
    choice = {"type": "function", "function": {"name": "decide"}}
    with client.chat.completions.stream(**request, tools=[tool], tool_choice=choice) as stream:
        tool_types = {event.type for event in stream}
        called = stream.get_final_completion()
    # strict by the helper's own: what the model would write of its own accord is another city, and no unit
    question = [{"role": "user", "content": "What is the weather in Paris?"}]
    own = dict(request, messages=question, tools=[openai.pydantic_function_tool(Weather, name="get_weather")])
    [free] = client.chat.completions.parse(**own).choices[0].message.tool_calls
    with client.chat.completions.stream(**own) as stream:
        [streamed_free] = stream.get_final_completion().choices[0].message.tool_calls
    return {
        "own_call": isinstance(free.function.parsed_arguments, Weather),
        "own_call_streamed": streamed_free.function.parsed_arguments == free.function.parsed_arguments,
        "parsed": parsed.choices[0].message.parsed.verdict,
        "streamed": streamed.choices[0].message.parsed.verdict,
        "has_content_events": "content.delta" in types,
        "has_tool_events": "tool_calls.function.arguments.delta" in tool_types,
        "called": called.choices[0].message.tool_calls[0].function.parsed_arguments.verdict,
    }


print(json.dumps({"completions": completions(), "responses": responses(), "chat": chat_helpers()}))
