"""Makes test/fixtures/template-goldens.json: what Python's Jinja makes of our fixture templates and of some small ones.

Set up as Hugging Face's apply_chat_template does. Needs the PyPI package jinja2 (3.1 was used). Run from the repository root.
"""
import json
import pathlib

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

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


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, **{"ensure_ascii": False, **options})
    defaults = {"bos_token": "<s>", "tools": None, "documents": None, "add_generation_prompt": True, "date_string": "today"}
    templates = {name: (FIXTURES / name).read_text() for name in ["chatml.jinja", "thinking.jinja", "headers.jinja"]}
    templates.update({f"snippet {i}": source for i, source in enumerate(SNIPPETS)})
    cases = []
    for name, source in templates.items():
        chosen = CONVERSATIONS if name.endswith(".jinja") else {key: CONVERSATIONS[key] for key in ("one", "system")}
        for title, variables in chosen.items():
            expected = environment.from_string(source).render(**{**defaults, **variables})
            given = {"template": name} if name.endswith(".jinja") else {"source": source}
            cases.append({**given, "title": title, "conversation": variables, "expected": expected})
    (FIXTURES / "template-goldens.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
    print(len(cases))


main()
