/**
 * Help texts from command data: usage, one sentence, examples first, arguments, flags, environment, exit codes, next.
 *
 * Pure: same data and width, same text; a contract test compares every text with its golden.
 */
import { maxOf } from '#base/util/lists.js'
import { settings } from '#cli/config/schema.js'
import { exitCodes } from '../terminal/exit-codes.js'
import { type CommandEntry, globalSettings } from './command-line.js'
import type { Command } from './define-command.js'

type Row = readonly [left: string, right: string]

/** Help of one command. */
export function renderCommandHelp(command: Command, width: number): string {
  const words = Object.entries(command.args).map(([name, argument]) => {
    const word = `${name}${argument.isVariadic ? '...' : ''}`
    return argument.isRequired ? `<${word}>` : `[${word}]`
  })
  const flags = Object.values(command.flags)
  const common = flags.filter((flag) => !flag.isAdvanced)
  const advanced = flags.filter((flag) => flag.isAdvanced)
  const exits = (command.exits ?? []).map((name): Row => [String(exitCodes[name].code), exitCodes[name].meaning])
  return [
    `Usage: ${['trainyard', ...command.path, ...words, '[flags]'].join(' ')}\n`,
    paragraph(`${command.summary}.${command.details === undefined ? '' : ` ${command.details}`}`, width),
    section('Examples', examples(command.examples)),
    section(
      'Arguments',
      rows(
        Object.entries(command.args).map(([name, argument]) => [name, argument.summary]),
        width,
      ),
    ),
    section('Flags', rows(common.map(flagRow), width)),
    section('Advanced flags', rows(advanced.map(flagRow), width)),
    section('Global flags', rows(globalRows(command), width)),
    section('Environment', rows(command.environment ?? [], width)),
    section('Exit codes beyond the common ones', rows(exits, width)),
    section('Next', (command.next ?? []).map((line) => `  ${line}\n`).join('')),
  ].join('')
}

/** Help of a noun: its verbs. */
export function renderGroupHelp(noun: string, entries: readonly CommandEntry[], width: number): string {
  const verbs = entries.filter((entry) => entry.path[0] === noun)
  return [
    `Usage: trainyard ${noun} <command> [flags]\n`,
    section(
      'Commands',
      rows(
        verbs.map((entry): Row => [entry.path.slice(1).join(' '), entry.summary]),
        width,
      ),
    ),
    `\nRun "trainyard ${noun} <command> --help" for examples and flags.\n`,
  ].join('')
}

/** Titles of the groups that commands name. */
const GROUPS = { begin: 'Begin', train: 'Train', use: 'Measure and use' } as const

/** Help of the program: the commands that a first task needs, in groups, and the topics. */
export function renderProgramHelp(entries: readonly CommandEntry[], width: number): string {
  return [
    'Usage: trainyard <command> [flags]\n',
    paragraph('Self-hosted post-training of language models: create, chat with and train models by RL and SFT.', width),
    section('Examples', examples(PROGRAM_EXAMPLES)),
    ...Object.entries(GROUPS).map(([group, title]) =>
      section(
        title,
        entryRows(
          entries.filter((entry) => entry.group === group),
          width,
        ),
      ),
    ),
    section('Topics', rows(TOPIC_ROWS, width)),
    ...CLOSING,
  ].join('')
}

/** Help of everything: the core's commands, those of each plugin, the global flags. */
export function renderAllHelp(entries: readonly CommandEntry[], width: number): string {
  const listed = entries.filter(({ isHidden }) => isHidden !== true)
  const plugins = [...new Set(listed.map(({ plugin }) => plugin))]
  return [
    'Usage: trainyard <command> [flags]\n',
    ...plugins
      .sort((a, b) => Number(a !== undefined) - Number(b !== undefined))
      .map((name) =>
        section(
          name === undefined ? 'Commands' : `Commands of ${name}`,
          entryRows(
            listed.filter(({ plugin }) => plugin === name),
            width,
          ),
        ),
      ),
    section('Global flags', rows(globalRows(), width)),
    section('Topics', rows(TOPIC_ROWS, width)),
    ...CLOSING,
  ].join('')
}

const entryRows = (entries: readonly CommandEntry[], width: number): string =>
  rows(
    entries.map((entry): Row => [entry.path.join(' '), entry.summary]),
    width,
  )

const CLOSING: readonly string[] = [
  '\nRun "trainyard <command> --help" for examples and flags of a command.\n',
  'A running server shows the documentation below its address at /docs\n',
]
const PROGRAM_EXAMPLES: readonly Row[] = [
  ['trainyard serve', 'start the service on this machine'],
  ['trainyard models create my-model --base-model trainyard/spark', 'register a model to train'],
  ['trainyard train sft my-model --file data.jsonl --watch', 'train it and follow the job'],
  ['trainyard chat my-model "Hello"', 'ask the trained model'],
]

const TOPIC_ROWS: readonly Row[] = [
  ['help all', 'every command by plugin, and the flags of all'],
  ['help environment', 'environment variables and settings'],
  ['help exit-codes', 'what each exit code means'],
  ['help formats', 'output modes, --json and pipes'],
  ['help files', 'training data and where files are kept'],
  ['help pages', 'documentation pages, shown by trainyard open'],
]

/** @param command its own, without those it refuses; absent: all */
function globalRows(command?: Command): readonly Row[] {
  const isTaken = (key: string) =>
    command === undefined || (key !== 'project' && key !== 'entity') || command.namespace?.includes(key) === true
  const own: readonly Row[] = [
    ['-q, --quiet', 'ids only, one per line; no hints, no progress'],
    ['-h, --help', 'this text'],
    ['-V, --version', 'version of this program'],
  ]
  return [
    ...globalSettings.filter(isTaken).map((key): Row => [settings[key].flag ?? '', settings[key].summary]),
    ...own,
  ]
}

function flagRow(flag: { spelling: string; summary: string; isRepeatable: boolean }): Row {
  const isSaid = flag.summary.includes('repeatable')
  return [flag.spelling, flag.isRepeatable && !isSaid ? `${flag.summary}; repeatable` : flag.summary]
}

function examples(list: readonly Row[]): string {
  return list.map(([line, meaning]) => `  # ${meaning}\n  ${line}\n`).join('')
}

function section(title: string, body: string): string {
  return body === '' ? '' : `\n${title}:\n${body}`
}

function paragraph(text: string, width: number): string {
  return `\n${wrap(text, width).join('\n')}\n`
}

/** Two columns; the right one is wrapped under itself. */
function rows(list: readonly Row[], width: number): string {
  const left = Math.min(
    34,
    maxOf(
      list.map(([word]) => word.length),
      0,
    ),
  )
  const indent = ' '.repeat(left + 4)
  return list
    .map(([word, text]) => {
      const lines = wrap(text, Math.max(30, width - left - 4))
      const head = word.length > left ? `  ${word}\n${indent}` : `  ${word.padEnd(left)}  `
      return `${head}${lines.join(`\n${indent}`)}\n`
    })
    .join('')
}

function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
