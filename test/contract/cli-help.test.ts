/**
 * The command line's contract with its users, read from the table of commands: help texts against goldens, examples that
 * parse, summaries that agree. `UPDATE_GOLDEN=1` rewrites the goldens; a change here is a change people see.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, parse } from 'node:path'
import { describe, expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { findEntry, parseCommandLine } from '../../src/cli/command/command-line.js'
import { exitCodes } from '../../src/cli/terminal/exit-codes.js'
import { runCli } from '../support/service/run-cli.js'

const folder = join(import.meta.dirname, '..', 'goldens', 'help')

function expectGolden(name: string, text: string): void {
  const path = join(folder, `${name}.txt`)
  if (process.env['UPDATE_GOLDEN'] === '1') {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  expect(text).toBe(readFileSync(path, 'utf8'))
}

/** The words of a documented command line, quotes removed, up to a pipe or redirection. */
function words(line: string): readonly string[] {
  const tokens = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '')
  const start = tokens.indexOf('trainyard')
  const end = tokens.findIndex((token, i) => i > start && ['|', '>', '<'].includes(token))
  return tokens.slice(start + 1, end < 0 ? undefined : end)
}

describe.each(commandTable.map((entry) => [entry.path.join(' '), entry] as const))('%s', (name, entry) => {
  test('help is as the golden says, on stdout, with exit code 0', async () => {
    const { stdout, stderr, exitCode } = await runCli([...entry.path, '--help'])
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
    expectGolden(name.replaceAll(' ', '-'), stdout)
    expect((await runCli(['help', ...entry.path])).stdout).toBe(stdout)
  })
  test('has at least two examples, and every one of them parses', async () => {
    const command = await entry.load()
    expect(command.examples.length).toBeGreaterThanOrEqual(2)
    for (const [line] of command.examples) {
      if (line.startsWith('$EDITOR')) continue
      const argv = words(line)
      expect(findEntry(argv, commandTable)?.path).toEqual(entry.path)
      expect(parseCommandLine(argv, commandTable, command).kind).toBe('run')
    }
  })
  test('its path and sentence agree with the table of contents', async () => {
    const command = await entry.load()
    expect({ path: command.path, summary: command.summary }).toEqual({ path: entry.path, summary: entry.summary })
    expect(command.summary).toMatch(/^[A-Z][^.]*$/)
  })
  test('the commands it names next exist', async () => {
    const command = await entry.load()
    for (const line of command.next ?? []) expect(findEntry(words(line), commandTable), line).toBeDefined()
  })
  test('no flag shadows a global one, except those of settings', async () => {
    const command = await entry.load()
    const globals = [
      '--server',
      '--project',
      '--entity',
      '--json',
      '--quiet',
      '--verbose',
      '--timeout',
      '--help',
      '--version',
    ]
    for (const flag of Object.values(command.flags)) {
      for (const global of globals) expect(flag.spelling.split(/[ ,]+/)).not.toContain(global)
    }
  })
})

describe('the program', () => {
  test('help shows ten commands in three groups', async () => {
    const { stdout, exitCode } = await runCli(['--help'])
    expect(exitCode).toBe(0)
    expectGolden('trainyard', stdout)
    expect(commandTable.filter(({ group }) => group !== undefined)).toHaveLength(10)
    for (const { path, summary } of commandTable.filter(({ group }) => group !== undefined))
      expect(stdout).toMatch(new RegExp(`^ {2}${path.join(' ')} +${summary.slice(0, 20)}`, 'm'))
  })
  test('help all lists every command by plugin, but for those whose noun alone lists them', async () => {
    const { stdout, exitCode } = await runCli(['help', 'all'])
    expect(exitCode).toBe(0)
    expectGolden('topic-all', stdout)
    const section = (plugin: string | undefined) =>
      stdout
        .split(/\n\n/)
        .find((each) => each.startsWith(plugin === undefined ? 'Commands:' : `Commands of ${plugin}:`))
    for (const { path, plugin, isHidden = false } of commandTable)
      expect(section(plugin)?.includes(`\n  ${path.join(' ')} `) ?? false, path.join(' ')).toBe(!isHidden)
  })
  test('help pages names every page, and no other', async () => {
    const pages = ['start', 'guides', 'reference'].flatMap((shelf) =>
      readdirSync(join(import.meta.dirname, '../../src/docs', shelf))
        .filter((name) => /[.]md$/.test(name))
        .map((name) => parse(name).name),
    )
    const { stdout } = await runCli(['help', 'pages'])
    expect([...stdout.matchAll(/^ {2}([\w-]+) {2,}/gm)].map((match) => match[1]).toSorted()).toEqual(pages.toSorted())
  })
  test.each(['environment', 'exit-codes', 'formats', 'files', 'pages'])('help %s', async (topic) => {
    const { stdout, exitCode } = await runCli(['help', topic])
    expect(exitCode).toBe(0)
    expectGolden(`topic-${topic}`, stdout)
  })
  test('every exit code is documented once', async () => {
    const { stdout } = await runCli(['help', 'exit-codes'])
    for (const { code, meaning } of Object.values(exitCodes))
      expect(stdout).toContain(`${String(code).padStart(3)}  ${meaning}`)
  })
  test('a bare noun shows its verbs on stderr and is a usage error', async () => {
    const { stdout, stderr, exitCode } = await runCli(['checkpoints'])
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 })
    expect(stderr).toContain('download')
  })
  test('no words at all show the help', async () => {
    expect((await runCli([])).stdout).toBe((await runCli(['--help'])).stdout)
  })
  test('aliases mean the same command', async () => {
    expect((await runCli(['models', 'ls', '--help'])).stdout).toBe((await runCli(['models', 'list', '--help'])).stdout)
    expect((await runCli(['models', 'rm', '--help'])).stdout).toBe(
      (await runCli(['models', 'delete', '--help'])).stdout,
    )
    expect((await runCli(['doctor', '--help'])).stdout).toBe((await runCli(['system-check', '--help'])).stdout)
  })
  test.each([
    [['modles', 'list'], 'unknown command "modles"', 'models'],
    [['models', 'delet'], 'unknown command "delet"', 'delete'],
    [['models', 'lst'], 'unknown command "lst"', 'list'],
    [['models', 'list', '--limt', '3'], 'unknown option "--limt"', '--limit'],
    [['ls'], 'unknown command "ls"', 'models list'],
    [['logs'], 'unknown command "logs"', 'jobs events'],
    [['help', 'exitcodes'], 'no command or topic "exitcodes"', 'exit-codes'],
  ])('a typo in %j is named and suggested', async (argv, message, suggestion) => {
    const { stderr, exitCode } = await runCli(argv)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(`error: ${message}\n  Did you mean "${suggestion}"?`)
  })
  test('no abbreviation is understood', async () => {
    expect((await runCli(['model', 'list'])).exitCode).toBe(2)
    expect((await runCli(['models', 'list', '--lim', '3'])).exitCode).toBe(2)
  })
  test('--version', async () => {
    expect(await runCli(['--version'])).toEqual({ stdout: 'trainyard 0.0.0-test\n', stderr: '', exitCode: 0 })
    expect((await runCli(['-V'])).stdout).toBe('trainyard 0.0.0-test\n')
  })
})
