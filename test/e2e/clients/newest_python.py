"""The newest versions of clients for Python against a service: openai, OpenAI's agents, PydanticAI and LiteLLM.

Run: python newest_python.py <url> <key> <base model>
Prints one JSON object with what was seen.
"""
import asyncio
import json
import os
import sys
from typing import Literal

# nothing of a run is told to anybody, and no list of prices is fetched
os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="unused")

import agents
import litellm
import openai
import pydantic
import pydantic_ai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

url, key, model = sys.argv[1:]
base = f"{url}/v1"


class Trip(pydantic.BaseModel):
    city: Literal["Paris", "Rome"]
    length: Literal["a day", "a week"]


def weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


asked = []


def get_weather(city: Literal["Oslo", "Lima"], unit: Literal["c", "f"]) -> str:
    """Weather of a city."""
    asked.append((city, unit))
    return "sunny"


def openai_client():
    client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)
    request = dict(model=model, messages=[{"role": "user", "content": "Hello there."}], temperature=0, max_tokens=24)
    whole = client.chat.completions.create(**request)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**request, stream=True))
    parsed = client.chat.completions.parse(**{**request, "max_tokens": 64}, response_format=Trip)
    response = client.responses.create(model=model, input="Hello there.", max_output_tokens=24)
    return {
        "streams": text == whole.choices[0].message.content,
        "parses": isinstance(parsed.choices[0].message.parsed, Trip),
        "responds": response.output_text != "",
    }


async def openai_agents():
    client = openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0)
    agents.set_tracing_disabled(True)
    seen = {}
    for name, kind in [("chat", agents.OpenAIChatCompletionsModel), ("responses", agents.OpenAIResponsesModel)]:
        served = kind(model=model, openai_client=client)
        settings = agents.ModelSettings(temperature=0, max_tokens=64, tool_choice="weather")
        caller = agents.Agent(name="caller", model=served, tools=[agents.function_tool(weather)], model_settings=settings)
        called = await agents.Runner.run(caller, "How is the weather?", max_turns=3)
        planner = agents.Agent(
            name="planner", model=served, output_type=Trip, model_settings=agents.ModelSettings(temperature=0, max_tokens=64)
        )
        planned = await agents.Runner.run(planner, "Plan a trip.")
        # strict by default, and nothing tells the model to call: left to itself it writes another city, and no unit
        asked.clear()
        free = agents.Agent(
            name="free", model=served, tools=[agents.function_tool(get_weather)], model_settings=agents.ModelSettings(temperature=0, max_tokens=64)
        )
        await agents.Runner.run(free, "What is the weather in Paris?", max_turns=4)
        results = [item for item in called.new_items if item.type == "tool_call_output_item"]
        seen[name] = {
            "calls": len(results) > 0 and called.final_output != "",
            "parses": isinstance(planned.final_output, Trip),
            "calls_by_itself": len(asked) > 0,
        }
    return seen


async def pydantic_agents():
    served = OpenAIChatModel(model, provider=OpenAIProvider(base_url=base, api_key=key))
    settings = {"temperature": 0, "max_tokens": 64}
    by_tool = await pydantic_ai.Agent(served, output_type=Trip, model_settings=settings).run("Plan a trip.")
    native = pydantic_ai.Agent(served, output_type=pydantic_ai.NativeOutput(Trip), model_settings=settings)
    by_schema = await native.run("Plan a trip.")
    return {"parses_by_tool": isinstance(by_tool.output, Trip), "parses_by_schema": isinstance(by_schema.output, Trip)}


def lite_llm():
    litellm.telemetry = False
    request = dict(
        model=f"openai/{model}",
        api_base=base,
        api_key=key,
        messages=[{"role": "user", "content": "Hello there."}],
        temperature=0,
        max_tokens=24,
    )
    whole = litellm.completion(**request)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**request, stream=True))
    parsed = litellm.completion(**{**request, "max_tokens": 64}, response_format=Trip)
    return {
        "streams": text == whole.choices[0].message.content,
        "parses": Trip.model_validate_json(parsed.choices[0].message.content) is not None,
    }


seen = {
    "openai": openai_client(),
    "agents": asyncio.run(openai_agents()),
    "pydantic_ai": asyncio.run(pydantic_agents()),
    "litellm": lite_llm(),
}
print(json.dumps(seen))
