/**
 * Schemas of types drawn at random from those that people describe their answers with: zod's, as zod itself writes them as JSON Schema,
 * and pydantic's (`make_pydantic_schemas.py`); and what an answer to one may be checked against.
 */
import { readFileSync } from 'node:fs'
import { z } from 'zod'

const COUNT = 200

/**
 * The same 400 every time, pydantic's first.
 *
 * @param {(seed: bigint) => { uniform(): number }} createRng
 */
export function drawnEverydaySchemas(createRng) {
  const pydantic = JSON.parse(readFileSync(new URL('../../fixtures/pydantic-schemas.json', import.meta.url), 'utf8'))
  const zod = Array.from({ length: COUNT }, (_, i) => {
    const rng = createRng(BigInt(2026 + i))
    return zodSchema(() => rng.uniform())
  })
  return [...pydantic, ...zod]
}

/**
 * The keywords among places such as `#/properties/a/multipleOf`.
 *
 * @param {readonly string[]} places
 * @returns {string[]}
 */
export const named = (places) => [...new Set(places.map((place) => place.slice(place.lastIndexOf('/') + 1)))]

/**
 * A schema without these keywords, wherever they stand.
 *
 * @param {any} schema
 * @param {readonly string[]} keywords
 * @returns {any}
 */
export function without(schema, keywords) {
  if (Array.isArray(schema)) return schema.map((item) => without(item, keywords))
  if (typeof schema !== 'object' || schema === null) return schema
  const left = Object.entries(schema).filter(([name]) => !keywords.includes(name))
  return Object.fromEntries(left.map(([name, value]) => [name, without(value, keywords)]))
}

const NAMES = ['id', 'name', 'tags', 'when', 'address', 'total', 'notes', 'x_1', 'größe']

/** @param {() => number} random numbers in [0, 1) */
function zodSchema(random) {
  const below = (count) => Math.floor(random() * count)
  const pick = (list) => list[below(list.length)]

  const text = () =>
    pick([
      () => z.string(),
      () => z.string().min(1),
      () => z.string().min(2).max(12),
      () => z.string().length(4),
      () => z.string().regex(/^[A-Z]{2}\d{4}$/),
      () =>
        z
          .string()
          .regex(/^[a-z-]+$/)
          .min(3)
          .max(10),
      () => z.string().startsWith('a').max(20),
      () => z.string().includes('@'),
      () => z.string().trim(),
      () => z.email(),
      () => z.email().max(50),
      () => z.url(),
      () => z.uuid(),
      () => z.iso.datetime(),
      () => z.iso.date(),
      () => z.iso.time(),
      () => z.iso.duration(),
      () => z.ipv4(),
      () => z.ipv6(),
      () => z.base64(),
      () => z.emoji(),
      () => z.nanoid(),
      () => z.ulid(),
      () => z.cuid2(),
      () => z.jwt(),
      () => z.e164(),
    ])()

  const number = () =>
    pick([
      () => z.number(),
      () => z.int(),
      () => z.number().positive(),
      () => z.int().nonnegative(),
      () => z.number().min(0).max(1),
      () => z.int().min(1).max(10),
      () => z.number().multipleOf(0.5),
      () => z.int().multipleOf(5).max(100),
      () => z.int32(),
      () => z.uint32(),
      () => z.float32(),
      () => z.number().gt(0).lt(100),
    ])()

  const leaf = () =>
    pick([
      text,
      text,
      text,
      number,
      number,
      () => z.boolean(),
      () => z.null(),
      () => z.enum(['red', 'green', 'blue']),
      () => z.literal(['a', 1, true]),
      () => z.literal('only'),
      () => z.unknown(),
    ])()

  const tagged = (kind, inner) => z.object({ kind: z.literal(kind), value: inner })

  function node(depth) {
    if (depth === 0 || random() < 0.45) return leaf()
    const inner = node(depth - 1)
    return pick([
      () => z.array(inner),
      () => z.array(inner).nonempty(),
      () => z.array(inner).min(1).max(3),
      () => z.array(inner).length(2),
      () => z.tuple([inner, number()]),
      () => z.tuple([inner], text()),
      () => z.record(z.string(), inner),
      () => z.record(z.enum(['red', 'green']), inner),
      () => z.partialRecord(z.enum(['red', 'green']), inner),
      () => z.record(z.string().regex(/^[a-z]+$/), inner),
      () => z.union([inner, number()]),
      () => z.union([object(depth - 1), object(depth - 1)]),
      () => z.discriminatedUnion('kind', [tagged('a', inner), tagged('b', text())]),
      () => z.intersection(z.object({ a: inner }), z.object({ b: text() })),
      () => inner.nullable(),
      () => object(depth - 1),
      () => object(depth - 1),
    ])()
  }

  function object(depth) {
    const names = [...new Set(Array.from({ length: 1 + below(5) }, () => pick(NAMES)))]
    const shape = Object.fromEntries(
      names.map((name) => {
        const type = node(depth)
        const described = random() < 0.3 ? type.describe('What it is.') : type
        return [
          name,
          random() < 0.2 ? described.optional() : random() < 0.1 ? described.nullable().default(null) : described,
        ]
      }),
    )
    return pick([z.object, z.object, z.strictObject, z.looseObject])(shape)
  }

  return z.toJSONSchema(object(2), { io: pick(['input', 'output']) })
}
