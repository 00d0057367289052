/**
 * Whatever others send has a maximum: each string, list and record of the bodies of endpoints, of workers' messages and of engine nodes' messages; and bodies are read by one reader.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Endpoint } from '#contract/endpoints/endpoint.js'
import { atMost } from '#contract/wire/maxima.js'
import { ENDPOINTS } from '../support/service/with-plugins.js'
import { readSourceTree } from './source-tree.js'

const PROCESSES = join(import.meta.dirname, '../../src/contract/processes')

interface Def {
  readonly type: string
  readonly checks?: readonly {
    readonly _zod: { readonly def: { readonly check: string; readonly pattern?: RegExp; readonly format?: string } }
  }[]
}
const defOf = (schema: z.ZodType): Def => schema.def as unknown as Def

/** A pattern from end to end that repeats nothing without a limit. */
function isBoundedPattern({ source }: RegExp): boolean {
  const plain = source.replaceAll(/\\./g, 'x').replaceAll(/\[[^\]]*\]/g, 'x')
  return plain.startsWith('^') && plain.endsWith('$') && !/[*+]|\{\d+,\}/.test(plain)
}

function hasMaximum(schema: z.ZodType): boolean {
  const { checks = [] } = defOf(schema)
  const own = schema.def as { readonly pattern?: RegExp; readonly format?: string }
  const all = [...checks.map(({ _zod }) => _zod.def), own] as readonly {
    check?: string
    pattern?: RegExp
    format?: string
  }[]
  return all.some(
    ({ check, pattern, format }) =>
      check === 'max_length' ||
      check === 'length_equals' ||
      (pattern !== undefined && isBoundedPattern(pattern)) ||
      format === 'datetime' ||
      format === 'uuid',
  )
}

/** Paths of what has no maximum. */
function unbounded(root: z.ZodType): string[] {
  const found: string[] = []
  const seen = new Set<z.ZodType>()
  const visit = (schema: z.ZodType, path: string): void => {
    if (seen.has(schema)) return
    seen.add(schema)
    const def = schema.def as unknown as Record<string, unknown> & { type: string }
    const inner = (name: string) => def[name] as z.ZodType
    switch (def.type) {
      case 'string':
        if (!hasMaximum(schema)) found.push(`${path}: string`)
        return
      case 'array':
        if (!hasMaximum(schema)) found.push(`${path}: list`)
        visit(inner('element'), `${path}[]`)
        return
      case 'record':
        if (schema.meta()?.['maxProperties'] === undefined) {
          found.push(`${path}: record`)
          visit(inner('keyType'), `${path}{key}`)
        }
        visit(inner('valueType'), `${path}{}`)
        return
      case 'object':
        for (const [name, field] of Object.entries((schema as z.ZodObject).shape))
          visit(field as z.ZodType, `${path}.${name}`)
        // `strict` is a catchall of never
        if (def['catchall'] === undefined || defOf(inner('catchall')).type === 'never') return
        if (schema.meta()?.['maxProperties'] === undefined) found.push(`${path}: further fields`)
        visit(inner('catchall'), `${path}.*`)
        return
      case 'union':
      case 'tuple':
        for (const [i, option] of ((def['options'] ?? def['items']) as z.ZodType[]).entries())
          visit(option, `${path}|${i}`)
        return
      case 'intersection':
        visit(inner('left'), path)
        visit(inner('right'), path)
        return
      case 'pipe':
        visit(inner('in'), path)
        visit(inner('out'), path)
        return
      case 'lazy':
        visit((def['getter'] as () => z.ZodType)(), path)
        return
      case 'unknown':
      case 'any':
        found.push(`${path}: ${def.type}`)
        return
      default:
        if (def['innerType'] !== undefined) visit(inner('innerType'), path)
    }
  }
  visit(root, '')
  return found
}

/** What the server itself says: to its own children, to workers and to nodes. */
const SAID_BY_THE_SERVER = new Set([
  'workerJobSchema',
  'workerAssignmentSchema',
  'workerFoldersSchema',
  'workerClaimSchema',
  'trainingSessionSpecSchema',
  'sessionOrderSchema',
  'generateBodySchema',
  'samplingParamsSchema',
  'ownRulesSchema',
])
/** An event of a node is bounded in bytes before it is read, and of this field only known words are taken. */
const BOUNDED_ELSEWHERE = ['generateChunkSchema.error.trainyard: unknown']

describe('messages of workers and engine nodes', () => {
  it.each(readdirSync(PROCESSES).filter((file) => file.endsWith('.ts')))('%s', async (file) => {
    const module = (await import(join(PROCESSES, file))) as Record<string, unknown>
    const found = Object.entries(module).flatMap(([name, schema]) =>
      schema instanceof z.ZodType && !SAID_BY_THE_SERVER.has(name)
        ? unbounded(schema).map((path) => `${name}${path}`)
        : [],
    )
    expect(found.filter((path) => !BOUNDED_ELSEWHERE.includes(path))).toEqual([])
  })
})

describe('bodies of endpoints', () => {
  const rows = Object.entries(ENDPOINTS as Readonly<Record<string, Endpoint>>)

  it('of workers and nodes: each string, list and record has a maximum', () => {
    const inner = rows.filter(([key]) => key.includes(' /internal/'))
    const found = inner.flatMap(([key, { body }]) =>
      typeof body === 'object' ? unbounded(body.schema).map((path) => `${key} ${path}`) : [],
    )
    expect(inner.some(([, { body }]) => typeof body === 'object')).toBe(true)
    expect(found).toEqual([])
  })

  it('of clients: the reader counts lists, objects and values while bytes arrive, and a setting bounds the bytes', () => {
    const uncounted = rows.filter(
      ([, { body }]) =>
        typeof body === 'object' &&
        !(Number(body.reader.maxContainers) <= 4_000_000 && Number(body.reader.maxValues) <= 20_000_000),
    )
    expect(uncounted.map(([key]) => key)).toEqual([])
  })

  it('are read by one reader: nothing collects bytes or reads a body by itself', () => {
    const other = /\bcollectBytes\b|\.req(?:\.raw)?\.(?:json|text|arrayBuffer|blob|bytes|formData|parseBody)\(/
    const found = readSourceTree().filter(({ path, code }) => path.startsWith('src/service/') && other.test(code))
    expect(found.map(({ path }) => path)).toEqual([])
  })

  it('what looks for maxima finds what has none', () => {
    const schema = z.object({
      name: z.string(),
      digest: z.string().regex(/^[0-9a-f]{64}$/),
      open: z.string().regex(/^a+$/),
      list: z.array(z.string().max(3)),
      byName: z.record(z.string(), z.number()).nullable(),
      known: atMost(z.record(z.string(), z.number()), 3),
      further: z.object({}).catchall(z.number()),
    })
    expect(unbounded(schema)).toEqual([
      '.name: string',
      '.open: string',
      '.list: list',
      '.byName: record',
      '.byName{key}: string',
      '.further: further fields',
    ])
  })
})
