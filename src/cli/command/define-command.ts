/**
 * A command as data: path, summary, examples, arguments, flags, exit codes and one function.
 *
 * Help, completion, the README table and the contract tests all read this. Flags and arguments carry their own parser, so
 * a command receives typed values and a bad one is the same usage error everywhere.
 * Commander only splits the command line into words, flags and their texts.
 */
import { CommanderError, Option, Command as Parser } from 'commander'
import { ExpectedError } from '#cli/config/parse-value.js'
import { type SettingKey, settings } from '#cli/config/schema.js'
import type { CommandContext } from './context.js'
import { UsageError } from './errors.js'
import type { ExitName } from './exit-codes.js'
import type { Argument, Flag } from './flags.js'

export type Flags = Readonly<Record<string, Flag<unknown>>>
export type Arguments = Readonly<Record<string, Argument<unknown>>>
type FlagValues<F extends Flags> = { readonly [K in keyof F]: F[K] extends Flag<infer T> ? T : never }
type ArgumentValues<A extends Arguments> = { readonly [K in keyof A]: A[K] extends Argument<infer T> ? T : never }

/** What a person reads about a command; shared by the definition and the erased form. */
export interface CommandDescription {
  /** Words after `trainyard`: `['checkpoints', 'list']`. */
  readonly path: readonly string[]
  readonly summary: string
  /** More than one sentence, when one is not enough. */
  readonly details?: string
  /** At least two: command line and what it does. */
  readonly examples: readonly (readonly [string, string])[]
  /** Exit codes beyond the common ones. */
  readonly exits?: readonly ExitName[]
  /** Environment variables that matter here beyond the global ones. */
  readonly environment?: readonly (readonly [string, string])[]
  /** Commands one usually runs next. */
  readonly next?: readonly string[]
}

interface CommandDefinition<A extends Arguments, F extends Flags> extends CommandDescription {
  readonly args: A
  readonly flags: F
  /** Runs the command; every outcome but success is thrown, never printed. */
  run(input: CommandContext & { readonly args: ArgumentValues<A>; readonly flags: FlagValues<F> }): Promise<void>
}

/** Raw texts from the parser. */
export interface RawInput {
  readonly args: readonly (readonly string[])[]
  readonly flags: Readonly<Record<string, readonly string[]>>
}

/** A command whose argument and flag types are erased, for tables of commands. */
export interface Command extends CommandDescription {
  readonly args: Arguments
  readonly flags: Flags
  /**
   * Parses the raw input and runs.
   *
   * @throws {UsageError} `invalid_argument` naming the flag or argument
   */
  invoke(context: CommandContext, raw: RawInput): Promise<void>
}

/** Defines a command; the types of `args` and `flags` flow into `run`. */
export function defineCommand<const A extends Arguments, const F extends Flags>(
  definition: CommandDefinition<A, F>,
): Command {
  return {
    ...definition,
    async invoke(context, raw) {
      const args: Record<string, unknown> = {}
      const flags: Record<string, unknown> = {}
      for (const [name, flag] of Object.entries(definition.flags)) {
        flags[name] = readInput(longName(flag.spelling), flag.read, raw.flags[name] ?? [])
      }
      // after the flags: a wrong one is said before anything is asked
      for (const [i, [name, argument]] of Object.entries(definition.args).entries()) {
        const given = raw.args[i] ?? []
        const isMissing = argument.isRequired && given.length === 0
        const texts = isMissing ? [await askFor(name, argument, { context, path: definition.path })] : given
        args[name] = readInput(`<${name}>`, argument.read, texts)
      }
      await definition.run({
        ...context,
        args: args as ArgumentValues<A>,
        flags: flags as FlagValues<F>,
      })
    },
  }
}

/** Asks a person for what is missing. @throws {UsageError} `missing_argument` where nobody can be asked */
async function askFor(
  name: string,
  { asks }: Argument<unknown>,
  { context, path }: { readonly context: CommandContext; readonly path: readonly string[] },
): Promise<string> {
  if (asks === undefined || !context.prompts.canAsk) {
    throw new UsageError('missing_argument', `missing required argument "${name}"`, {
      hint: ['trainyard', ...path, '--help'].join(' '),
    })
  }
  const { askForArgument } = await import('../input/ask.js')
  return await askForArgument(context, asks)
}

/** `--limit` of `-l, --limit <n>`; `--no-stream` keeps its prefix. */
export function longName(spelling: string): string {
  return /--[a-z0-9-]+/.exec(spelling)?.[0] ?? spelling
}

function readInput<T>(name: string, read: (texts: readonly string[]) => T, texts: readonly string[]): T {
  try {
    return read(texts)
  } catch (cause) {
    if (!(cause instanceof ExpectedError)) throw cause
    const got = texts.length === 0 ? '' : `, got "${texts.join(' ')}"`
    throw new UsageError('invalid_argument', `${name} must be ${cause.message}${got}`, { param: name, cause })
  }
}

/** A line of the table of contents: enough for help and suggestions without loading the command. */
export interface CommandEntry {
  readonly path: readonly string[]
  readonly summary: string
  readonly load: () => Promise<Command>
}

/** What a command line asks for. */
export type ParsedLine =
  | { readonly kind: 'run'; readonly raw: RawInput; readonly globals: GlobalFlags }
  | { readonly kind: 'help'; readonly path: readonly string[]; readonly isAsked: boolean }
  | { readonly kind: 'version' }

/** Flags that belong to every command, as texts of settings. */
export interface GlobalFlags {
  readonly settings: Readonly<Partial<Record<SettingKey, string>>>
  readonly isQuiet: boolean
}

/** Other spellings of verbs, few and fixed. */
export const aliases: Readonly<Record<string, string>> = {
  ls: 'list',
  rm: 'delete',
  doctor: 'system-check',
  run: 'chat',
}

/** Settings whose flag belongs to every command, in table order. */
export const globalSettings: readonly SettingKey[] = (Object.keys(settings) as SettingKey[]).filter(
  (key) => settings[key].usedBy === 'client' && settings[key].flag !== null,
)

/** The entry a command line names, found without knowing its flags; undefined for a bare noun or an unknown word. */
export function findEntry(argv: readonly string[], entries: readonly CommandEntry[]): CommandEntry | undefined {
  const takesValue = new Set(
    globalSettings.filter((key) => settings[key].flag?.includes('<')).map((key) => longName(settings[key].flag ?? '')),
  )
  const words: string[] = []
  for (let i = 0; i < argv.length && words.length < 2; i += 1) {
    const token = argv[i] ?? ''
    if (token === '--') break
    if (takesValue.has(token)) i += 1
    else if (!token.startsWith('-')) words.push(aliases[token] ?? token)
    const entry = entries.find((each) => each.path.join(' ') === words.join(' '))
    if (entry !== undefined) return entry
  }
  return undefined
}

/**
 * Splits a command line.
 *
 * @param selected the loaded command that `findEntry` found
 * @throws {UsageError} `unknown_option`, `unknown_command`, `missing_argument`, `excess_arguments`…
 */
export function parseCommandLine(
  argv: readonly string[],
  entries: readonly CommandEntry[],
  selected: Command | undefined,
): ParsedLine {
  const program = createParser('trainyard')
  for (const key of globalSettings) program.addOption(new Option(settings[key].flag ?? ''))
  program.option('-q, --quiet').option('-V, --version')
  let line: ParsedLine | undefined
  const groups = new Map<string, Parser>()
  for (const entry of entries) {
    const [noun, verb] = entry.path
    if (noun === undefined) continue
    let parent = program
    if (verb !== undefined) {
      parent = groups.get(noun) ?? addParser(program, noun)
      groups.set(noun, parent)
    }
    const leaf = addParser(parent, verb ?? noun)
    if (selected !== undefined && selected.path.join(' ') === entry.path.join(' ')) {
      const read = addInputs(leaf, selected)
      leaf.action(() => {
        line = { kind: 'run', raw: read(), globals: readGlobals(program) }
      })
    }
  }
  try {
    program.parse([...argv], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    const isHelp = error.code === 'commander.helpDisplayed' || error.code === 'commander.help'
    const isVersion = program.getOptionValue('version') === true
    if (isHelp && isVersion) return { kind: 'version' }
    if (isHelp) return { kind: 'help', path: helpPath(argv, entries), isAsked: error.code !== 'commander.help' }
    throw toUsageError(error, selected?.path ?? helpPath(argv, entries))
  }
  if (line !== undefined && program.getOptionValue('version') !== true) return line
  return program.getOptionValue('version') === true ? { kind: 'version' } : { kind: 'help', path: [], isAsked: true }
}

function createParser(name: string): Parser {
  return new Parser(name)
    .exitOverride()
    .configureOutput({ writeOut: () => undefined, writeErr: () => undefined, outputError: () => undefined })
    .helpCommand(false)
    .helpOption('-h, --help')
}

function addParser(parent: Parser, name: string): Parser {
  const parser = parent.command(name).helpCommand(false)
  for (const [alias, verb] of Object.entries(aliases)) if (verb === name) parser.alias(alias)
  return parser
}

/** Adds a command's arguments and flags; returns the function that reads them after parsing. */
function addInputs(parser: Parser, command: Command): () => RawInput {
  for (const [name, argument] of Object.entries(command.args)) {
    const word = `${name}${argument.isVariadic ? '...' : ''}`
    // what a person can be asked for may be missing here
    parser.argument(argument.isRequired && argument.asks === undefined ? `<${word}>` : `[${word}]`)
  }
  const options = new Map<string, Option[]>()
  for (const [name, flag] of Object.entries(command.flags)) {
    const spellings = flag.spelling.includes('[no-]')
      ? [flag.spelling.replace('[no-]', ''), flag.spelling.replace('[no-]', 'no-')]
      : [flag.spelling]
    const made = spellings.map((spelling) => new Option(spelling))
    for (const option of made) {
      if (option.required) option.argParser((text: string, previous: unknown) => [...toTexts(previous), text])
      parser.addOption(option)
    }
    options.set(name, made)
  }
  return () => ({
    args: Object.values(command.args).map((_argument, i) => toTexts(parser.processedArgs[i])),
    flags: Object.fromEntries([...options].map(([name, made]) => [name, readOption(parser, made)])),
  })
}

/** Texts of a flag that was given; a lone `--no-x` reads as true because its name already says no. */
function readOption(parser: Parser, options: readonly Option[]): readonly string[] {
  const [option] = options
  if (option === undefined || parser.getOptionValueSource(option.attributeName()) !== 'cli') return []
  const value: unknown = parser.getOptionValue(option.attributeName())
  if (options.length === 1 && option.negate) return [String(value === false)]
  return typeof value === 'boolean' ? [String(value)] : toTexts(value)
}

function readGlobals(program: Parser): GlobalFlags {
  const given: Partial<Record<SettingKey, string>> = {}
  for (const key of globalSettings) {
    const option = new Option(settings[key].flag ?? '')
    if (program.getOptionValueSource(option.attributeName()) !== 'cli') continue
    const value: unknown = program.getOptionValue(option.attributeName())
    // `--no-color` sets color to false, `--no-input` sets no-input to true.
    given[key] = key === 'no-input' ? String(value === false) : String(value)
  }
  return { settings: given, isQuiet: program.getOptionValue('quiet') === true }
}

function toTexts(value: unknown): readonly string[] {
  if (value === undefined || value === null) return []
  return Array.isArray(value) ? value.map(String) : [String(value)]
}

/** Words of the command line that are a command or a noun. */
function helpPath(argv: readonly string[], entries: readonly CommandEntry[]): readonly string[] {
  const entry = findEntry(argv, entries)
  if (entry !== undefined) return entry.path
  const noun = argv.find((token) => entries.some((each) => each.path.length > 1 && each.path[0] === token))
  return noun === undefined ? [] : [noun]
}

/** Words of other tools for what is here. */
const elsewhere: Readonly<Record<string, string>> = {
  add: 'base-models add',
  pull: 'base-models add',
  cancel: 'jobs cancel',
  create: 'models create',
  delete: 'models delete',
  rm: 'models delete',
  download: 'checkpoints download',
  export: 'checkpoints download',
  finetune: 'train sft',
  'fine-tune': 'train sft',
  generate: 'chat',
  list: 'models list',
  ls: 'models list',
  login: 'config set api-key',
  logs: 'jobs events',
  events: 'jobs events',
  wait: 'jobs wait',
  ps: 'jobs list',
  start: 'serve',
  server: 'serve',
  sample: 'rollout',
  evaluate: 'eval',
  status: 'system-check',
}

/** Commander's sentence, its suggestion split off. */
function toUsageError(error: CommanderError, path: readonly string[]): UsageError {
  const suggestion = /\(Did you mean (?:one of )?([^)]*?)\??\)/.exec(error.message)?.[1]
  const message = error.message
    .replace(/^error: /, '')
    .replace(/\s*\(Did you mean[^)]*\)\s*/s, '')
    .replaceAll("'", '"')
  const asked = error.code === 'commander.unknownCommand' ? /"([^"]+)"/.exec(message)?.[1] : undefined
  const meant = asked === undefined ? undefined : elsewhere[asked]
  const code = error.code.replace(/^commander\./, '').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return new UsageError(code, message, {
    suggestion: meant ?? suggestion,
    hint: ['trainyard', ...path, '--help'].join(' '),
  })
}
