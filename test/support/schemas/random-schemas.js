/**
 * JSON Schemas made at random, hostile grammars, and what compiles and samples them: for the tests (a few) and the bench (1,000).
 *
 * `random` is a function that returns numbers in [0, 1). Schemas use every keyword that the API page lists, at random, and now and
 * then one that is refused.
 */

const WORDS = [
  'name',
  'kind',
  'a',
  'ab',
  'größe',
  '日本',
  'with space',
  'quo"te',
  'back\\slash',
  'x-y',
  'items',
  '$id2',
]
const FORMATS = ['email', 'date', 'time', 'date-time', 'ipv4', 'uuid', 'hostname', 'uri', 'json-pointer']
const PATTERNS = [
  '^[a-z]{2,6}$',
  '[0-9]+',
  '^(yes|no)$',
  '\\d{4}-\\d{2}',
  '^[A-Z][a-z]*( [A-Z][a-z]*)?$',
  'a|bc',
  '.{1,5}',
  '^\\w+$',
]
const REFUSED = [
  { multipleOf: 3 },
  { uniqueItems: true },
  { patternProperties: { a: true } },
  { not: { type: 'null' } },
  { minProperties: 1 },
]

/** @param {() => number} random */
export function randomSchema(random) {
  const below = (count) => Math.floor(random() * count)
  const pick = (list) => list[below(list.length)]
  const some = (list) => list.filter(() => random() < 0.5)
  const definitions = {}

  function scalarBounds(isWhole) {
    const low = isWhole ? below(200) - 100 : Math.round((random() - 0.5) * 1e4) / 10 ** below(5)
    const span = isWhole ? 1 + below(1000) : random() * 10 ** (below(6) - 2)
    const high = low + span
    const bounds = [
      { minimum: low },
      { maximum: high },
      { minimum: low, maximum: high },
      { exclusiveMinimum: low, exclusiveMaximum: high + 2 },
    ]
    return random() < 0.6 ? pick(bounds) : {}
  }

  function text() {
    const minLength = below(4)
    const kinds = [{}, { minLength }, { maxLength: 1 + below(20) }, { minLength, maxLength: minLength + below(9) }]
    return { type: 'string', ...pick([...kinds, { pattern: pick(PATTERNS) }, { format: pick(FORMATS) }]) }
  }

  function list(depth) {
    const minItems = below(3)
    const items = { items: node(depth - 1) }
    const prefix = { prefixItems: [node(depth - 1), node(depth - 1)], items: false }
    const counted = { ...items, minItems, maxItems: minItems + below(4) }
    return { type: 'array', ...pick([{}, items, { ...items, minItems }, counted, prefix]) }
  }

  function object(depth) {
    const names = [...new Set(Array.from({ length: 1 + below(5) }, () => pick(WORDS)))]
    const properties = Object.fromEntries(names.map((name) => [name, node(depth - 1)]))
    const others = pick([
      {},
      {},
      { additionalProperties: false },
      { additionalProperties: true },
      { additionalProperties: node(depth - 1) },
    ])
    return { type: 'object', properties, ...(random() < 0.8 ? { required: some(names) } : {}), ...others }
  }

  function reference() {
    const name = pick(['one', 'two', 'tree'])
    if (definitions[name] === undefined) {
      definitions[name] =
        name === 'tree'
          ? {
              type: 'object',
              properties: { value: { type: 'integer' }, next: { $ref: '#/$defs/tree' } },
              required: ['value'],
            }
          : true
      if (name !== 'tree') definitions[name] = text()
    }
    return { $ref: `#/$defs/${name}` }
  }

  function node(depth) {
    if (random() < 0.01) return { type: 'object', ...pick(REFUSED) }
    const leaves = [
      () => text(),
      () => ({ type: 'integer', ...scalarBounds(true) }),
      () => ({ type: 'number', ...scalarBounds(false) }),
      () => ({ type: pick(['boolean', 'null']) }),
      () => ({ enum: [pick(WORDS), below(9), null, true].slice(0, 1 + below(4)) }),
      () => ({ const: pick([pick(WORDS), below(99), null, { a: [1, 'x'] }]) }),
      () => ({
        type: [...new Set([pick(['string', 'number', 'integer']), 'null'])],
        ...(random() < 0.3 ? { minimum: 0 } : {}),
      }),
      () => true,
    ]
    const branches = [
      () => object(depth),
      () => object(depth),
      () => list(depth),
      () => ({ anyOf: [node(depth - 1), node(depth - 1)] }),
      () => ({ oneOf: [{ type: 'string' }, { type: 'integer' }] }),
      () => ({ allOf: [node(depth - 1)] }),
      () => reference(),
    ]
    return pick(depth > 0 && random() < 0.6 ? branches : leaves)()
  }

  const root = random() < 0.7 ? object(3) : node(3)
  if (root === true) return { type: 'object' }
  return Object.keys(definitions).length > 0 ? { ...root, $defs: definitions } : root
}

/** Grammars that are wrong, huge, deep or explode, `count` of them. */
export function hostileSpecs(random, count) {
  const below = (limit) => Math.floor(random() * limit)
  const schema = (value) => ({
    kind: 'json_schema',
    schema: typeof value === 'string' ? value : JSON.stringify(value),
    isWhitespaceFree: false,
  })
  const nested = (depth, wrap, leaf) => Array.from({ length: depth }).reduce((inner) => wrap(inner), leaf)
  const makers = [
    () => schema(nested(50 + below(60), (items) => ({ type: 'array', items }), { type: 'string' })),
    () => schema(nested(2000, (items) => ({ type: 'array', items }), { type: 'string' })),
    () =>
      schema({
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 500 + below(3000) }, (_, i) => [`p${i}`, { type: 'string' }]),
        ),
      }),
    () => schema({ enum: Array.from({ length: 5000 + below(20_000) }, (_, i) => `value ${i}`) }),
    () => schema({ type: 'string', minLength: 10_000 + below(1e6), maxLength: 2e6 }),
    () =>
      schema({
        type: 'array',
        items: { type: 'array', items: { type: 'string', maxLength: 500 }, maxItems: 500 },
        maxItems: 500,
      }),
    () => schema({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }),
    () => schema({ $ref: '#' }),
    () => schema({ type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }),
    () => schema({ anyOf: nested(12, (inner) => [{ anyOf: inner }, { anyOf: inner }], [{ type: 'string' }]) }),
    () => schema({ type: 'number', minimum: 10 ** below(300), maximum: -1 }),
    () => schema({ type: 'integer', minimum: 5, maximum: -5 }),
    () => schema({ type: 'object', properties: { 'a\\"": basic_any "': true, '"} | root ::= "': true } }),
    () => schema('{"type": "obj'),
    () => schema('[]'),
    () => schema({ type: 'string', pattern: '('.repeat(2000) }),
    () => schema({ type: 'string', pattern: `(${'a?'.repeat(40)}){1,60}` }),
    () => schema({ type: 'string', pattern: '(?=a)b(?!c)\\1' }),
    () => ({
      kind: 'regex',
      pattern: `${'('.repeat(1 + below(4))}a{1,${200 + below(800)}}${'){1,300}'.repeat(3)}`.replace(/^\(+/, '((('),
    }),
    () => ({ kind: 'regex', pattern: `(a|aa)+`.repeat(50 + below(200)) }),
    () => ({ kind: 'regex', pattern: `[${'\\u4e00-\\u9fff'.repeat(100)}]{1,2000}` }),
    () => ({ kind: 'regex', pattern: '((((((((((a*)*)*)*)*)*)*)*)*)*)*' }),
    () => ({ kind: 'regex', pattern: '(a' }),
    () => ({
      kind: 'choice',
      choices: Array.from({ length: 20_000 + below(50_000) }, (_, i) => `${'x'.repeat(i % 50)}${i}`),
    }),
    () => ({ kind: 'ebnf', grammar: 'root ::= root' }),
    () => ({ kind: 'ebnf', grammar: 'root ::= root "a" | root root | ""' }),
    () => ({ kind: 'ebnf', grammar: `root ::= ${'('.repeat(5000)}` }),
    () => ({
      kind: 'ebnf',
      grammar: `${Array.from({ length: 40 }, (_, i) => `r${i} ::= r${i + 1} r${i + 1}`)
        .join('\n')
        .replace('r0', 'root')}\nr40 ::= "a"`,
    }),
    () => ({ kind: 'ebnf', grammar: `root ::= [a-z]{1,${100_000 + below(1e6)}}` }),
    () => ({ kind: 'structural_tag', tag: '{"type":"structural_tag","format":{"type":"nope"}}' }),
    () => ({
      kind: 'structural_tag',
      tag: JSON.stringify({
        type: 'structural_tag',
        format: nested(300, (content) => ({ type: 'tag', begin: 'a', content, end: 'b' }), { type: 'any_text' }),
      }),
    }),
  ]
  return Array.from({ length: count }, (_, i) => makers[i % makers.length]())
}

/**
 * Takes allowed tokens at random until the grammar ends; after `patience` tokens it prefers those that close.
 *
 * @returns the text, or null if it does not end within `most` tokens
 */
export async function walk(mask, { tokenizer, eosTokenIds, closingIds }, random, { patience = 40, most = 1500 } = {}) {
  const ids = []
  const size = tokenizer.vocabularySize
  for (let step = 0; step < most; step++) {
    await mask.ready()
    const words = mask.next()
    const allowed = []
    for (let id = 0; id < size; id++)
      if (words === null || ((words[id >>> 5] >>> (id & 31)) & 1) === 1) allowed.push(id)
    const closing = step > patience ? allowed.filter((id) => closingIds.has(id)) : []
    const from = closing.length > 0 ? closing : allowed
    const id = from[Math.floor(random() * from.length)]
    if (id === undefined) throw new Error('nothing is allowed')
    mask.accept(id)
    if (eosTokenIds.includes(id)) return tokenizer.decode(ids)
    ids.push(id)
  }
  return null
}

/** Tokens that end an answer, or whose text only closes something. */
export function closingTokens({ tokenizer, eosTokenIds }) {
  const ids = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id)
  return new Set(ids.filter((id) => eosTokenIds.includes(id) || /^["\]}]+$/.test(tokenizer.decode([id]))))
}
