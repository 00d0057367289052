/**
 * Flags and positional arguments as values that carry their own parser, so that a bad value is the same usage error in
 * every command. Parsers throw `ExpectedError` with what they wanted; `define-command.ts` adds the flag's name.
 */
import { ExpectedError, parseDurationMs, parseLifetimeMs } from '#cli/config/parse-value.js'
import { type SettingKey, settings } from '#cli/config/schema.js'
import { parseChoice, parseInteger, parseNumber } from '../input/parse.js'
import type { AskedKind } from '../names/ask.js'
import { UsageError } from '../terminal/errors.js'

/** A flag; `T` is the value a command receives. */
export interface Flag<T> {
  /** As commander spells it: `--limit <n>`, `-o, --output <dir>`, `--no-stream`. */
  readonly spelling: string
  readonly summary: string
  readonly isAdvanced: boolean
  readonly isRepeatable: boolean
  /** The setting this flag sets; its value then comes from the settings, with their precedence. */
  readonly setting?: SettingKey
  /** Texts given, in order; none when the flag is absent. A switch gives `true` or `false`. */
  readonly read: (texts: readonly string[]) => T
}

/** A positional argument; `T` is the value a command receives. */
export interface Argument<T> {
  readonly summary: string
  readonly isRequired: boolean
  readonly isVariadic: boolean
  /** What a person at a terminal is asked when it is missing; elsewhere it is an error. */
  readonly asks?: AskedKind
  readonly read: (texts: readonly string[]) => T
}

interface FlagOptions<T> {
  readonly default?: T
  readonly isAdvanced?: boolean
}

function single<T>(parse: (text: string) => T) {
  function create(spelling: string, summary: string, options: { default: T; isAdvanced?: boolean }): Flag<T>
  function create(spelling: string, summary: string, options?: { isAdvanced?: boolean }): Flag<T | undefined>
  function create(spelling: string, summary: string, options: FlagOptions<T> = {}): Flag<T | undefined> {
    return {
      spelling,
      summary,
      isAdvanced: options.isAdvanced === true,
      isRepeatable: false,
      read: (texts) => {
        const last = texts.at(-1)
        return last === undefined ? options.default : parse(last)
      },
    }
  }
  return create
}

/** Flags by kind of value. An absent flag is `undefined`, its default, or an empty list. */
export const flag = {
  text: single(filled),
  /** A text the command cannot do without: absent, it is a usage error that says what it is for. */
  required: (
    spelling: string,
    summary: string,
    missing: { readonly what: string; readonly hint: string },
  ): Flag<string> => ({
    spelling,
    summary: `${summary}; required`,
    isAdvanced: false,
    isRepeatable: false,
    read: (texts) => {
      const last = texts.at(-1)
      if (last !== undefined) return filled(last)
      const name = longName(spelling)
      throw new UsageError('missing_option', `${name} with ${missing.what} is required`, {
        param: name,
        hint: missing.hint,
      })
    },
  }),
  duration: single(parseDurationMs),
  lifetime: single(parseLifetimeMs),
  integer: (least: number, most?: number) => single((text) => parseInteger(text, least, most)),
  number: (least?: number, most?: number) => single((text) => parseNumber(text, least, most)),
  choice: <T extends string>(choices: readonly T[]) => single((text) => parseChoice(text, choices)),
  custom: <T>(parse: (text: string) => T) => single(parse),
  /** On or absent. */
  switch: (spelling: string, summary: string, options: { isAdvanced?: boolean } = {}): Flag<boolean> => ({
    spelling,
    summary,
    isAdvanced: options.isAdvanced === true,
    isRepeatable: false,
    read: (texts) => texts.at(-1) === 'true',
  }),
  /** `--[no-]name`: true, false, or undefined when neither was given. Spell it without `no-`. */
  toggle: (spelling: string, summary: string, options: { isAdvanced?: boolean } = {}): Flag<boolean | undefined> => ({
    spelling: spelling.replace('--', '--[no-]'),
    summary,
    isAdvanced: options.isAdvanced === true,
    isRepeatable: false,
    read: (texts) => (texts.length === 0 ? undefined : texts.at(-1) === 'true'),
  }),
  /** The flag of a row of the settings table. */
  setting: (key: SettingKey, options: { isAdvanced?: boolean } = {}): Flag<undefined> => ({
    spelling: settings[key].flag ?? `--${key}`,
    summary: settings[key].summary,
    isAdvanced: options.isAdvanced === true,
    isRepeatable: settings[key].type === 'list',
    setting: key,
    read: () => undefined,
  }),
  /** May be given many times. */
  repeated: <T>(parse: (text: string) => T, spelling: string, summary: string): Flag<readonly T[]> => ({
    spelling,
    summary,
    isAdvanced: false,
    isRepeatable: true,
    read: (texts) => texts.map(parse),
  }),
}

/** An empty argument is a variable of a shell that was never set; as a name it would mean the whole list, or what has no name. */
function filled(text: string): string {
  if (text === '') throw new ExpectedError('text that is not empty')
  return text
}

/** Positional arguments by how many values they take. */
export const argument = {
  required: (summary: string, options: { readonly asks?: AskedKind } = {}): Argument<string> => ({
    ...options,
    summary,
    isRequired: true,
    isVariadic: false,
    read: (texts) => filled(texts[0] ?? ''),
  }),
  optional: (summary: string): Argument<string | undefined> => ({
    summary,
    isRequired: false,
    isVariadic: false,
    read: (texts) => texts[0],
  }),
  /** One or more; what is named twice is named once. */
  many: (summary: string, options: { readonly asks?: AskedKind } = {}): Argument<readonly string[]> => ({
    ...options,
    summary,
    isRequired: true,
    isVariadic: true,
    read: (texts) => [...new Set(texts.map(filled))],
  }),
  /** None or more. */
  rest: (summary: string): Argument<readonly string[]> => ({
    summary,
    isRequired: false,
    isVariadic: true,
    read: (texts) => texts,
  }),
}

/** `--limit` of `-l, --limit <n>`; `--no-stream` keeps its prefix. */
export function longName(spelling: string): string {
  return /--[a-z0-9-]+/.exec(spelling)?.[0] ?? spelling
}
