/**
 * Structural tags: free text with constrained parts, as xgrammar 0.1.27 reads them.
 *
 * Schemas inside are taken out before the grammar's thread gets the tag and come back there as grammars, so that they are honoured
 * as the schema of a whole answer is. A schema that this program marks `is_lax` is honoured as far as possible.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { withFormat } from '#formats/grammars/tag-format.js'
import { checkHeap } from './heap-limit.js'
import { type GrammarSchema, toGrammarSchema } from './schema/json-schema.js'

/** What stands for parts of other kinds. @throws {InvalidRequestError} `invalid_grammar` */
export interface PartWriter {
  readonly grammar: (text: string) => string
  readonly regex: (pattern: string) => string
}

/** Stands for the schema of that number. */
const NUMBERED_SCHEMA = 'numbered_schema'

/**
 * A tag whose schemas are numbers in a list, and whose regular expressions and grammars are written for the compiler.
 *
 * @throws {InvalidRequestError} `invalid_grammar` for what is no JSON, `unsupported_schema` naming the keyword
 */
export function toNumberedTag(
  text: string,
  write: PartWriter,
  { reach }: { readonly reach?: number } = {},
): { readonly tag: string; readonly schemas: readonly GrammarSchema[] } {
  const schemas: GrammarSchema[] = []
  const numbered = (schema: JsonValue, isLax: boolean): JsonObject => {
    const read = typeof schema === 'string' ? parseJson(schema, 'a schema in a tag') : schema
    schemas.push(toGrammarSchema(read, { isLax, ...(reach === undefined ? {} : { reach }) }))
    return { type: NUMBERED_SCHEMA, index: schemas.length - 1 }
  }
  const convert = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(convert)
    if (!isJsonObject(value)) return value
    if (value['type'] === 'json_schema' && value['json_schema'] !== undefined)
      return numbered(value['json_schema'], value['is_lax'] === true)
    if (value['type'] === 'regex' && typeof value['pattern'] === 'string')
      return { type: 'grammar', grammar: write.regex(value['pattern']) }
    if (value['type'] === 'grammar' && typeof value['grammar'] === 'string')
      return { type: 'grammar', grammar: write.grammar(value['grammar']) }
    if (value['type'] === 'qwen_xml_parameter') {
      const message = 'a structural tag has the format "qwen_xml_parameter", whose schema cannot be held to as a whole'
      throw new InvalidRequestError('invalid_grammar', message, { hint: 'use "json_schema"' })
    }
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, convert(inner)]))
  }
  const tag = convert(withFormat(parseJson(text, 'a structural tag')))
  return { tag: stringifyExact(tag), schemas }
}

/** Where the texts of a tag stand that are written as they are. */
const MARKS: readonly string[] = ['begin', 'end', 'separator', 'triggers']

/** Of some control tokens those that a tag without schemas has as marks of its own, or as parts of them. */
export function markedControls(tag: string, controls: ReadonlyMap<number, string>): ReadonlyMap<number, string> {
  const marks: string[] = []
  const collect = (value: JsonValue): void => {
    if (Array.isArray(value)) value.forEach(collect)
    if (!isJsonObject(value)) return
    for (const [name, inner] of Object.entries(value)) {
      if (MARKS.includes(name))
        append(
          marks,
          [inner].flat().filter((mark) => typeof mark === 'string'),
        )
      collect(inner)
    }
  }
  collect(parseExact(tag))
  return new Map([...controls].filter(([, text]) => text !== '' && marks.some((mark) => mark.includes(text))))
}

/** The tag with grammars in the places of numbered schemas. */
export function withGrammars(tag: string, grammars: readonly string[]): string {
  const convert = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(convert)
    if (!isJsonObject(value)) return value
    if (value['type'] === NUMBERED_SCHEMA) return { type: 'grammar', grammar: grammars[Number(value['index'])] ?? '' }
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, convert(inner)]))
  }
  // the text is put together here, and copied to the compiler
  checkHeap(grammars.reduce((sum, { length }) => sum + 2 * length, 2 * tag.length))
  return stringifyExact(convert(parseExact(tag)))
}

/** @throws {InvalidRequestError} `invalid_grammar` */
export function parseJson(text: string, what: string): JsonValue {
  let value: JsonValue
  try {
    value = parseExact(text)
  } catch (cause) {
    throw new InvalidRequestError('invalid_grammar', `${what} must be JSON text, as an object it works too`, { cause })
  }
  // as it stands in a text it is an escape
  const place = /\\u[dD][89a-fA-F]/.test(text) ? findHalf(value, '#') : null
  if (place === null) return value
  throw new InvalidRequestError(
    'invalid_grammar',
    `${what} at ${place} has half of a surrogate pair, which is no character`,
  )
}

/** Where a text or a name is no text, if any is. */
function findHalf(value: JsonValue, path: string): string | null {
  if (typeof value === 'string') return /\p{Surrogate}/u.test(value) ? path : null
  if (Array.isArray(value)) return firstOf(value.map((item, index) => () => findHalf(item, `${path}/${index}`)))
  if (!isJsonObject(value)) return null
  return firstOf(
    Object.entries(value).map(
      ([name, item]) =>
        () =>
          findHalf(name, path) ?? findHalf(item, `${path}/${name}`),
    ),
  )
}

function firstOf(looks: readonly (() => string | null)[]): string | null {
  for (const look of looks) {
    const found = look()
    if (found !== null) return found
  }
  return null
}
