"""Makes test/fixtures/rendering-digests.json: a digest of what `transformers` makes of each chat template in .cache/llama-vocab
(`node test/support/fetch-llama-vocab.js`) and each conversation of test/fixtures/rendering-conversations.json, or "refused"; and
test/fixtures/template-snippets.json: what small templates of our own come to.

`developer` is `system` for a template that does not name it, as our own rendering has it. Needs the PyPI packages transformers (5.24
was used) and jinja2 (3.1.6). Run from the repository root; with a folder as argument, the texts are written there as well. With --check
nothing is written: what differs from the two files is printed, and ends it with 1.
"""
import datetime
import hashlib
import json
import pathlib
import sys

from transformers.utils import chat_template_utils

FIXTURES = pathlib.Path("test/fixtures")
NOW = datetime.datetime(2026, 3, 1, 12)


SNIPPETS = [
    "{{ [3, 1, 2] | min }}|{{ ['b', 'A'] | max }}|{{ [] | min }}|{{ [{'a': 2}, {'a': 1}] | min(attribute='a') }}",
    "{{ {'a': [1, none]} | string }}|{{ {} | string }}|{{ none | upper }}|{{ ['x', none] | upper }}|{{ 5 | lower }}",
    "{{ '%s-%d|%05.1f|%x|%%|%-4s|' | format('a', 3, 2.25, 255, 'z') }}{{ '%s' % none }}{{ '%s %s' % (1, [2]) }}{{ '%(a)s' % {'a': 1} }}",
    "{{ '{}-{}'.format(1, 'x') }}|{{ '{1}{0}{a}'.format(1, 2, a=none) }}|{{ '{:>4}|{:<4}|{:^5}|{:03d}|{:.2f}|{:,}'.format('a', 'b', 'c', 7, 1.005, 1234567) }}|{{ '{{}}'.format() }}",
    "{{ range(5) | batch(2) | list }}|{{ range(5) | batch(2, 'x') | list }}|{{ range(5) | slice(2) | list }}",
    "{{ 1 < 2 < 3 }}|{{ 3 > 2 > 2 }}|{{ (1 < 2) < 3 }}|{{ 1 == 1 in [true] }}|{{ 'a' in 'ab' == true }}|{{ ('a' in 'ab') == true }}|{{ 1 < 3 > 2 != 4 }}",
    "{{ 'a' ~ none }}|{{ true ~ 1.0 ~ [1] ~ {'a': ()} }}|{{ 'x' ~ missing }}",
    "{{ (1, 2) }}|{{ (1,) }}|{{ () }}|{{ (1, 2)[0] }}|{{ (1, 2) + (3,) }}|{{ (1, 2) == [1, 2] }}|{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "a\n  {% raw %}{{ x }} {% y %}\n  {% endraw %}\nb{%- raw -%}  {# z #} \\ \" '  {%- endraw -%}  c",
    "{{ 1e-7 }}|{{ 1.5E3 }}|{{ 1_000 }}|{{ 0x1F }}|{{ -1e2 }}|{{ 1e400 }}",
    "{{ {0: 'a', 512: 'b', 'c': 1, none: 2} }}|{{ {1: 'x'}[1] }}|{{ {1: 'x'}.get(2, 'd') }}|{{ 1 in {1: 2} }}|{{ {2: 'b', 1: 'a'} | dictsort }}|{% for k, v in {1: 2}.items() %}{{ k + 1 }}{{ v }}{% endfor %}|{{ {1: 2} | tojson }}|{{ {2: 1, 1: 1} | sort }}",
    "{{ [1, 'a', none, true, 1.0, {'b': ['c']}] }}|{{ {'a': 'it\\'s'} }}|{{ [missing] | length }}",
    "{{ {'items': 1}.items() | list }}|{{ {'items': 1}['items'] }}|{{ {'a': 1}['b'] is defined }}|{{ {'a': 1}[missing] is defined }}|{{ 'abc'.length is defined }}|{{ [1].length is defined }}",
    "{% for x in [1, 2, 3] %}<{{ x }}{% if x == 2 %}{% continue %}{% endif %}>{% else %}none{% endfor %}|{% for x in [1, 2, 3] %}{{ x }}{% if x == 2 %}!{% break %}{% endif %}{% endfor %}",
    "{% for x in [1, 2] %}{{ y is defined }}{% set y = x %}{% endfor %}|{{ y is defined }}|{% for x in missing %}x{% else %}empty{% endfor %}|{% for c in 'aé😀' %}{{ c }},{% endfor %}|{% for k in {'a': 1} %}{{ k }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}/{{ loop.length }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.previtem is defined }}{% endfor %}",
    "{% macro f() %}{{ a is defined }}{% endmacro %}{% for a in [1] %}{{ f() }}{% endfor %}|{% macro g(x, y=2) %}{{ x }}{{ y }}{{ caller() if caller }}{% endmacro %}{{ g(1) }}{% call g(3, y=4) %}in{% endcall %}",
    "{{ [] == [] }}|{{ 1 == '1' }}|{{ '' == 0 }}|{{ none == missing }}|{{ 1 == 1.0 }}|{{ true == 1 }}|{{ {'a': [1]} == {'a': [1]} }}|{{ [1] in [[1]] }}|{{ true in [1] }}|{{ none in [none] }}|{{ missing in [1] }}|{{ 'a' in missing }}",
    "{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 'é' > 'z' }}|{{ '-' * 3 }}|{{ [0] * 2 }}|{{ -7 % 3 }}|{{ -7 // 2 }}|{{ 7 / 2 }}|{{ 2 ** 3 ** 2 }}|{{ 2 ** -1 }}|{{ 9007199254740993 + 0 if false else 3 }}",
    "{{ 9 is divisibleby(3) }}|{{ 9 is not divisibleby 2 }}|{{ 1 is in [1, 2] }}|{{ 3 is not in [1, 2] }}|{{ 'a' is sameas none }}|{{ 1 is eq 1 and 2 is gt(1) }}|{{ 'x' is string }}|{{ {} is iterable }}|{{ () is sequence }}|{{ missing is iterable }}|{{ true is number }}|{{ true is integer }}|{{ 1.0 is float }}",
    "{{ [1, 2, 3, 4] | select('odd') | list }}|{{ [1, none] | reject('none') | list }}|{{ ['a', 'b'] | map('upper') | join }}|{{ [{'a': 1}, {}] | map(attribute='a', default='z') | join(',') }}|{{ [{'f': {'n': 'x'}}] | selectattr('f.n', 'equalto', 'x') | list | length }}|{{ [{'a': 1}, {}] | selectattr('a') | list }}|{{ [{'a': 1}, {}] | rejectattr('a', 'defined') | list }}|{{ none | selectattr('a') | list }}",
    "{{ 'aé😀' | length }}|{{ 'a😀b'[1] }}|{{ 'a😀b'[1:] }}|{{ 'abc'[::-1] }}|{{ [1, 2, 3][-2:] }}|{{ [1, 2, 3][5] is defined }}|{{ (1, 2, 3)[:2] }}|{{ 'abc'[-1] }}|{{ 'abc'[none:2] }}",
    "{{ ' a b  c '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.split(',', maxsplit=1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a b  c'.split(none, 1) }}|{{ 'a\nb\r\nc\n'.splitlines() }}|{{ 'a-b-c'.partition('-') }}|{{ 'a-b-c'.rpartition('-') }}|{{ 'x'.partition('-') }}",
    "{{ 'xaax'.strip('x') }}|{{ '\ufeffa '.strip() | length }}|{{ 'abc'.find('c') }}|{{ 'abc'.find('z') }}|{{ 'aXbX'.count('X') }}|{{ '-'.join(['a', 'b']) }}|{{ 'abc'.removeprefix('a').removesuffix('c') }}|{{ 'aaa'.replace('a', 'b', 2) }}|{{ '12'.isdigit() }}|{{ ' '.isspace() }}|{{ 'aB'.swapcase() if false else 'x' }}|{{ '7'.zfill(3) }}",
    "{{ 'hELLO wORLD'.capitalize() }}|{{ 'hELLO wORLD'.title() }}|{{ 'hELLO' | capitalize }}|{{ 'hello world' | title }}|{{ 'xxaxx' | trim('x') }}|{{ 'abc'.startswith(('z', 'a')) }}|{{ 'abc'.endswith('bc') }}|{{ 'abc'.index('b') }}",
    "{{ 2.5 | round }}|{{ 3.5 | round }}|{{ 2.675 | round(1) }}|{{ 2.1 | round(0, 'ceil') }}|{{ '42' | int }}|{{ 'x' | int(7) }}|{{ '4.7' | int }}|{{ '0x1F' | int(0, 16) }}|{{ 3.9 | int }}|{{ -3.9 | int }}|{{ '1.5' | float }}|{{ none | int }}|{{ [1, 2.5] | sum }}|{{ -5 | abs }}",
    "{{ missing | default('d') }}|{{ none | default('d') }}|{{ '' | default('d', true) }}|{{ missing | length }}|{{ missing | join(',') }}|{{ missing | list }}|{{ missing | first is defined }}|{{ [] | last is defined }}|{{ missing | d(none) }}|{{ missing | items | list }}",
    "{{ [2, 1] | sort }}|{{ ['b', 'A', 'a'] | sort }}|{{ ['b', 'A', 'a'] | sort(case_sensitive=true) }}|{{ [{'a': 2}, {'a': 1}] | sort(attribute='a', reverse=true) }}|{{ ['a', 'A', 'b'] | unique | list }}|{{ 'abc' | reverse }}|{{ [1, 2] | reverse | list }}|{{ {'b': 1, 'A': 2} | dictsort }}|{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }}",
    "{% for k, g in [{'a': 1, 'b': 2}, {'a': 0, 'b': 3}, {'a': 1, 'b': 4}] | groupby('a') %}{{ k }}{{ g }}{% endfor %}|{{ 'a<b' | e }}|{{ '<'|safe + '<' }}|{{ '<' ~ ('<' | safe) }}|{{ 'a b c' | wordcount }}|{{ 'x' | center(5) }}|{{ 'foo bar baz' | truncate(9) }}|{{ 'a b&c/d' | urlencode }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}|{% filter upper %}a{{ 'b' }}{% endfilter %}|{{ '\\d \\\\ \\n \\x41' }}|{{ dict(a=1, **{'b': 2}) }}|{{ dict([('x', 1)]) }}",
    "x\n  {%+ if true %}\n  a\n  {% endif +%}\n  b\n{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c %}<{{ a }}>{% endset %}{{ c | length }}",
    "{{ [1, 2] | attr('x') is defined }}|{{ {'a': {'b': 1}}.a.b }}|{{ [[1, 2], [3]] | map('first') | list }}|{{ [[1, 2], [3]] | map('length') | sum }}|{{ ['1', '2'] | map('int') | sum }}|{{ ['a', 'b'] | join(', ') }}|{{ [{'n': 'x'}] | join('', attribute='n') }}",
]
"""What templates may say beside what those of models do say."""


class FrozenTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def render(source, conversation):
    names_developer = "'developer'" in source or '"developer"' in source
    messages = [
        {**message, "role": "system" if message["role"] == "developer" and not names_developer else message["role"]}
        for message in conversation["messages"]
    ]
    options = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    options.update({key: value for key, value in conversation.items() if key != "messages"})
    rendered, _ = chat_template_utils.render_jinja_template([messages], chat_template=source, **options)
    return rendered[0]


def main():
    chat_template_utils.datetime = FrozenTime
    conversations = json.loads((FIXTURES / "rendering-conversations.json").read_text())
    snippets = [[source, render(source, {"messages": []})] for source in SNIPPETS]
    is_check = sys.argv[1:] == ["--check"]
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 and not is_check else None
    digests = {}
    for path in sorted(pathlib.Path(".cache/llama-vocab").glob("*.jinja")):
        source = path.read_text()
        for title, conversation in conversations.items():
            try:
                text = render(source, conversation)
                digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            except Exception as error:
                text = f"refused: {type(error).__name__}: {error}"
                digest = "refused"
            digests.setdefault(path.stem, {})[title] = digest
            if out is not None:
                (out / f"{path.stem}.{title}.txt").write_text(text)
    files = {
        "template-snippets.json": json.dumps(snippets, indent=1, ensure_ascii=False) + "\n",
        "rendering-digests.json": json.dumps(digests, indent=0) + "\n",
    }
    if is_check:
        different = [name for name, text in files.items() if (FIXTURES / name).read_text() != text]
        sys.exit(f"differs from what transformers makes: {', '.join(different)}" if different else 0)
    for name, text in files.items():
        (FIXTURES / name).write_text(text)
    count = [digest for of in digests.values() for digest in of.values()]
    print(len(count), "renderings,", count.count("refused"), "refused")


main()
