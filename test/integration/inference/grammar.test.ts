/**
 * Grammars over the built-in model's real vocabulary: what a random walk below the masks writes is what the grammar allows.
 */
import { Ajv } from 'ajv'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng, type Rng } from '#base/util/rng.js'
import type { TokenMask } from '#inference/engine/sampling/token-mask.js'
import { compileGrammar, DEFAULT_GRAMMAR_LIMITS, type Grammar } from '#inference/grammar/grammar.js'
import { createGrammarCache, type GrammarCache } from '#inference/grammar/grammar-cache.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { createTokenTable, type TokenTable } from '#inference/grammar/token-table.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { expectCode } from '../../support/expect-code.js'
import { accepts, byteTable } from '../../support/schemas/acceptor.js'

const clock = systemClock
let model: TextModel
let table: TokenTable
let cache: GrammarCache
/** Tokens that end the answer, or whose text only closes something. */
let closingIds: ReadonlySet<number>

beforeAll(async () => {
  model = await loadTextModel(sparkDirectory())
  table = await createTokenTable(model.tokenizer, model.tokenizer.vocabularySize, model.eosTokenIds)
  const ids = Array.from({ length: model.tokenizer.vocabularySize }, (_, id) => id)
  closingIds = new Set(
    ids.filter((id) => model.eosTokenIds.includes(id) || /^["\]}]+$/.test(model.tokenizer.decode([id]))),
  )
  cache = createGrammarCache({ compile: (spec) => compileGrammar(spec, table, { clock }), maxGrammars: 3 })
})

afterAll(() => cache.dispose())

/** Takes allowed tokens at random until the grammar ends; after `patience` tokens it prefers those that close. */
function walk(mask: TokenMask, rng: Rng, patience = 60): string {
  const ids: number[] = []
  for (let step = 0; step < 2000; step++) {
    const allowed = allowedIds(mask)
    const closing = allowed.filter((id) => closingIds.has(id))
    const from = step > patience && closing.length > 0 ? closing : allowed
    const id = from[Math.floor(rng.uniform() * from.length)]
    if (id === undefined) throw new Error('nothing is allowed')
    mask.accept(id)
    if (model.eosTokenIds.includes(id)) return model.tokenizer.decode(ids)
    ids.push(id)
  }
  throw new Error('the walk did not end')
}

function allowedIds(mask: TokenMask): number[] {
  const words = mask.next()
  const ids: number[] = []
  for (let id = 0; id < model.tokenizer.vocabularySize; id++) {
    if (words === null || (((words[id >>> 5] ?? 0) >>> (id & 31)) & 1) === 1) ids.push(id)
  }
  return ids
}

async function samples(spec: GrammarSpec, count: number): Promise<string[]> {
  const lease = await cache.lease(spec)
  try {
    const rng = createRng(7n)
    return Array.from({ length: count }, () => walk(lease.createMask(), rng))
  } finally {
    lease.release()
  }
}

describe('what may be written', () => {
  test('a JSON schema: every answer validates', async () => {
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string' },
        age: { type: 'integer', minimum: 0, maximum: 150 },
        kind: { enum: ['cat', 'dog', 3, null] },
        tags: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 3 },
      },
      required: ['name', 'age', 'kind', 'tags'],
      additionalProperties: false,
    }
    const validate = new Ajv().compile(schema)
    for (const isWhitespaceFree of [false, true]) {
      const spec: GrammarSpec = { kind: 'json_schema', schema: JSON.stringify(schema), isWhitespaceFree }
      for (const text of await samples(spec, 8)) {
        expect(validate(JSON.parse(text)), text).toBe(true)
        if (isWhitespaceFree) expect(text).toBe(JSON.stringify(JSON.parse(text)))
      }
    }
  })

  describe('white space of JSON ends', () => {
    const schema = (value: string): GrammarSpec => {
      const properties = { a: value === '' ? { type: 'string' } : { const: value } }
      return {
        kind: 'json_schema',
        schema: JSON.stringify({ type: 'object', properties, required: ['a'] }),
        isWhitespaceFree: false,
      }
    }
    const tag = JSON.stringify({ type: 'structural_tag', format: { type: 'regex', pattern: 'a *b' } })

    /** Writes `text`, then white space of this kind as long as any is allowed, at most `most`. */
    async function written(spec: GrammarSpec, text: string, kind: RegExp, most: number): Promise<string> {
      const lease = await cache.lease(spec)
      const mask = lease.createMask()
      const space = (id: number): boolean => kind.test(model.tokenizer.decode([id]))
      const take = (id: number): void => {
        mask.next()
        mask.accept(id)
      }
      for (const id of model.tokenizer.encode(text)) take(id)
      let end = ''
      for (
        let id = allowedIds(mask).find(space);
        id !== undefined && end.length < most;
        id = allowedIds(mask).find(space)
      ) {
        take(id)
        end += model.tokenizer.decode([id])
      }
      expect(allowedIds(mask).length).toBeGreaterThan(0)
      lease.release()
      return end
    }

    test.each([
      ['between elements after one space', schema(''), '{', /^ $/, 1],
      ['after two line breaks', schema(''), '{', /^\n$/, 2],
      ['after an indentation of 32', schema(''), '{\n', /^ $/, 32],
      ['behind a string with quotes in it', schema(''), '{"a": "\\"x" ', /^ $/, 0],
      ['in a string after 32', schema(''), '{"a": "x', /^ $/, 32],
      ['behind text that is not known to be JSON after 32', { kind: 'structural_tag', tag }, 'a', /^ $/, 32],
    ] as const)('%s', async (_, spec, text, kind, length) => {
      expect((await written(spec, text, kind, 100)).length).toBe(length)
    })

    test('but not where nothing else may come, nor in grammars that are not JSON', async () => {
      const constant = `x${' '.repeat(59)}`
      expect((await written(schema(constant), '{"a":"x', /^ +$/, 100)).length).toBeGreaterThanOrEqual(58)
      const pattern: GrammarSpec = { kind: 'regex', pattern: 'a *b' }
      expect((await written(pattern, 'a', /^ +$/, 100)).length).toBeGreaterThanOrEqual(100)
    })
  })

  test('a regular expression', async () => {
    for (const text of await samples({ kind: 'regex', pattern: '[a-z]{3,5}-\\d+(x|yz)' }, 10)) {
      expect(text).toMatch(/^[a-z]{3,5}-\d+(x|yz)$/)
    }
  })

  test.each(['^🐲{1,3}$', '^(é+|[ß]{2}|🐲?x)$', '^[^a]🐲*$'])(
    'how often a character of several bytes comes: %s',
    async (pattern) => {
      const schema = JSON.stringify({ type: 'string', pattern })
      for (const text of await samples({ kind: 'json_schema', schema, isWhitespaceFree: false }, 8)) {
        expect(JSON.parse(text)).toMatch(new RegExp(pattern, 'u'))
      }
      const plain = pattern.replace(/^\^|\$$/g, '')
      for (const text of await samples({ kind: 'regex', pattern: plain }, 8))
        expect(text).toMatch(new RegExp(pattern, 'u'))
    },
  )

  test('one of the choices, whatever characters they hold', async () => {
    const choices = ['yes', 'no "quoted"', 'back\\slash', 'line\nbreak', 'äöü 😀', 'a']
    const texts = await samples({ kind: 'choice', choices }, 40)
    expect(texts.filter((text) => !choices.includes(text))).toEqual([])
    expect(new Set(texts).size).toBeGreaterThan(3)
  })

  test('a grammar with rules', async () => {
    const grammar = 'root ::= item ("," item)*\nitem ::= [0-9] [0-9]'
    for (const text of await samples({ kind: 'ebnf', grammar }, 10)) expect(text).toMatch(/^\d\d(,\d\d)*$/)
  })

  test('after the end only a stop token may come, again and again', async () => {
    const lease = await cache.lease({ kind: 'choice', choices: ['a'] })
    const mask = lease.createMask()
    mask.accept(model.tokenizer.tokenToId('a') ?? -1)
    for (let i = 0; i < 3; i++) {
      expect(allowedIds(mask)).toEqual([...model.eosTokenIds].sort((a, b) => a - b))
      mask.accept(model.eosTokenIds[0] ?? -1)
    }
    lease.release()
  })
})

describe('what is refused', () => {
  test.each<[string, GrammarSpec]>([
    ['a schema that is no JSON', { kind: 'json_schema', schema: '{"type":', isWhitespaceFree: false }],
    ['a tag of no known type', { kind: 'structural_tag', tag: '{"type":"structural_tag","format":{"type":"nope"}}' }],
    ['a grammar without root', { kind: 'ebnf', grammar: 'a ::= "b"' }],
    ['a grammar with a syntax error', { kind: 'ebnf', grammar: 'root ::= (((' }],
    ['a regular expression with a syntax error', { kind: 'regex', pattern: '(a' }],
  ])('%s, and others go on', async (_, spec) => {
    const error = await cache.lease(spec).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'invalid_grammar', category: 'invalid_request' })
    expect(String(error)).not.toMatch(/\.cc|FATAL|Users/)
    expect(await samples({ kind: 'choice', choices: ['still here'] }, 1)).toEqual(['still here'])
  })

  test('what explodes ends at its limit of time or memory', async () => {
    const limits = { ...DEFAULT_GRAMMAR_LIMITS, compileMs: 300, maxBytes: 64 * 2 ** 20 }
    const bomb = { kind: 'regex', pattern: '((a{1,200}){1,200}){1,200}' } as const
    await expectCode(
      () => compileGrammar(bomb, table, { clock, limits }),
      'grammar_too_complex',
      'its largest parts are the repetition {1,200} (200)',
    )
  })
})

describe('what one grammar may cost', () => {
  const choices = (count: number): GrammarSpec => ({
    kind: 'choice',
    choices: Array.from({ length: count }, (_, i) => `${'x'.repeat(i % 50)}${i}`),
  })

  test('a machine that stands still for hours is not the fault of a grammar', async () => {
    let nowMs = 0
    const jumping = { ...clock, monotonicMs: () => (nowMs += 3_600_000) }
    const grammar = await compileGrammar(choices(3000), table, { clock: jumping })
    expect(grammar.bytes).toBeGreaterThan(0)
    await grammar.dispose()
  })

  test('what is used is told, and more than that is refused', async () => {
    const small = await compileGrammar(choices(1), table, { clock })
    const large = await compileGrammar(choices(6000), table, {
      clock,
      limits: { ...DEFAULT_GRAMMAR_LIMITS, compileMs: 60_000 },
    })
    const growth = large.bytes - small.bytes
    await Promise.all([small.dispose(), large.dispose()])
    expect(growth).toBeGreaterThan(2 ** 20)
    const limits = { ...DEFAULT_GRAMMAR_LIMITS, compileMs: 60_000, maxBytes: growth / 2 }
    await expectCode(() => compileGrammar(choices(6000), table, { clock, limits }), 'grammar_too_complex', 'memory')
  })

  describe('the heap of its thread is bounded too, and its process goes on', () => {
    const limits = { ...DEFAULT_GRAMMAR_LIMITS, compileMs: 60_000 }
    const names = Array.from({ length: 2000 }, (_, i) => [`p${i}${'q'.repeat(50)}`, true])
    test.each<[string, object]>([
      ['one long pattern', { type: 'string', pattern: '.'.repeat(120_000) }],
      [
        'patterns',
        { anyOf: Array.from({ length: 6000 }, (_, i) => ({ type: 'string', pattern: `${'.'.repeat(20)}${i}` })) },
      ],
      [
        'names that no other may have',
        { type: 'object', properties: Object.fromEntries(names), additionalProperties: true },
      ],
    ])('%s', async (_, schema) => {
      const spec = { kind: 'json_schema', schema: JSON.stringify(schema), isWhitespaceFree: false } as const
      await expectCode(() => compileGrammar(spec, table, { clock, limits }), 'grammar_too_complex', 'memory')
    })

    test('a lower one', async () => {
      const spec = { kind: 'ebnf', grammar: `start: A\nA: /${'.'.repeat(60_000)}/` } as const
      const low = { ...limits, maxBytes: 512 * 2 ** 20, maxHeapBytes: 8 * 2 ** 20 }
      await expectCode(() => compileGrammar(spec, table, { clock, limits: low }), 'grammar_too_complex', 'memory')
    })
  })

  test('it is read in its thread too: the engine only passes the text along', async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 3000 }, (_, i) => [`p${i}`, { pattern: '^[a-z]{1,3}$' }]),
    )
    const schema = JSON.stringify({ properties: { ...properties, last: { uniqueItems: true } } })
    const parse = vi.spyOn(JSON, 'parse')
    const refused = compileGrammar({ kind: 'json_schema', schema, isWhitespaceFree: false }, table, { clock })
    await expectCode(() => refused, 'unsupported_schema', 'JSON schema at #/properties/last/uniqueItems')
    const texts = parse.mock.calls.map(([text]) => text)
    parse.mockRestore()
    expect(texts).not.toContain(schema)
  })

  test('what is nested too deeply is refused', async () => {
    const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    for (const spec of [
      { kind: 'structural_tag', tag: `{"type":"structural_tag","format":${nested}}` },
      { kind: 'json_schema', schema: `{"enum":${nested}}`, isWhitespaceFree: false },
    ] as const) {
      await expectCode(() => compileGrammar(spec, table, { clock }), 'grammar_too_complex')
    }
  })

  test('a text that is too long is refused unread', async () => {
    await expectCode(() => compileGrammar(choices(30_000), table, { clock }), 'grammar_too_complex', 'KiB of text')
  })
})

describe('structural tags', () => {
  const schema = {
    type: 'object',
    properties: { day: { type: 'string', format: 'date' }, n: { minimum: 3, maximum: 5 } },
  }
  const required = { ...schema, required: ['day', 'n'] }
  const content = { type: 'json_schema', json_schema: required }

  test.each<[string, object]>([
    ['a tag', { type: 'structural_tag', format: { type: 'tag', begin: '<a>', content, end: '</a>' } }],
    [
      'the older form',
      { type: 'structural_tag', structures: [{ begin: '<a>', schema: required, end: '</a>' }], triggers: ['<a'] },
    ],
  ])('%s holds what is inside to its schema', async (_, tag) => {
    const grammar = await compileGrammar({ kind: 'structural_tag', tag: JSON.stringify(tag) }, byteTable(), { clock })
    const inside = (day: string, n: number): boolean => accepts(grammar, `<a>{"day": "${day}", "n": ${n}}</a>`)
    expect([inside('2024-02-29', 4), inside('2023-02-29', 4), inside('2024-02-29', 6)]).toEqual([true, false, false])
    await grammar.dispose()
  })

  test('what it cannot honour is refused by name', async () => {
    const tag = { type: 'structural_tag', format: { ...content, json_schema: { type: 'array', uniqueItems: true } } }
    const spec = { kind: 'structural_tag', tag: JSON.stringify(tag) } as const
    await expectCode(() => compileGrammar(spec, table, { clock }), 'unsupported_schema', 'uniqueItems')
  })
})

test('a pattern with a digit after a character that is escaped', async () => {
  const schema = JSON.stringify({ type: 'string', pattern: '^[0-9.-]+$' })
  const grammar = await compileGrammar({ kind: 'json_schema', schema, isWhitespaceFree: true }, byteTable(), { clock })
  expect(['"3.1-4"', '"0"', '"a"', '"/"', '""'].map((text) => accepts(grammar, text))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ])
  await grammar.dispose()
})

test('a grammar whose thread has ended is compiled again', async () => {
  let compiled = 0
  const grammars: Grammar[] = []
  const restarted = createGrammarCache({
    compile: async (spec) => {
      compiled++
      const grammar = await compileGrammar(spec, table, { clock })
      grammars.push(grammar)
      return grammar
    },
    maxGrammars: 2,
  })
  const spec: GrammarSpec = { kind: 'choice', choices: ['one'] }
  const first = await restarted.lease(spec)
  const mask = first.createMask()
  await grammars[0]?.dispose()
  expect(mask.ready?.() ?? null).toBeNull()
  await expectCode(() => Promise.resolve(mask.next()), 'grammar_failed')
  const second = await restarted.lease(spec)
  expect(walk(second.createMask(), createRng(1n))).toBe('one')
  expect(compiled).toBe(2)
  await restarted.dispose()
})

test('a mask that is not there yet is told when it is', async () => {
  const lease = await cache.lease({ kind: 'json_schema', schema: '{"type":"object"}', isWhitespaceFree: false })
  const mask = lease.createMask()
  // late or not, after what `ready` returns the mask is there
  await mask.ready?.()
  expect(mask.ready?.()).toBeNull()
  expect(allowedIds(mask).length).toBeGreaterThan(0)
  lease.release()
})

test('grammars in use are kept, idle ones make room, and one for which there is none waits', async () => {
  const small = createGrammarCache({ compile: (spec) => compileGrammar(spec, table, { clock }), maxGrammars: 2 })
  const specOf = (text: string): GrammarSpec => ({ kind: 'choice', choices: [text] })
  const first = await small.lease(specOf('one'))
  const again = await small.lease(specOf('one'))
  const second = await small.lease(specOf('two'))
  const waiting = small.lease(specOf('three'))
  second.release()
  const third = await waiting
  expect(walk(first.createMask(), createRng(1n))).toBe('one')
  expect(walk(again.createMask(), createRng(1n))).toBe('one')
  expect(walk(third.createMask(), createRng(1n))).toBe('three')
  await small.dispose()
})
