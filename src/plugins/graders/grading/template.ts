/**
 * `{{ item.answer }}` and `{{ sample.output_text }}` in texts of graders: values of a row and of an answer, by dots,
 * `[0]` and `['key']`.
 *
 * A text stands as it is, any other value as compact JSON in which 5.0 and big integers are as they were written.
 * There are no filters, and what was put in is not looked at again: an answer that holds braces stays text.
 */

import { stringifyExact } from '#base/json/exact-json.js'
import { isExactNumber } from '#base/json/exact-number.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'

const NAMESPACES = ['item', 'sample'] as const

/** What templates of one call see. */
export interface Namespaces {
  readonly item: JsonObject
  readonly sample: JsonObject
}

/** A place of a template. */
export interface Path {
  /** As it was written. */
  readonly text: string
  readonly steps: readonly (string | number)[]
}

/** A template that names nothing, or what is not there. */
export class VariableError extends Error {
  readonly path: Path | null

  constructor(message: string, path: Path | null) {
    super(message)
    this.path = path
  }
}

const PLACE = /\{\{(.*?)\}\}/gs
const STEP = /\.\s*([\p{L}_$][\p{L}\p{N}_$-]*)|\[\s*(?:(\d{1,9})|'([^']*)'|"([^"]*)")\s*\]/uy
/** Steps of a path. */
const DEEPEST = 64

/** @throws {VariableError} for what is no path of a namespace */
function readPath(text: string): Path {
  const trimmed = text.trim()
  const [namespace = ''] = /^\w*/.exec(trimmed) ?? []
  const steps: (string | number)[] = [namespace]
  STEP.lastIndex = namespace.length
  while (STEP.lastIndex < trimmed.length && steps.length <= DEEPEST) {
    const found = STEP.exec(trimmed)
    if (found === null) break
    const [, name, index, single, double] = found
    steps.push(index === undefined ? (name ?? single ?? double ?? '') : Number(index))
    if (STEP.lastIndex === trimmed.length) {
      if ((NAMESPACES as readonly string[]).includes(namespace)) return { text: trimmed, steps }
      break
    }
  }
  const wanted = 'expected item or sample and a path, as {{ item.answer }}'
  throw new VariableError(`{{${text.slice(0, 80)}}} names nothing: ${wanted}`, null)
}

/** The paths of a template. @throws {VariableError} */
export function pathsOf(template: string): readonly Path[] {
  return [...template.matchAll(PLACE)].map(([, text = '']) => readPath(text))
}

/** The value; undefined where there is none, null among them. */
export function valueAt({ steps }: Path, namespaces: Namespaces): JsonValue | undefined {
  let value: unknown = namespaces
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || isExactNumber(value) || !Object.hasOwn(value, step))
      return undefined
    if (Array.isArray(value) && typeof step !== 'number') return undefined
    value = (value as Readonly<Record<string | number, unknown>>)[step]
  }
  return value === null ? undefined : (value as JsonValue)
}

/** @throws {VariableError} for a path that names nothing, or nothing that is there */
export function render(template: string, namespaces: Namespaces): string {
  return template.replaceAll(PLACE, (_, text: string) => {
    const path = readPath(text)
    const value = valueAt(path, namespaces)
    if (value === undefined) {
      const where = path.steps[0] === 'item' ? 'row' : 'answer'
      throw new VariableError(`{{ ${path.text} }} is not in the ${where}, or null`, path)
    }
    return typeof value === 'string' ? value : stringifyExact(value)
  })
}
