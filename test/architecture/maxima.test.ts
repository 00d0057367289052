/**
 * Whatever others send has a maximum: each string, list and record of the bodies of endpoints, of workers' messages and of engine nodes' messages; and bodies are read by one reader.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { MEDIA_PARTS } from '#base/content-parts.js'
import type { Endpoint } from '#contract/endpoints/endpoint.js'
import { atMost, boundOf, byBody, kept } from '#contract/wire/maxima.js'
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

interface Elsewhere {
  readonly body: string[]
  readonly kept: string[]
}

/** Read from a text of some characters, and a number or a truth value from then on. */
const isScalar = (schema: z.ZodType): boolean =>
  ['boolean', 'integer', 'number'].includes(String(schema.meta()?.['type']))

/** Paths of what has no maximum. @param elsewhere gets those of what is bounded as a whole */
function unbounded(root: z.ZodType, elsewhere: Elsewhere = { body: [], kept: [] }): string[] {
  const found: string[] = []
  const seen = new Set<z.ZodType>()
  const visit = (schema: z.ZodType, path: string): void => {
    if (seen.has(schema) || isScalar(schema)) return
    seen.add(schema)
    const bound = boundOf(schema)
    if (bound !== undefined) {
      elsewhere[bound].push(path)
      // its known fields have their own
      if (schema instanceof z.ZodObject)
        for (const [name, field] of Object.entries(schema.shape)) visit(field as z.ZodType, `${path}.${name}`)
      return
    }
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

/** Fields of clients that their body alone bounds: what is said, what it is held to, and what nobody keeps for a list. */
const BY_BODY = [
  // a request of a rollout, which the path that it is passed on to checks
  '',
  // a grader, a row and an answer
  ...['grader', 'item', 'model_sample', 'data_source'],
  // refused unless they are empty
  ...['content_parts', 'ec_transfer_params', 'features'],
  // texts, and blocks and items of conversations
  ...[
    'content',
    'text',
    'thinking',
    'refusal',
    'reasoning',
    'reasoning_content',
    'prompt',
    'suffix',
    'system',
    'input',
  ],
  ...[
    'instructions',
    'type',
    'id',
    'name',
    'data',
    'signature',
    'citations',
    'caller',
    'source',
    'is_error',
    'tool_use_id',
  ],
  ...['messages', 'documents', 'tool_calls', 'function_call', 'conversation', 'variables', 'events'],
  ...MEDIA_PARTS,
  // tools, schemas, grammars and templates
  ...['tools', 'function', 'functions', 'description', 'parameters', 'input_schema', 'tool_choice', 'response_format'],
  ...['structured_outputs', 'format', 'json_schema', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'],
  ...['grammar', 'chat_template', 'chat_template_kwargs', 'logit_bias', 'display', 'budget_tokens'],
  // what is not served, or read by whoever it is for
  ...[
    'mm_processor_kwargs',
    'kv_transfer_params',
    'container',
    'mcp_servers',
    'stream_options',
    'target_prompt_logprobs',
  ],
  ...['model_id', 'chunks', 'trajectory_groups'],
]

/** Data of clients that comes back in lists. */
const KEPT = [
  'POST /v1/preview/training-jobs .experimental_config',
  'POST /v1/preview/sft-training-jobs .config',
  'POST /v1/preview/sft-training-jobs .experimental_config',
  'POST /v1/preview/dpo-training-jobs .config',
  'POST /v1/preview/loops .sampling',
  'POST /v1/preview/loops .config',
  'POST /v1/preview/loops .tools',
  ...['grader', 'response_format', 'tools'].map((name) => `POST /v1/fine_tuning/jobs .method.reinforcement.${name}`),
  'POST /v1/fine_tuning/jobs .integrations',
  ...['data_source_config', 'data_source_config.item_schema', 'testing_criteria'].map(
    (name) => `POST /v1/evals .${name}`,
  ),
  ...['create_session', 'create_model', 'save_weights', 'save_weights_for_sampler', 'load_weights'].map(
    (name) => `POST /api/v1/${name} .user_metadata`,
  ),
]

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

  it('of clients: each string, list and record has a maximum, is kept with one for the whole, or is one of these', () => {
    const found: string[] = []
    const elsewhere: Elsewhere = { body: [], kept: [] }
    for (const [key, { body }] of rows) {
      if (typeof body !== 'object') continue
      const own: Elsewhere = { body: [], kept: [] }
      found.push(...unbounded(body.schema, own).map((path) => `${key} ${path}`))
      elsewhere.body.push(...own.body)
      elsewhere.kept.push(...own.kept.map((path) => `${key} ${path}`))
    }
    expect(found).toEqual([])
    const names = elsewhere.body.map((path) => path.replaceAll(/\|\d+/g, '').replace(/^.*\./, '').replaceAll('[]', ''))
    expect(new Set(names)).toEqual(new Set(BY_BODY))
    expect(elsewhere.kept).toEqual(KEPT)
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
      said: byBody(z.looseObject({ inner: z.string() })),
      own: kept(z.record(z.string(), z.json())),
    })
    expect(unbounded(schema)).toEqual([
      '.name: string',
      '.open: string',
      '.list: list',
      '.byName: record',
      '.byName{key}: string',
      '.further: further fields',
      '.said.inner: string',
    ])
  })
})
