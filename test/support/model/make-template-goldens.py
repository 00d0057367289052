"""Makes test/fixtures/template-goldens.json: what Python's Jinja makes of our fixture templates and of some small ones, and
test/fixtures/model-template-goldens.json: what `transformers` makes of templates of models, which lie in .cache/llama-vocab
(`node test/support/fetch-llama-vocab.js`).

The former is set up as Hugging Face's apply_chat_template does. Needs the PyPI packages jinja2 (3.1 was used) and transformers
(4.57). Run from the repository root.
"""
import datetime
import json
import pathlib

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

FIXTURES = pathlib.Path("test/fixtures")
CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "n": [1, 1.5, True, None], "o": {}}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": 'of "now" <b>', "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "noop", "parameters": None}},
]
CONVERSATIONS = {
    "one": {"messages": [{"role": "user", "content": "  Hi \n"}]},
    "system": {
        "messages": [
            {"role": "system", "content": " Be brief\n"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "\n Hello \n"},
            {"role": "user", "content": 'More "quotes" & <x>'},
        ]
    },
    "answered": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], "add_generation_prompt": False},
    "thought": {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "<think>\n hm \n</think>\n\n  Hello"},
            {"role": "user", "content": "More"},
            {"role": "assistant", "content": "<think>\n so \n</think>\n\n  Bye"},
        ],
        "enable_thinking": False,
    },
    "tools": {
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
            {"role": "tool", "content": '{"t": 20}'},
            {"role": "assistant", "content": "20 degrees"},
        ],
        "tools": TOOLS,
    },
}
PARTS = {
    "parts": {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": " Be brief "}]},
            {"role": "user", "content": [{"type": "text", "text": " Hi \n"}, {"type": "text", "text": "there"}]},
        ]
    }
}
"""Conversations for templates of models: each begins with instructions, so that no model's own stand in the goldens."""
MODEL_CONVERSATIONS = {
    "system": CONVERSATIONS["system"],
    "answered": {
        "messages": [{"role": "system", "content": "Be brief"}, *CONVERSATIONS["answered"]["messages"]],
        "add_generation_prompt": False,
    },
    "not thinking": {**CONVERSATIONS["system"], "enable_thinking": False},
    "thinking": {**CONVERSATIONS["system"], "enable_thinking": True},
    "no_think": {"messages": [{"role": "system", "content": "Be brief /no_think "}, {"role": "user", "content": "Hi"}]},
    "thought": {
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "<think>\n hm \n</think>\n\n  Hello"},
            {"role": "user", "content": "More"},
        ]
    },
    "tools": {
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "content": '{"t": 20}'},
            {"role": "assistant", "content": "20 degrees"},
            {"role": "user", "content": "And in Rome?"},
        ],
        "tools": TOOLS[:1],
    },
}
MODELS = {
    "HuggingFaceTB-SmolLM3-3B": ["system", "answered", "not thinking", "thinking", "no_think", "thought"],
    "meta-llama-Llama-3.2-3B-Instruct": ["system", "answered", "tools"],
    "Qwen-Qwen3-0.6B": ["system", "answered", "not thinking", "thinking", "thought", "tools"],
    "Qwen-Qwen2.5-7B-Instruct": ["system", "answered", "tools"],
}
NOW = datetime.datetime(2026, 3, 1, 12)
SNIPPETS = [
    "{{ true }} {{ none }} {{ 1.0 }} {{ 7 // 2 }} {{ 7 / 2 }} [{{ absent }}] [{{ absent | trim }}]",
    "{{ '\n x \n'.strip('\n') }}|{{ 'aab'.lstrip('a') }}|{{ 'ab ba'.rstrip('ab') }}|{{ ' x '.strip() }}",
    "{{ messages | tojson }}{{ tools is none }}{{ documents is none }}",
    "{{ messages | tojson(indent=2) }}{{ {'b': 1, 'a': 'ä'} | tojson(sort_keys=true, ensure_ascii=true) }}",
    "{% for m in messages[::-1] %}{{ loop.index }}{{ loop.last }}{{ m.role }}{{ m['content'][:2] | upper }}{% endfor %}",
    "{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
    "{% macro f(x, y='d') %}<{{ x }}{{ y }}>{% endmacro %}{{ f('a') }}{{ f(x='b', y='c') }}",
    "{%- if messages[0].role == 'user' and not tools -%} yes {%- elif tools -%} no {%- endif %}\n  {# gone #}\n  end\n",
    "{{ 'a,b,,c'.split(',') | join('-') }}{{ ' a  b '.split() | length }}{{ 'x' in 'axb' }}{{ 'abc'.startswith('ab') }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | map(attribute='role') | join('/') }}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{{ {'a': 1}.get('z', 'none') }}",
    "{{ ('x' if tools else 'y') ~ 1 ~ '!' }}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
]


def refuse(message):
    raise ValueError(message)


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    environment.globals["raise_exception"] = refuse
    defaults = {"bos_token": "<s>", "tools": None, "documents": None, "add_generation_prompt": True, "date_string": "today"}
    templates = {name: (FIXTURES / name).read_text() for name in ["chatml.jinja", "thinking.jinja", "headers.jinja", "gemma.jinja"]}
    templates.update({f"snippet {i}": source for i, source in enumerate(SNIPPETS)})
    cases = []
    for name, source in templates.items():
        chosen = CONVERSATIONS if name.endswith(".jinja") else {key: CONVERSATIONS[key] for key in ("one", "system")}
        if name == "gemma.jinja":
            chosen = {**{key: CONVERSATIONS[key] for key in ("one", "system", "answered")}, **PARTS}
        for title, variables in chosen.items():
            expected = environment.from_string(source).render(**{**defaults, **variables})
            given = {"template": name} if name.endswith(".jinja") else {"source": source}
            cases.append({**given, "title": title, "conversation": variables, "expected": expected})
    (FIXTURES / "template-goldens.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
    print(len(cases))


class FrozenTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def models():
    chat_template_utils.datetime = FrozenTime
    cases = []
    for name, titles in MODELS.items():
        source = pathlib.Path(f".cache/llama-vocab/{name}.jinja").read_text()
        for title in titles:
            conversation = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **MODEL_CONVERSATIONS[title]}
            messages, tools = conversation.pop("messages"), conversation.pop("tools", None)
            rendered, _ = chat_template_utils.render_jinja_template([messages], tools=tools, chat_template=source, **conversation)
            cases.append({"template": name, "title": title, "conversation": MODEL_CONVERSATIONS[title], "expected": rendered[0]})
    (FIXTURES / "model-template-goldens.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
    print(len(cases))


main()
models()
