/**
 * The command line's table of contents: every command with its sentence, and how a command line becomes a run of one.
 *
 * Commands are loaded on demand, so that help and a typo answer at once. This file never touches the process: streams,
 * environment and interruption are handed in, which is how tests run commands in-process.
 */

import type { Environment } from '#base/environment.js'
import type { Clock } from '#base/util/clock.js'
import { type CommandEntry, findEntry, type GlobalFlags, parseCommandLine } from '#cli/command/command-line.js'
import type { Command, RawInput } from '#cli/command/define-command.js'
import type { CommandPart } from '#cli/command/extend-command.js'
import type { SettingKey } from '#cli/config/schema.js'
import type { ProcessStreams } from '#cli/terminal/io.js'
import { commandSpelling, type SpellCommands } from '#cli/terminal/program-name.js'
import { INSTALLED } from '#plugins/index.js'
import type { Fetch } from '#sdk/client/light-fetch.js'

/** The core's. Summaries repeat the command's own; a contract test compares them. */
const OWN: readonly CommandEntry[] = [
  entry('serve', 'Run the service', async () => (await import('./serve.js')).serve, { group: 'begin' }),
  entry('chat', 'Talk to a model, or ask it once', async () => (await import('./chat.js')).chat, { group: 'use' }),
  entry(
    'train rl',
    'Train a model on trajectory groups with rewards',
    async () => (await import('./train/rl.js')).trainRl,
    { group: 'train' },
  ),
  entry(
    'train dpo',
    'Train a model on preferred and rejected answers',
    async () => (await import('./train/dpo.js')).trainDpo,
  ),
  entry('train sft', 'Train a model on example conversations', async () => (await import('./train/sft.js')).trainSft, {
    group: 'train',
  }),
  entry(
    'train options',
    'List the options of a kind of job',
    async () => (await import('./train/options.js')).trainOptions,
  ),
  entry(
    'data convert',
    'Convert training rows of other trainers',
    async () => (await import('./data/convert.js')).convertData,
  ),
  entry('log', 'Record trajectory groups as an evaluation', async () => (await import('./log.js')).log),
  entry('models list', 'List models', async () => (await import('./models/list.js')).listModels),
  entry('models create', 'Register a trainable model', async () => (await import('./models/create.js')).createModel, {
    group: 'begin',
  }),
  entry('models get', 'Show one model with its latest step', async () => (await import('./models/get.js')).getModel),
  entry(
    'models evaluations',
    'Show evaluations of a model by step, or what changed between two',
    async () => (await import('./models/evaluations.js')).modelEvaluations,
  ),
  entry(
    'models metrics',
    'Show the metrics of a model by step',
    async () => (await import('./models/metrics.js')).modelMetrics,
    { isHidden: true },
  ),
  entry(
    'models note',
    'Write a description and tags of a model',
    async () => (await import('./models/note.js')).noteModel,
  ),
  entry(
    'models keep',
    'Say which checkpoints of a model stay',
    async () => (await import('./models/keep.js')).keepCheckpoints,
  ),
  entry(
    'models delete',
    'Delete models with all their checkpoints',
    async () => (await import('./models/delete.js')).deleteModels,
  ),
  entry(
    'base-models list',
    'List base models the service can train',
    async () => (await import('./base-models/list.js')).listBaseModels,
  ),
  entry(
    'base-models add',
    'Add a base model: a folder, a GGUF file, an adapter, or one of a hub',
    async () => (await import('./base-models/add.js')).addBaseModel,
  ),
  entry(
    'base-models remove',
    'Remove base models that were added',
    async () => (await import('./base-models/remove.js')).removeBaseModels,
  ),
  entry(
    'checkpoints list',
    'List the checkpoints of a model',
    async () => (await import('./checkpoints/list.js')).listCheckpoints,
  ),
  entry(
    'checkpoints delete',
    'Delete checkpoints by step or by rule',
    async () => (await import('./checkpoints/delete.js')).deleteCheckpoints,
  ),
  entry(
    'checkpoints download',
    'Save a checkpoint as an adapter, as merged weights, or as GGUF',
    async () => (await import('./checkpoints/download.js')).downloadCheckpoint,
  ),
  entry('jobs list', 'List training jobs', async () => (await import('./jobs/list.js')).listJobs),
  entry('jobs get', 'Show one training job', async () => (await import('./jobs/get.js')).getJob),
  entry(
    'jobs chart',
    'Draw the metrics of a model over its steps',
    async () => (await import('./jobs/chart.js')).chartJobs,
    { group: 'train' },
  ),
  entry('jobs events', 'Show the events of a training job', async () => (await import('./jobs/events.js')).jobEvents),
  entry(
    'jobs watch',
    'Watch a training job to its end',
    async () => (await import('./jobs/watch.js')).watchTrainingJob,
  ),
  entry('jobs wait', 'Wait until training jobs are finished', async () => (await import('./jobs/wait.js')).waitForJobs),
  entry(
    'jobs stop',
    'End a running job and keep what it has learned',
    async () => (await import('./jobs/stop.js')).stopJob,
  ),
  entry('jobs cancel', 'Ask training jobs to stop', async () => (await import('./jobs/cancel.js')).cancelJobs),
  entry(
    'sessions list',
    'List training sessions: loops of clients',
    async () => (await import('./sessions/list.js')).listSessions,
  ),
  entry('sessions end', 'End training sessions', async () => (await import('./sessions/end.js')).endSessions),
  entry(
    'events',
    'Show what happens on the service: jobs, checkpoints, logs, models',
    async () => (await import('./events.js')).events,
  ),
  entry(
    'system-check',
    'Check this machine and the service',
    async () => (await import('./system-check.js')).systemCheck,
  ),
  entry('whoami', 'Show which server and which key are used', async () => (await import('./whoami.js')).whoami, {
    isHidden: true,
  }),
  entry('config list', 'List settings with their sources', async () => (await import('./config/list.js')).listConfig),
  entry('config get', 'Print one setting', async () => (await import('./config/get.js')).getConfig),
  entry('config set', 'Store a setting in the config file', async () => (await import('./config/set.js')).setConfig),
  entry(
    'config unset',
    'Remove a setting from the config file',
    async () => (await import('./config/unset.js')).unsetConfig,
  ),
  entry('config path', 'Print where the config file is', async () => (await import('./config/path.js')).configPath),
  entry('open', 'Open the pages of the service in a browser', async () => (await import('./service/open.js')).open, {
    isHidden: true,
  }),
  entry(
    'completion',
    'Print a completion script for a shell',
    async () => (await import('./completion.js')).completion,
  ),
  entry(
    'version',
    'Print the versions of this program and the service',
    async () => (await import('./version.js')).version,
    { isHidden: true },
  ),
]

/** Every command, in the order of help. */
export const commandTable: CommandEntry[] = OWN.flatMap((own) => [extended(own), ...commandsBehind(own.path.join(' '))])

/** Settings of the package's plugins are in the table before a command that reads it is loaded. */
async function addOwnSettings(): Promise<void> {
  const { addSettings } = await import('#cli/config/schema.js')
  for (const { settings = {} } of INSTALLED.plugins) addSettings(settings)
}

/** Losses and advantages of plugins are among the options of jobs before a command that shows or sends those is loaded. */
async function addOwnLosses(): Promise<void> {
  const { installed } = await import('#plugins/others.js')
  const { addLossesOf } = await import('#contract/jobs/losses.js')
  await addLossesOf(installed().plugins)
}

/**
 * Plugins that somebody named: their commands stand behind all others, and their settings and options of jobs count, whatever
 * is run.
 */
async function loadNamedPlugins({ argv, environment }: ProgramOptions): Promise<void> {
  const { pluginsNamed } = await import('#cli/config/named-plugins.js')
  const paths = await pluginsNamed(argv, environment)
  const others = paths.length === 0 ? [] : await (await import('#plugins/others.js')).loadOthers(paths)
  const ofJobs = [...INSTALLED.plugins, ...others].filter(({ jobOptions }) => jobOptions !== undefined)
  if (ofJobs.length > 0) (await import('#contract/jobs/plugin-options.js')).addJobOptions(ofJobs)
  if (others.length === 0) return
  const { addSettings } = await import('#cli/config/schema.js')
  for (const { name, settings = {}, commands } of others) {
    addSettings(settings)
    for (const { path, summary, load } of commands?.rows ?? []) {
      if (commandTable.some((known) => known.path.join(' ') === path)) continue
      commandTable.push(entry(path, summary, async () => (await load()) as Command, { plugin: name }))
    }
  }
}

/** A command of the core with the flags that plugins add to it. */
function extended(own: CommandEntry): CommandEntry {
  const rows = INSTALLED.plugins.flatMap(({ commandParts = [] }) =>
    commandParts.filter((row) => row.of === own.path.join(' ')),
  )
  if (rows.length === 0) return own
  return {
    ...own,
    load: async () => {
      const { extendCommand } = await import('#cli/command/extend-command.js')
      let command = await own.load()
      for (const row of rows) command = extendCommand(command, (await row.load()) as CommandPart)
      return command
    },
  }
}

/** Commands of plugins that stand behind one, each with those that stand behind it. */
function commandsBehind(path: string): readonly CommandEntry[] {
  return INSTALLED.plugins
    .flatMap(({ name, commands }) =>
      commands?.after === path ? commands.rows.map((row) => ({ ...row, plugin: name })) : [],
    )
    .flatMap((row) => [
      entry(row.path, row.summary, async () => (await row.load()) as Command, row),
      ...commandsBehind(row.path),
    ])
}

export interface ProgramOptions {
  /** Words after the program's name. */
  readonly argv: readonly string[]
  readonly environment: Environment
  readonly streams: ProcessStreams
  /** Aborts with an `InterruptedError`. */
  readonly signal: AbortSignal
  readonly version: string
  /** Instead of the platform's, for an in-process service. */
  readonly fetch?: Fetch
  readonly clock?: Clock
}

/**
 * Runs one command line.
 *
 * @returns the exit code; errors are printed, never thrown
 */
export async function runProgram(options: ProgramOptions): Promise<number> {
  const { argv, streams } = options
  try {
    await loadNamedPlugins(options)
    if (argv[0] === 'help') return await printHelp(argv.slice(1), options)
    if (argv[0] === '__complete') return await printNames(argv[1], options)
    const found = findEntry(argv, commandTable)
    const command = await found?.load()
    const line = parseCommandLine(argv, commandTable, command)
    switch (line.kind) {
      case 'version':
        streams.stdout.write(`trainyard ${options.version}\n`)
        return 0
      case 'help':
        if (!line.isAsked && line.path.length > 0 && isJson(options)) throw await missingVerb(line.path)
        return await printHelpOf(line.path, options, line.isAsked || line.path.length === 0)
      case 'run':
        return command === undefined ? 0 : await runCommand(command, line.raw, line.globals, options)
    }
  } catch (error) {
    return await printError(error, options)
  }
}

async function runCommand(
  command: Command,
  raw: RawInput,
  globals: GlobalFlags,
  options: ProgramOptions,
): Promise<number> {
  const { loadConfig } = await import('#cli/config/load.js')
  const { createContext } = await import('#cli/command/context.js')
  const flags: Partial<Record<SettingKey, string>> = { ...globals.settings }
  for (const [name, flag] of Object.entries(command.flags)) {
    const texts = raw.flags[name] ?? []
    if (flag.setting !== undefined && texts.length > 0) {
      // The line break says that texts are separated by line breaks, not by commas.
      flags[flag.setting] = flag.isRepeatable ? `${texts.join('\n')}\n` : (texts.at(-1) ?? '')
    }
  }
  const config = await loadConfig({ environment: options.environment, flags })
  const context = createContext({ ...options, config, isQuiet: globals.isQuiet, spell: spellingFor(options) })
  await command.invoke(context, raw)
  return 0
}

/** Names for the completion of a shell, silent whatever happens; no command of its own, for nobody types it. */
async function printNames(kind: string | undefined, options: ProgramOptions): Promise<number> {
  const { COMPLETED_KINDS, listNames } = await import('#cli/names/complete-names.js')
  const { loadConfig } = await import('#cli/config/load.js')
  const { createContext } = await import('#cli/command/context.js')
  const { sanitizeLine } = await import('#cli/terminal/sanitize.js')
  const known = COMPLETED_KINDS.find((each) => each === kind)
  const config = await loadConfig({ environment: options.environment, flags: {} }).catch(() => null)
  if (known === undefined || config === null) return 0
  for (const name of await listNames(
    createContext({ ...options, config, isQuiet: true, spell: spellingFor(options) }),
    known,
  )) {
    options.streams.stdout.write(`${sanitizeLine(name)}\n`)
  }
  return 0
}

async function printHelp(words: readonly string[], options: ProgramOptions): Promise<number> {
  const { topics } = await import('#cli/command/topics.js')
  const path = words.filter((word) => !word.startsWith('-'))
  const topic = path[0] === undefined || !Object.hasOwn(topics, path[0]) ? undefined : topics[path[0]]
  if (topic !== undefined) {
    const { isTTY, columns } = options.streams.stdout
    const { wrapWords } = await import('#cli/terminal/table.js')
    const text = spellingFor(options)(topic())
    options.streams.stdout.write(isTTY === true ? wrapWords(text, columns ?? 80).join('\n') : text)
    return 0
  }
  if (path[0] === 'all') {
    const { renderAllHelp } = await import('#cli/command/help.js')
    const { stdout } = options.streams
    stdout.write(spellingFor(options)(renderAllHelp(commandTable, helpWidth(stdout))))
    return 0
  }
  const isKnown = path.length === 0 || commandTable.some((each) => path.every((word, i) => each.path[i] === word))
  if (isKnown) return await printHelpOf(path, options, true)
  const { UsageError } = await import('#cli/terminal/errors.js')
  const { closest } = await import('#base/util/suggest.js')
  const known = ['all', ...Object.keys(topics), ...commandTable.map((each) => each.path.join(' '))]
  throw new UsageError('unknown_topic', `no command or topic "${path.join(' ')}"`, {
    suggestion: closest(path.join(' '), known),
    hint: 'trainyard --help',
  })
}

const helpWidth = ({ columns }: { readonly columns?: number | undefined }): number =>
  Math.min(110, Math.max(60, columns ?? 80))

/** Help that was asked for goes to stdout with 0; a bare noun is a usage error with its help on stderr. */
async function printHelpOf(path: readonly string[], options: ProgramOptions, isAsked: boolean): Promise<number> {
  const help = await import('#cli/command/help.js')
  const stream = isAsked ? options.streams.stdout : options.streams.stderr
  const width = helpWidth(stream)
  const spell = spellingFor(options)
  const leaf = commandTable.find((each) => each.path.join(' ') === path.join(' '))
  if (leaf !== undefined) stream.write(spell(help.renderCommandHelp(await leaf.load(), width)))
  else if (path[0] !== undefined) stream.write(spell(help.renderGroupHelp(path[0], commandTable, width)))
  else stream.write(spell(help.renderProgramHelp(commandTable, width)))
  return isAsked ? 0 : 2
}

function spellingFor({ environment }: ProgramOptions): SpellCommands {
  return commandSpelling(
    environment,
    commandTable.flatMap(({ path }) => path.slice(0, 1)),
  )
}

function isJson({ argv, environment }: ProgramOptions): boolean {
  return argv.includes('--json') || ['1', 'true'].includes(environment['TRAINYARD_JSON'] ?? '')
}

/** A bare noun to a program: one document on stderr, as every error. */
async function missingVerb(path: readonly string[]): Promise<Error> {
  const { UsageError } = await import('#cli/terminal/errors.js')
  const verbs = commandTable.filter((each) => each.path[0] === path[0]).map((each) => each.path.slice(1).join(' '))
  return new UsageError('missing_command', `trainyard ${path.join(' ')} needs one of ${verbs.join(', ')}`, {
    hint: `trainyard ${path.join(' ')} --help`,
  })
}

async function printError(error: unknown, options: ProgramOptions): Promise<number> {
  const { reportError } = await import('#cli/terminal/errors.js')
  const { createIo } = await import('#cli/terminal/io.js')
  const { createOutput } = await import('#cli/terminal/output.js')
  const { argv, environment } = options
  const isQuiet = argv.includes('-q') || argv.includes('--quiet')
  const io = createIo(options.streams, argv.includes('--no-color') ? false : null, environment)
  const report = reportError(error)
  createOutput(io, isJson(options) ? 'json' : isQuiet ? 'quiet' : 'human', { spell: spellingFor(options) }).error(
    report,
  )
  if ((argv.includes('-v') || argv.includes('--verbose')) && error instanceof Error) {
    const { sanitizeForTerminal } = await import('#cli/terminal/sanitize.js')
    io.stderr.write(`${sanitizeForTerminal(error.stack ?? '')}\n`)
  }
  return report.exitCode
}

function entry(
  path: string,
  summary: string,
  load: () => Promise<Command>,
  {
    group,
    isHidden,
    plugin,
    sendsJobs = path.startsWith('train '),
  }: Pick<CommandEntry, 'group' | 'isHidden' | 'plugin'> & { readonly sendsJobs?: boolean | undefined } = {},
): CommandEntry {
  return {
    ...{ path: path.split(' '), summary, group, isHidden, plugin },
    load: async () => {
      await addOwnSettings()
      if (sendsJobs) await addOwnLosses()
      return await load()
    },
  }
}
