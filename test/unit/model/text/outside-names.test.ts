/** Which names a template reads from what it is rendered with, and which of them a caller may set. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createChatTemplate, kwargsReadBy, withToolTemplate } from '#model/text/chat-template.js'

const compile = (source: string) => createChatTemplate(source, { controlTokens: [], tokenVariables: {} })
const kwargsOf = (source: string): string[] => kwargsReadBy(compile(source))

test('a template with a thinking mode reads its switch, and nothing that it defines itself', () => {
  const path = join(import.meta.dirname, '../../../fixtures/thinking.jinja')
  expect(kwargsOf(readFileSync(path, 'utf8'))).toEqual(['enable_thinking'])
})

test.each<[string, string, string[]]>([
  [
    'members, filters, tests and keywords are no variables',
    '{{ a.b | trim(chars=c) }}{% if d is defined %}{% endif %}',
    ['a', 'c', 'd'],
  ],
  ['a computed member is', '{{ a[b] }}', ['a', 'b']],
  [
    'loop variables are defined inside of the loop',
    '{% for x in xs if x.y == z %}{{ x }}{{ loop.index }}{% endfor %}{{ x }}',
    ['x', 'xs', 'z'],
  ],
  ['pairs of a loop', '{% for k, v in a.items() %}{{ k ~ v }}{% endfor %}', ['a']],
  ['what was set is defined behind', '{{ b }}{% set a = a | default(1) %}{% set b = 2 %}{{ a }}{{ b }}', ['a', 'b']],
  ['set on one way only', '{% if x %}{% set a = 1 %}{% endif %}{{ a }}', ['a', 'x']],
  [
    'set on every way',
    '{% if x %}{% set a = 1 %}{% elif y %}{% set a = 2 %}{% else %}{% set a = 3 %}{% endif %}{{ a }}',
    ['x', 'y'],
  ],
  ['a namespace', '{% set ns = namespace(k=v) %}{% set ns.k = w %}{{ ns.k }}', ['v', 'w']],
  ['macros and their parameters', '{% macro m(p, q=r) %}{{ p ~ q ~ s }}{% endmacro %}{{ m(t) }}', ['r', 's', 't']],
  [
    'what everybody has is not set by a caller',
    '{{ messages ~ tools ~ bos_token ~ add_generation_prompt ~ range(2) }}',
    [],
  ],
])('%s', (_, source, expected) => {
  expect(kwargsOf(source)).toEqual(expected)
})

test('a template for tools of its own adds what it reads', () => {
  expect(kwargsReadBy(withToolTemplate(compile('{{ a }}'), compile('{{ b }}')))).toEqual(['a', 'b'])
})
