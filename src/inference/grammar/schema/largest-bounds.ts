/**
 * What of a grammar is large, for the message that it takes too long: bounds and lists, with the tool and the place that they stand in.
 * A guess for people; the compiler does not say what took it so long.
 */
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { GrammarSpec } from '../grammar-spec.js'

const COUNTS = ['maxLength', 'minLength', 'maxItems', 'minItems']
const LISTS = ['enum', 'anyOf', 'oneOf', 'properties']
/** Smaller parts take nobody long. */
const LEAST = 16
const MOST_NAMED = 3

interface Part {
  readonly place: string
  readonly size: number
}

/** The largest parts, each as `tool "mail", #/properties/a/maxLength (65536)`; none where nothing is large, or is no schema. */
export function largestParts(spec: GrammarSpec): readonly string[] {
  const found: Part[] = []
  const note = (place: string, size: number): void => {
    if (size >= LEAST) found.push({ place, size })
  }
  if (spec.kind === 'regex') noteCounts(spec.pattern, '', note)
  else if (spec.kind === 'json_schema' || spec.kind === 'structural_tag') {
    const root = spec.kind === 'json_schema' ? spec.schema : spec.tag
    const tool = spec.kind === 'json_schema' && spec.tool !== undefined ? toolWords(spec.tool) : ''
    try {
      walk(parseExact(root), { path: '#', tool }, note)
    } catch {
      // what cannot be read has its own refusal
    }
  }
  const largest = found.toSorted((a, b) => b.size - a.size).slice(0, MOST_NAMED)
  return largest.map(({ place, size }) => `${place} (${size})`)
}

const toolWords = (name: string): string => `tool "${name.slice(0, 100)}", `

interface Place {
  readonly path: string
  /** With the comma behind it; empty outside of a tool. */
  readonly tool: string
}

function walk(value: JsonValue, { path, tool }: Place, note: (place: string, size: number) => void): void {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) walk(item, { path: `${path}/${index}`, tool }, note)
    return
  }
  if (!isJsonObject(value)) return
  for (const name of COUNTS) note(`${tool}${path}/${name}`, Number(value[name] ?? 0))
  for (const name of LISTS) note(`${tool}${path}/${name}`, Object.keys(value[name] ?? {}).length)
  if (typeof value['pattern'] === 'string') noteCounts(value['pattern'], `${tool}${path}/pattern`, note)
  const called = calledTool(value)
  for (const [name, item] of Object.entries(value)) {
    const isOwn = called !== null && (name === called.field || called.field === 'properties')
    if (called === null || !isOwn) walk(item, { path: `${path}/${name}`, tool }, note)
  }
  if (called !== null) walk(called.schema, { path: '#', tool: toolWords(called.name) }, note)
}

/** How often an expression repeats something. */
function noteCounts(pattern: string, place: string, note: (place: string, size: number) => void): void {
  for (const [times, least, most] of pattern.matchAll(/\{(\d+),?(\d*)\}/g)) {
    note(`${place === '' ? 'the repetition' : `${place} with`} ${times}`, Number(most === '' ? least : most))
  }
}

/** A call of one tool, in a list of calls or as a structural tag. */
function calledTool(
  value: JsonObject,
): { readonly name: string; readonly field: string; readonly schema: JsonValue } | null {
  const { properties, begin, content } = value
  if (isJsonObject(properties ?? null)) {
    const { name, parameters } = properties as JsonObject
    const [only] =
      isJsonObject(name ?? null) && Array.isArray((name as JsonObject)['enum'])
        ? ((name as JsonObject)['enum'] as JsonValue[])
        : []
    if (typeof only === 'string' && parameters !== undefined)
      return { name: only, field: 'properties', schema: parameters }
  }
  if (
    typeof begin === 'string' &&
    isJsonObject(content ?? null) &&
    (content as JsonObject)['json_schema'] !== undefined
  ) {
    const [, called] = /"name":\s*"([^"]+)"/.exec(begin) ?? []
    return { name: called ?? begin.trim(), field: 'content', schema: (content as JsonObject)['json_schema'] ?? null }
  }
  return null
}
