/**
 * Whether a compiled grammar takes a text, asked byte by byte: a vocabulary of all 256 bytes and one token that ends.
 */

const STOP = 256

/** A token table, as `createTokenTable` makes it of a tokenizer. */
export function byteTable() {
  const offsets = new SharedArrayBuffer(4 * (STOP + 2))
  const bytes = new SharedArrayBuffer(STOP)
  new Uint8Array(bytes).set(Array.from({ length: STOP }, (_, byte) => byte))
  new Uint32Array(offsets).set([...Array.from({ length: STOP + 1 }, (_, byte) => byte), STOP])
  return { offsets, bytes, stopTokenIds: [STOP], controls: new Map() }
}

/** Whether the whole text may be written, and may end there. */
export function accepts(grammar, text) {
  const mask = grammar.open()
  const has = (words, id) => ((words[id >>> 5] >>> (id & 31)) & 1) === 1
  try {
    for (const byte of Buffer.from(text)) {
      if (!has(mask.next(), byte)) return false
      mask.accept(byte)
    }
    return has(mask.next(), STOP)
  } finally {
    mask.close()
  }
}

/** Whether a value may be written: compact JSON with the properties of small objects in any order. */
export function acceptsValue(grammar, value) {
  for (const text of spellings(value)) if (accepts(grammar, text)) return true
  return false
}

function* spellings(value) {
  if (Array.isArray(value)) yield* combine(value.map(spellingsOf), (parts) => `[${parts.join(',')}]`)
  else if (value !== null && typeof value === 'object') {
    const entries = Object.keys(value)
    for (const order of entries.length > 4 ? [entries] : orders(entries)) {
      const members = order.map((name) => spellingsOf(value[name]).map((text) => `${JSON.stringify(name)}:${text}`))
      yield* combine(members, (parts) => `{${parts.join(',')}}`)
    }
  } else yield JSON.stringify(value)
}

function spellingsOf(value) {
  return [...spellings(value)].slice(0, 100)
}

function* orders(names) {
  if (names.length === 0) yield []
  for (const [index, name] of names.entries()) {
    for (const rest of orders(names.toSpliced(index, 1))) yield [name, ...rest]
  }
}

function* combine(lists, join, chosen = []) {
  const list = lists[chosen.length]
  if (list === undefined) yield join(chosen)
  else for (const text of list) yield* combine(lists, join, [...chosen, text])
}

const KEYWORDS_OF_TYPE = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
}
const COMBINING = ['$ref', 'const', 'enum', 'anyOf', 'oneOf', 'allOf']

const OBJECT_ONLY = new Set(['type', 'properties', 'required', 'allOf'])

/** Objects that only say their properties, put together by `allOf`, are one object; null for anything else. */
function merged(schema) {
  const parts = [schema, ...(schema.allOf ?? [])]
  const isPlain = (part) =>
    part !== null &&
    typeof part === 'object' &&
    Object.keys(part).every((name) => OBJECT_ONLY.has(name) || name === '$schema') &&
    (part === schema || part.allOf === undefined)
  if (!Array.isArray(schema.allOf) || !parts.every(isPlain)) return null
  const properties = Object.assign({}, ...parts.map((part) => part.properties ?? {}))
  const isShared = parts.flatMap((part) => Object.keys(part.properties ?? {})).length > Object.keys(properties).length
  return isShared ? null : { properties, required: parts.flatMap((part) => part.required ?? []) }
}

/**
 * The schema with what the documentation says of answers written out: a keyword without `type` means its own type, described objects
 * hold no others, tuples are whole, patterns match the whole text.
 */
export function documented(schema) {
  if (Array.isArray(schema)) return schema.map(documented)
  if (schema === null || typeof schema !== 'object') return schema
  const whole = merged(schema)
  if (whole !== null && Object.keys(whole.properties).length > 0) return documented(whole)
  const has = (name) => Object.hasOwn(schema, name)
  const result = { ...schema }
  for (const name of ['items', 'additionalProperties', 'prefixItems', 'anyOf', 'oneOf', 'allOf']) {
    if (has(name)) result[name] = documented(schema[name])
  }
  for (const name of ['properties', '$defs', 'definitions']) {
    if (!has(name)) continue
    result[name] = Object.fromEntries(Object.entries(schema[name]).map(([key, value]) => [key, documented(value)]))
  }
  if (COMBINING.some(has)) return result
  const implied = Object.entries(KEYWORDS_OF_TYPE).find(([, names]) => names.some(has))
  if (!has('type') && implied !== undefined) result.type = implied[0]
  if (has('properties') && !has('additionalProperties')) {
    const named = [...Object.keys(schema.properties), ...(schema.required ?? [])]
    result.additionalProperties = false
    result.properties = { ...Object.fromEntries(named.map((name) => [name, true])), ...result.properties }
  }
  if (has('prefixItems')) {
    result.minItems = Math.max(schema.prefixItems.length, schema.minItems ?? 0)
    if (!has('items')) result.items = false
  }
  if (Array.isArray(schema.items)) {
    result.minItems = Math.max(schema.items.length, schema.minItems ?? 0)
    if (!has('additionalItems')) result.additionalItems = false
  }
  if (has('pattern')) result.pattern = `^(?:${schema.pattern})$`
  return result
}
