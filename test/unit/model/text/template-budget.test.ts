/**
 * Templates that grow: each is refused before what it asks for is made, whichever operator, method or filter makes it. Without the limits
 * any of them ends the process, and the test with it.
 */
import { describe, expect, test } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { compileTemplate } from '#model/text/template/interpreter.js'

const BUDGET = { timeoutMs: 500, maxOutputLength: 2 ** 26 }
const render = (source: string): string => compileTemplate(source, BUDGET, systemClock).render({})

function codeOf(source: string): string {
  try {
    render(source)
    return 'rendered'
  } catch (error) {
    return error instanceof AppError ? error.code : String(error)
  }
}

const DOUBLE = '{%- for i in range(60) -%}{%- set ns.x = ns.x + ns.x -%}{%- endfor -%}'
const LONG = "{%- set long = 'a' * 40000000 -%}"
const SHARED =
  "{%- set ns = namespace(x=['a', 1]) -%}{%- for i in range(60) -%}{%- set ns.x = [ns.x, ns.x] -%}{%- endfor -%}"

describe('a template that asks for too much is refused', () => {
  test.each([
    // operators
    '{{ [1] * 10**9 }}',
    '{{ [] * 10**9 }}',
    '{{ ([1] * 10**6) * 10**6 }}',
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * ('x' * 1000) }}",
    '{{ (1, 2) * 10**9 }}',
    `{%- set ns = namespace(x=[1]) -%}${DOUBLE}`,
    `{%- set ns = namespace(x='a') -%}${DOUBLE}`,
    "{%- set ns = namespace(x='a') -%}{%- for i in range(60) -%}{%- set ns.x = ns.x ~ ns.x -%}{%- endfor -%}",
    '{%- set ns = namespace(x=3) -%}{%- for i in range(60) -%}{%- set ns.x = ns.x * ns.x -%}{%- endfor -%}',
    '{{ range(10**9) }}',
    '{{ range(99999) | map("list") | list * 10**5 }}',
    // methods
    "{{ ('x' * 60000000).replace('x', 'y' * 1000) }}",
    "{{ ('x' * 60000000).replace('', 'yyyy') }}",
    "{{ ('x' * 1000000).join(range(90000) | map('string')) }}",
    "{{ ('x ' * 30000000).split() }}",
    "{{ ('xy' * 30000000).split('y') }}",
    "{{ ('\\n' * 60000000).splitlines() }}",
    "{{ 'x'.ljust(10**9) }}",
    "{{ 'x'.rjust(10**10) }}",
    "{{ '1'.zfill(10**9) }}",
    "{{ '%1000000000s' % 'x' }}",
    "{{ '{:>1000000000}'.format('x') }}",
    "{{ ('{0}' * 1000000).format('x' * 1000000) }}",
    "{{ ('%(a)s' * 1000000) % {'a': 'x' * 1000000} }}",
    // filters
    "{{ 'x' | center(10**9) }}",
    "{{ 'a\\nb' | indent(10**9) }}",
    "{{ ('a\\n' * 900000) | indent(100000) }}",
    '{{ [1] | batch(10**9, 0) | list }}',
    '{{ [1] | slice(10**9) | list }}',
    '{{ [[[1]]] | tojson(indent=10**9) }}',
    '{{ ([1] * 900000) | tojson(indent=1000) }}',
    "{{ (['x' * 1000000] * 1000000) | join }}",
    "{{ ([['x' * 1000000]] * 1000000) | string }}",
    `${LONG}{{ long | list }}`,
    `${LONG}{{ long | urlencode }}`,
    `${LONG}{%- for c in long -%}{%- endfor -%}`,
    `${LONG}{{ long.find('b' + 'a' * 20000000) }}`,
    `${LONG}{{ ('b' + 'a' * 20000000) in long }}`,
    // few objects that print, or compare, as very many
    `${SHARED}{{ ns.x }}`,
    `${SHARED}{{ ns.x | tojson }}`,
    `${SHARED}{{ ns.x ~ "" }}`,
    `${SHARED + SHARED.replaceAll('ns', 'nt')}{{ ns.x == nt.x }}`,
    // nothing large alone
    LONG +
      '{%- set ns = namespace(x=[]) -%}{%- for i in range(10000) -%}{%- set ns.x = ns.x + [(long ~ i) | upper] -%}{%- endfor -%}',
    '{%- set ns = namespace(x=[]) -%}{%- for i in range(10000) -%}{%- set ns.x = ns.x + [[i] * 900000] -%}{%- endfor -%}',
    // time within one step
    '{{ range(99999) | list | unique | list | length }}',
    '{% macro f(n) %}{{ f(n - 1) + f(n - 1) if n else 1 }}{% endmacro %}{{ f(60) }}',
  ])('%s', (source) => {
    expect(codeOf(source)).toMatch(/^chat_template_(budget|error)$/)
  })

  test('says what it asks for', () => {
    expect(() => render('{{ [1] * 10**9 }}')).toThrow(/^chat template makes a list of more than \d+ items$/)
    expect(() => render("{{ 'x' * 10**9 }}")).toThrow(/^chat template writes more than \d+ characters$/)
  })

  test('says no more of its own words than a message holds', () => {
    expect(() => render("{{ raise_exception('x' * 1000000) }}")).toThrow(/^x{2000}$/)
  })
})

describe('what is long and no more than that is rendered', () => {
  const emoji = '😀'
  test.each([
    ["{{ ('ab' * 10000000) | length }}", '20000000'],
    [`{{ ('${emoji}' * 2000000) | length }}`, '2000000'],
    [`{{ ('a${emoji}b' * 2)[1] }}`, emoji],
    [`{{ ('a${emoji}b' * 2)[-2] }}`, emoji],
    [`{{ ('a${emoji}b' * 2)[1:3] }}`, `${emoji}b`],
    [`{{ ('a${emoji}b' * 2)[-3:-1] }}`, `a${emoji}`],
    [`{{ ('a${emoji}b')[::-1] }}`, `b${emoji}a`],
    [`{{ ('a${emoji}b')[9] is defined }}`, 'False'],
    [`{{ 'a${emoji}b'.find('b') }}`, '2'],
    [`{{ 'a${emoji}' < 'ab' }}`, 'False'],
    [`{{ '${emoji}' > '\uffff' }}`, 'True'],
    ["{{ 'ab' < 'abc' }}", 'True'],
    ["{{ 'aXbXc'.count('X') }}{{ 'abc'.count('') }}", '24'],
    ["{{ 'hELLO'.capitalize() }}", 'Hello'],
    ["{{ 'xxaxx'.strip('xy') }}", 'a'],
    ["{{ 'k' in {'k': 1} }}{{ 'v' in {'k': 1} }}", 'TrueFalse'],
    ["{{ 'one two' | wordcount }}", '2'],
    ['{{ 2 ** 1000 % 1000 }}', '376'],
  ])('%s', (source, expected) => {
    expect(render(source)).toBe(expected)
  })
})
