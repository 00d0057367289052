/**
 * What a person typed into the fields of options, as values of a request. Pure: the options are those that the server lists, none is named
 * here. Each is kept in the address as it was typed, under `o.` and its name; one inside an object under both names, as `o.lora.rank`.
 */
import type { KindOptions, TrainingOption } from '#contract/wire/training/option-list.js'

type InnerOption = Omit<TrainingOption, 'options'>
type Value = unknown

export const PREFIX = 'o.'

/** Texts of options in an address, by their names. */
export function typedOptions(query: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...query].flatMap(([name, text]) =>
      name.startsWith(PREFIX) && text !== '' ? [[name.slice(PREFIX.length), text]] : [],
    ),
  )
}

/** The same for a link, from the options that a job was asked with; objects as JSON, for only the server knows which hold options. */
export function toTyped(options: Readonly<Record<string, Value>>): readonly (readonly [string, string])[] {
  return Object.entries(options).flatMap(([name, value]): readonly (readonly [string, string])[] =>
    value === null || value === undefined
      ? []
      : [[PREFIX + name, typeof value === 'string' ? value : JSON.stringify(value)]],
  )
}

/** The same texts with the options inside an object, where it came as JSON, each under its own name. */
export function spreadObjects(
  { options }: KindOptions,
  typed: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  let spread = typed
  for (const option of options) {
    const { [option.name]: text, ...rest } = spread
    const value = option.options === null || text === undefined ? null : fromJson(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) continue
    const inner = toTyped(value as Readonly<Record<string, Value>>)
    spread = {
      ...Object.fromEntries(inner.map(([name, each]) => [`${option.name}.${name.slice(PREFIX.length)}`, each])),
      ...rest,
    }
  }
  return spread
}

/**
 * The options of a request: what was typed, and what is suggested where nothing was. What cannot be read as the option's type goes as it
 * is, and so does a name that is none of the options: the server's words about either are better than any here.
 */
export function toConfig(known: KindOptions, given: Readonly<Record<string, string>>): Record<string, Value> {
  const config: Record<string, Value> = {}
  const typed = spreadObjects(known, given)
  const unread = new Map(Object.entries(typed))
  for (const option of known.options) {
    const { name } = option
    if (option.options !== null) {
      const inner = option.options.flatMap((each) => {
        const text = typed[`${name}.${each.name}`]
        unread.delete(`${name}.${each.name}`)
        return text === undefined ? [] : [[each.name, readText(each, text)]]
      })
      if (inner.length > 0) config[name] = Object.fromEntries(inner)
    } else {
      const text = typed[name]
      unread.delete(name)
      if (text !== undefined) config[name] = readText(option, text)
      else if (option.suggested !== null) config[name] = option.suggested
    }
  }
  return { ...config, ...Object.fromEntries(unread) }
}

function readText(option: InnerOption, text: string): Value {
  switch (option.type) {
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text
    case 'number':
    case 'integer': {
      if (option.takes_list && text.trim().startsWith('[')) return fromJson(text)
      const number = Number(text)
      return text.trim() === '' || !Number.isFinite(number) ? text : number
    }
    case 'fields':
      return fromJson(text)
    default:
      return text
  }
}

function fromJson(text: string): Value {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** What an option is where nobody says otherwise, for a person. */
export function describeDefault(option: InnerOption): string {
  if (option.default === null) return option.otherwise ?? 'not set'
  return option.type === 'boolean' ? (option.default === true ? 'on' : 'off') : showValue(option.default)
}

export function showValue(value: Value): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off'
  if (typeof value === 'number' && value > 0 && value < 0.001) return value.toExponential()
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Options that a sentence names, for a way from a warning to the field that answers it. */
export function optionsNamedIn(sentence: string, { options }: KindOptions): readonly string[] {
  const words = new Set(sentence.match(/[a-z][a-z0-9_]+/g) ?? [])
  return options.flatMap(({ name }) => (words.has(name) ? [name] : []))
}
