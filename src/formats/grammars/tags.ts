/**
 * Whether a finished answer is of a structural tag: free text with constrained parts, as xgrammar's documents describe them.
 * What is JSON of a schema is found here, and checked by whoever knows schemas.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { minOf } from '#base/util/lists.js'
import { readEbnf } from './ebnf.js'
import { type Grammar, UnknownForm } from './expression.js'
import { isLark, readLark } from './lark.js'
import { createRecognizer, type Recognizer } from './recognizer.js'
import { withFormat } from './tag-format.js'

/** A part of an answer that is to be JSON of one of these schemas. */
export interface JsonPart {
  readonly text: string
  readonly schemas: readonly JsonValue[]
}

/**
 * @returns the parts to check by their schemas; null for a text that is not of the tag
 * @throws {UnknownForm}; {TooLarge}
 */
export function matchTag(tag: JsonValue, text: string): readonly JsonPart[] | null {
  return new TagMatcher(text).ends(field(withFormat(tag), 'format'), 0).get(text.length) ?? null
}

/** @param text EBNF or Lark @throws {UnknownForm} */
export function readGrammar(text: string): Grammar {
  return isLark(text) ? readLark(text) : readEbnf(text)
}

/** Where texts end that begin at one place, and the JSON in them; an end that several ways lead to has the schemas of all. */
type Ends = Map<number, readonly JsonPart[]>

class TagMatcher {
  readonly #text: string
  readonly #recognizers = new Map<string, Recognizer>()

  constructor(text: string) {
    this.#text = text
  }

  ends(format: JsonValue | undefined, start: number): Ends {
    const text = this.#text
    switch (field(format, 'type')) {
      case 'const_string':
        return this.#literal(textField(format, 'value'), start)
      case 'any_text':
        return new Map(Array.from({ length: text.length - start + 1 }, (_, i) => [start + i, []]))
      case 'json_schema':
        return this.#json(field(format, 'json_schema'), start)
      case 'regex': {
        const pattern = textField(format, 'pattern')
        const source = { text: pattern, line: 0 }
        const rules = new Map([['root', { kind: 'pattern', pattern, flags: '', source } as const]])
        return this.#recognized(`regex ${pattern}`, () => ({ root: 'root', rules }), start)
      }
      case 'grammar': {
        const grammar = textField(format, 'grammar')
        return this.#recognized(`grammar ${grammar}`, () => readGrammar(grammar), start)
      }
      case 'sequence':
        return listField(format, 'elements').reduce<Ends>((ends, element) => this.#behind(ends, element), only(start))
      case 'or':
        return merged(listField(format, 'elements').map((element) => this.ends(element, start)))
      case 'tag':
        return this.#tag(format, start)
      case 'triggered_tags':
        return this.#triggered(format, start)
      case 'tags_with_separator':
        return this.#separated(format, start)
      default:
        throw new UnknownForm()
    }
  }

  #behind(before: Ends, format: JsonValue): Ends {
    return this.#continued(before, (start) => this.ends(format, start))
  }

  #continued(before: Ends, next: (start: number) => Ends): Ends {
    return merged([...before].map(([start, parts]) => withParts(next(start), parts)))
  }

  #literal(wanted: string, start: number): Ends {
    return this.#text.startsWith(wanted, start) ? only(start + wanted.length) : new Map()
  }

  #json(schema: JsonValue | undefined, start: number): Ends {
    if (schema === undefined) throw new UnknownForm()
    const first = start + (/^\s*/.exec(this.#text.slice(start))?.[0].length ?? 0)
    const end = jsonEnd(this.#text, first)
    if (end === null) return new Map()
    const read = typeof schema === 'string' ? (JSON.parse(schema) as JsonValue) : schema
    return new Map([[end, [{ text: this.#text.slice(first, end), schemas: [read] }]]])
  }

  #recognized(key: string, read: () => Grammar, start: number): Ends {
    let recognizer = this.#recognizers.get(key)
    if (recognizer === undefined) {
      recognizer = createRecognizer(read())
      this.#recognizers.set(key, recognizer)
    }
    return new Map(Array.from(recognizer.endsOf(this.#text, start), (end) => [end, []]))
  }

  #tag(tag: JsonValue | undefined, start: number): Ends {
    const content = this.#continued(this.#literal(textField(tag, 'begin'), start), (at) =>
      this.ends(field(tag, 'content'), at),
    )
    const end = field(tag, 'end')
    const marks = Array.isArray(end) ? end : [end]
    return this.#continued(content, (at) =>
      merged(
        marks.map((mark) => {
          if (typeof mark !== 'string') throw new UnknownForm()
          return this.#literal(mark, at)
        }),
      ),
    )
  }

  /** Free text has no trigger but those that begin a tag. */
  #triggered(format: JsonValue | undefined, start: number): Ends {
    const triggers = listField(format, 'triggers')
    const [isNeeded, stops] = [flag(format, 'at_least_one'), flag(format, 'stop_after_first')]
    const found: Ends[] = []
    const seen = new Set<number>([start])
    const waiting: [at: number, parts: readonly JsonPart[], isFirst: boolean][] = [[start, [], true]]
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [at, parts, isFirst] = next
      const places = triggers.map((trigger) => this.#text.indexOf(String(trigger), at)).filter((place) => place >= 0)
      const trigger = places.length === 0 ? null : minOf(places)
      const isEnough = !(isFirst && isNeeded)
      if (isEnough) {
        const last = trigger ?? this.#text.length
        found.push(new Map(Array.from({ length: last - at + 1 }, (_, i) => [at + i, parts])))
      }
      if (trigger === null) continue
      const behind = withParts(merged(listField(format, 'tags').map((tag) => this.#tag(tag, trigger))), parts)
      if (stops) found.push(behind)
      for (const [end, own] of stops ? [] : behind) {
        if (!seen.has(end)) waiting.push([end, own, false])
        seen.add(end)
      }
    }
    return merged(found)
  }

  #separated(format: JsonValue | undefined, start: number): Ends {
    const tags = listField(format, 'tags')
    const separator = textField(format, 'separator')
    const one = (at: number): Ends => merged(tags.map((tag) => this.#tag(tag, at)))
    const found: Ends[] = flag(format, 'at_least_one') ? [] : [only(start)]
    let ends = one(start)
    const seen = new Set<number>()
    while (ends.size > 0) {
      found.push(ends)
      if (flag(format, 'stop_after_first')) break
      for (const end of ends.keys()) seen.add(end)
      const next = this.#continued(
        this.#continued(ends, (at) => this.#literal(separator, at)),
        one,
      )
      ends = new Map([...next].filter(([end]) => !seen.has(end)))
    }
    return merged(found)
  }
}

function only(end: number): Ends {
  return new Map([[end, []]])
}

function withParts(ends: Ends, before: readonly JsonPart[]): Ends {
  return before.length === 0 ? ends : new Map([...ends].map(([end, parts]) => [end, [...before, ...parts]]))
}

/** Of two ways to one end that found other JSON neither is checked: which was meant is not known. */
function merged(all: readonly Ends[]): Ends {
  const ends: Ends = new Map()
  for (const each of all) {
    for (const [end, parts] of each) {
      const known = ends.get(end)
      ends.set(end, known === undefined ? parts : joined(known, parts))
    }
  }
  return ends
}

function joined(a: readonly JsonPart[], b: readonly JsonPart[]): readonly JsonPart[] {
  if (a.length !== b.length || a.some(({ text }, i) => text !== b[i]?.text)) return []
  return a.map(({ text, schemas }, i) => ({ text, schemas: [...new Set([...schemas, ...(b[i]?.schemas ?? [])])] }))
}

/** Where the JSON value ends that begins here; null where none does, or where it has no end. */
function jsonEnd(text: string, start: number): number | null {
  const SIMPLE = /"(?:\\[\s\S]|[^"\\])*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/uy
  SIMPLE.lastIndex = start
  if (SIMPLE.test(text)) return SIMPLE.lastIndex
  const PART = /"(?:\\[\s\S]|[^"\\])*"|[[\]{}]|[^"[\]{}]/uy
  let depth = 0
  PART.lastIndex = start
  for (let found = PART.exec(text); found !== null; found = PART.exec(text)) {
    const [part] = found
    if (part === '[' || part === '{') depth += 1
    if (part === ']' || part === '}') depth -= 1
    if (depth === 0) return /[\]}]/.test(part) ? PART.lastIndex : null
  }
  return null
}

function field(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (!isJsonObject(value as JsonObject)) throw new UnknownForm()
  return (value as JsonObject)[name]
}

function textField(value: JsonValue | undefined, name: string): string {
  const text = field(value, name)
  if (typeof text !== 'string') throw new UnknownForm()
  return text
}

function listField(value: JsonValue | undefined, name: string): readonly JsonValue[] {
  const list = field(value, name)
  if (!Array.isArray(list)) throw new UnknownForm()
  return list
}

function flag(value: JsonValue | undefined, name: string): boolean {
  return field(value, name) === true
}
