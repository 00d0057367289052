/**
 * The public JSON Schema test suite: what a schema forbids no answer can be, what it allows an answer may be as far as the
 * documentation says, everything else is refused by name. Skipped where the suite was not fetched (`.ci/run`).
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { describe, expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import type { JsonValue } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import { compileGrammar, type Grammar } from '#inference/grammar/grammar.js'
import { acceptsValue, byteTable, documented } from '../../support/schemas/acceptor.js'

interface Group {
  readonly description: string
  readonly schema: JsonValue
  readonly tests: readonly { readonly description: string; readonly data: JsonValue; readonly valid: boolean }[]
}

const suite = join(packageRoot(), '.cache/json-schema-suite/tests')
// a property is one that the value has, not one of its prototype
const OPTIONS = { strict: false, ownProperties: true }
const table = byteTable()
/** ajv leaves this property out of every schema. */
const UNKNOWN_TO_AJV = '"__proto__"'
/** Rarely written forms that a format allows and no answer takes. */
const RARE = /leap second|case-insensitive|quoted string|address-literal/

function filesOf(folder: string): string[] {
  // tests are listed also where they are skipped
  if (!existsSync(suite)) return ['not fetched']
  return readdirSync(join(suite, folder)).filter((name) => name.endsWith('.json'))
}

function readGroups(...path: string[]): Group[] {
  return JSON.parse(readFileSync(join(suite, ...path), 'utf8'))
}

/** @returns null if it is refused by name */
async function compile(schema: JsonValue, where: string): Promise<Grammar | null> {
  const spec = { kind: 'json_schema', schema: JSON.stringify(schema), isWhitespaceFree: true } as const
  try {
    return await compileGrammar(spec, table, { clock: systemClock })
  } catch (error) {
    expect(error, where).toMatchObject({ code: 'unsupported_schema', message: expect.stringContaining('at #') })
    return null
  }
}

/** @returns how many groups were taken */
async function check(groups: readonly Group[], file: string, isFormat: boolean): Promise<number> {
  let taken = 0
  for (const { description, schema, tests } of groups) {
    const grammar = await compile(schema, `${file}: ${description}`)
    if (grammar === null) continue
    taken++
    const ajv = file.startsWith('draft7') ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
    addFormats.default(ajv)
    const isDocumented = ajv.compile(withoutDialect(documented(schema)))
    for (const { description: which, data, valid } of tests) {
      const where = `${file}: ${description}: ${which}: ${JSON.stringify(data)} ${JSON.stringify(schema).slice(0, 300)}`
      const isAccepted = acceptsValue(grammar, data)
      if (!valid) expect(isAccepted, where).toBe(false)
      else if (!(isFormat && RARE.test(which)) && !JSON.stringify(schema).includes(UNKNOWN_TO_AJV))
        expect(isAccepted, where).toBe(isDocumented(data))
    }
    await grammar.dispose()
  }
  return taken
}

/** The dialect is chosen by folder; some name one that is on no disk. */
function withoutDialect(schema: unknown): object | boolean {
  if (typeof schema === 'boolean') return schema
  const { $schema: _, $id: _id, ...rest } = schema as Record<string, unknown>
  return rest
}

describe.skipIf(!existsSync(suite))('the JSON Schema test suite', { timeout: 300_000 }, () => {
  /** Groups that were compiled, and all, by file. */
  const takenOf = new Map<string, readonly [taken: number, all: number]>()
  // draft 7 differs in these
  const drafts = { 'draft2020-12': null, draft7: ['definitions.json', 'items.json', 'ref.json'] } as const
  const files = Object.entries(drafts).flatMap(([draft, names]) =>
    (names ?? filesOf(draft)).map((name) => [draft, name] as const),
  )

  test.each(files)('%s %s', async (draft, name) => {
    const groups = readGroups(draft, name)
    const file = `${draft}/${name}`
    takenOf.set(file, [await check(groups, file, false), groups.length])
  })

  test.each(filesOf('draft2020-12/optional/format'))('format %s', async (name) => {
    await check(readGroups('draft2020-12/optional/format', name), name, true)
  })

  test('most groups of supported keywords are not refused', () => {
    const supported = [
      'additionalProperties',
      'anyOf',
      'const',
      'enum',
      'items',
      'pattern',
      'properties',
      'required',
      'type',
    ]
    const counts = supported.flatMap((name) => [takenOf.get(`draft2020-12/${name}.json`) ?? ([1, 1] as const)])
    const sum = (index: 0 | 1): number => counts.reduce((total, count) => total + count[index], 0)
    expect(sum(0) / sum(1)).toBeGreaterThan(0.75)
  })
})
