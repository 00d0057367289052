/**
 * From words to a command and the texts of its flags and arguments. Commander only splits the line: what a text means is for
 * the flag that it was given to.
 */
import { CommanderError, Option, Command as Parser } from 'commander'
import { type SettingKey, settings } from '#cli/config/schema.js'
import { UsageError } from '../terminal/errors.js'
import type { Command, NamespaceKey, RawInput } from './define-command.js'
import { longName } from './flags.js'

/** A line of the table of contents: enough for help and suggestions without loading the command. */
export interface CommandEntry {
  readonly path: readonly string[]
  readonly summary: string
  /** Of the short help; only the help of everything shows what has none. */
  readonly group?: 'begin' | 'train' | 'use' | undefined
  /** Listed under its noun alone: what it shows stands elsewhere as well. */
  readonly isHidden?: boolean | undefined
  /** Name of the plugin that brings it. */
  readonly plugin?: string | undefined
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
  for (const key of globalSettings) addOption(program, new Option(settings[key].flag ?? ''))
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
        const globals = readGlobals(program)
        assertMeant(selected, globals)
        line = { kind: 'run', raw: read(), globals }
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
    for (const option of made) addOption(parser, option)
    options.set(name, made)
  }
  return () => ({
    args: Object.values(command.args).map((_argument, i) => toTexts(parser.processedArgs[i])),
    flags: Object.fromEntries(
      [...options].map(([name, made]) => {
        const texts = readOption(parser, made)
        return [name, command.flags[name]?.isRepeatable === true ? texts : onlyOnce(made[0], texts)]
      }),
    ),
  })
}

/** Texts are collected, so that a flag that was given twice shows. */
function addOption(parser: Parser, option: Option): void {
  if (option.required) option.argParser((text: string, previous: unknown) => [...toTexts(previous), text])
  parser.addOption(option)
}

/**
 * Which of two values was meant is not ours to say: `--limit 5 --limit 6` is a slip, often of a line that was put together.
 *
 * @throws {UsageError} `repeated_option`
 */
function onlyOnce(option: Option | undefined, texts: readonly string[]): readonly string[] {
  if (texts.length < 2) return texts
  const name = option?.long ?? option?.short ?? ''
  const given = texts.map((text) => `"${text}"`).join(' and ')
  throw new UsageError('repeated_option', `${name} takes one value, got ${given}: give it once`, { param: name })
}

/** @throws {UsageError} `unused_option` for --project or --entity where neither says what the command is about */
function assertMeant(command: Command, { settings: given }: GlobalFlags): void {
  const keys: readonly NamespaceKey[] = ['project', 'entity']
  const unused = keys.find((key) => given[key] !== undefined && command.namespace?.includes(key) !== true)
  if (unused === undefined) return
  const path = ['trainyard', ...command.path].join(' ')
  throw new UsageError('unused_option', `--${unused} has no effect on "${path}": leave it out`, {
    param: `--${unused}`,
    hint: `${path} --help`,
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
    if (option.required) onlyOnce(option, toTexts(value))
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
  // a command once, and not by its other spelling
  const suggestion = /\(Did you mean (?:one of )?([^)]*?)\??\)/
    .exec(error.message)?.[1]
    ?.split(', ')
    .map((word) => aliases[word] ?? word)
    .filter((word, i, words) => words.indexOf(word) === i)
    .join(', ')
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
