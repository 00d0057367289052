/** How values print in templates: what Python's Jinja 3.1 makes of the same, with transformers' `tojson`. */
import { expect, test } from 'vitest'
import { parseExact } from '#base/json/exact-json.js'
import { createChatTemplate } from '#model/text/chat-template.js'

const VALUES = `{"id": 2512292042121000001, "p": 5.0, "e": 1e2, "t": 1e-7, "n": -0.0, "i": 5, "f": 0.1, "huge": 1e16,
  "l": [1.0, 2, "a'b", "\\u00a0\\u200b😀\\n", null, true, {}], "o": {"x": 1.0, "y": {}}, "inf": 1e400, "big": -9223372036854775808999}`

const render = (source: string): string =>
  createChatTemplate(source, { controlTokens: [], tokenVariables: {} }).render({
    messages: [],
    kwargs: { v: parseExact(VALUES) },
  }).text

test.each([
  ['{{ 1e-7 }}', '1e-07'],
  ['{{ 1e5 }}|{{ 1.5E3 }}|{{ -1e2 }}|{{ 1e+3 - 1 }}', '100000.0|1500.0|-100.0|999.0'],
  ['{{ 1_000 }}|{{ 0x1F }}|{{ 0b11 }}|{{ [1e2,0x1f] }}', '1000|31|3|[100.0, 31]'],
  ['{{ 5.0 }}|{{ 1e16 }}|{{ 1e15 }}|{{ 0.0001 }}|{{ 0.00001 }}', '5.0|1e+16|1000000000000000.0|0.0001|1e-05'],
  ["{{ [1, 'a', none, true] }}", "[1, 'a', None, True]"],
  ["{{ (1, 2) }}|{{ {'a': 1, \"b'\": [1.0, 'x\"y', 'it\\'s']} }}", `(1, 2)|{'a': 1, "b'": [1.0, 'x"y', "it's"]}`],
  ["{{ 'a' ~ none }}|{{ true ~ 1.0 ~ [1] }}|{{ 'x' ~ missing }}", 'aNone|True1.0[1]|x'],
  ["{{ [1.0, none, true, 'q']|join('-') }}|{{ [1, 2]|join }}", '1.0-None-True-q|12'],
  ["{{ 1.0|string }}|{{ [1, 'b']|string }}|{{ true|string }}|{{ none|string }}", "1.0|[1, 'b']|True|None"],
  ['{{ [1.0, (1, 2), 1e-7]|tojson }}', '[1.0, [1, 2], 1e-07]'],
  [
    "{{ {'b': 1.0, 'a': [1, {'c': []}], 'B': 2}|tojson(indent=2, sort_keys=true) }}",
    '{\n  "B": 2,\n  "a": [\n    1,\n    {\n      "c": []\n    }\n  ],\n  "b": 1.0\n}',
  ],
  ["{{ {'é': [1]}|tojson(ensure_ascii=true, separators=(',', ':')) }}", '{"\\u00e9":[1]}'],
  [
    '{{ v.id }}|{{ v.id|tojson }}|{{ [v.id] }}|{{ v.big ~ 1 }}',
    '2512292042121000001|2512292042121000001|[2512292042121000001]|-92233720368547758089991',
  ],
  [
    '{{ v.p }}|{{ v.p|tojson }}|{{ v.e }}|{{ v.t }}|{{ v.n }}|{{ v.i }}|{{ v.f }}|{{ v.huge }}',
    '5.0|5.0|100.0|1e-07|-0.0|5|0.1|1e+16',
  ],
  ['{{ v.l }}', "[1.0, 2, \"a'b\", '\\xa0\\u200b😀\\n', None, True, {}]"],
  ['{{ v.o }}|{{ v.o|tojson }}', '{\'x\': 1.0, \'y\': {}}|{"x": 1.0, "y": {}}'],
  ['{{ v.inf }}|{{ v.inf|tojson }}', 'inf|Infinity'],
  ['{{ v.p + 1 }}|{{ v.p > 4 }}|{{ v.p == 5 }}|{{ v.p is number }}|{{ v.id is integer }}', '6.0|True|True|True|True'],
])('%s', (source, expected) => {
  expect(render(source)).toBe(expected)
})
