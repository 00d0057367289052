/**
 * What a required call is held to when the tools' schemas refer to their own parts: the parts of one tool are not those of another.
 */
import { describe, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import { movedSchema, toToolUse } from '#service/operations/generation/chat/tool-choice.js'
import { acceptsValue, byteTable } from '../../support/schemas/acceptor.js'

const object = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
})
const PLACE = object({ city: { type: 'string' } })

const TOOLS: Readonly<Record<string, object>> = {
  modern: object({ where: { $ref: '#/$defs/place' } }, { $defs: { place: PLACE } }),
  older: object({ where: { $ref: '#/definitions/place' } }, { definitions: { place: { enum: ['here'] } } }),
  tree: { type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false },
  twice: object({ first: { type: 'integer' }, second: { $ref: '#/properties/first' } }),
  named: object({ $ref: { const: '#' } }, { $id: 'https://example.com/named', $schema: 'https://example.com/draft' }),
}
const CALLS: readonly (readonly [name: string, parameters: JsonValue, isValid: boolean])[] = [
  ['modern', { where: { city: 'Rome' } }, true],
  ['modern', { where: 'here' }, false],
  ['older', { where: 'here' }, true],
  ['older', { where: { city: 'Rome' } }, false],
  ['tree', { next: { next: {} } }, true],
  ['tree', { next: { where: 'here' } }, false],
  ['tree', { next: [{ name: 'tree', parameters: {} }] }, false],
  ['twice', { first: 1, second: 2 }, true],
  ['twice', { first: 1, second: 'two' }, false],
  ['named', { $ref: '#' }, true],
]

async function compile(request: object) {
  const { grammar } = toToolUse(request as ChatRequest)
  if (grammar?.kind !== 'json_schema') throw new Error('no schema')
  return compileGrammar({ ...grammar, isWhitespaceFree: true }, byteTable(), { clock: systemClock })
}
const toTool = (name: string) => ({ type: 'function', function: { name, parameters: TOOLS[name] } })

describe('calls of tools whose schemas refer to their own parts', () => {
  test('are held to the right part when one of several is required', async () => {
    const grammar = await compile({ tools: Object.keys(TOOLS).map(toTool), tool_choice: 'required' })
    for (const [name, parameters, isValid] of CALLS) {
      const call = [{ name, parameters }]
      expect(acceptsValue(grammar, call), JSON.stringify(call)).toBe(isValid)
    }
    await grammar.dispose()
  })

  test.each(Object.keys(TOOLS))('are held to them when %s is named', async (tool) => {
    const choice = { type: 'function', function: { name: tool } }
    const grammar = await compile({ tools: Object.keys(TOOLS).map(toTool), tool_choice: choice })
    for (const [name, parameters, isValid] of CALLS) {
      if (name === tool) expect(acceptsValue(grammar, parameters), JSON.stringify(parameters)).toBe(isValid)
    }
    await grammar.dispose()
  })
})

test('a schema that moves takes its references along, and nothing that only looks like one', () => {
  const data = { $ref: '#/x' }
  expect(
    movedSchema(
      {
        $ref: '#',
        properties: { $ref: { $ref: '#/$defs/a~1b' }, const: { items: [{ $ref: '#x' }] } },
        default: data,
        enum: [data],
        anyOf: [{ $ref: 'https://example.com/#/y' }, { not: { $ref: '#/y' } }],
      },
      '#/here$&',
    ),
  ).toEqual({
    $ref: '#/here$&',
    properties: { $ref: { $ref: '#/here$&/$defs/a~1b' }, const: { items: [{ $ref: '#x' }] } },
    default: data,
    enum: [data],
    anyOf: [{ $ref: 'https://example.com/#/y' }, { not: { $ref: '#/here$&/y' } }],
  })
})
