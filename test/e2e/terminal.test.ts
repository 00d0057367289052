/**
 * The command line in a real terminal, 80 and 140 columns wide: questions, conversations, jobs that are watched, windows that are
 * resized, Ctrl-C at each stage.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { displayWidth } from '#cli/terminal/table.js'
import { type CliProcess, cli, createHome, startCli } from '../support/service/cli-process.js'
import { hasTmux, openTerminal, type Terminal } from '../support/service/terminal.js'
import { until } from '../support/until.js'

/** Of the picture drawn last. */
function stepOf(screen: string): number {
  return Number([...screen.matchAll(/[█░]{20} +(\d+)\//g)].at(-1)?.[1] ?? 0)
}

const home = createHome()
let server: CliProcess
let url: string
let terminal: Terminal
const rows = join(home.path, 'rows.jsonl')

beforeAll(async () => {
  if (!hasTmux) return
  server = startCli(['serve', '--json', '--port', '0', '--data-dir', join(home.path, 'data')], { home: home.path })
  url = (JSON.parse(await server.waitForStdout(/\n/)) as { url: string }).url
  const row = JSON.stringify({
    messages: [
      { role: 'user', content: 'Say one word about the sea, and then another one about the sky above it.' },
      { role: 'assistant', content: 'Blue, and blue again, as far as anybody can see.' },
    ],
  })
  writeFileSync(rows, `${row}\n`.repeat(6000))
  const create = ['models', 'create', 'first', '--base-model', 'trainyard/spark']
  expect((await cli(create, { home: home.path, env: { TRAINYARD_URL: url } })).exitCode).toBe(0)
})
afterAll(async () => {
  if (hasTmux) {
    server.child.kill('SIGTERM')
    await server.finished
  }
  home.remove()
})

describe.skipIf(!hasTmux).each([80, 140])('%i columns', (columns) => {
  beforeEach(() => {
    terminal = openTerminal({ columns, env: { HOME: home.path, TRAINYARD_URL: url } })
  })
  afterEach(() => terminal.close())

  test('what is missing is asked for: a name, a base model, a model', async () => {
    terminal.run('models create')
    await terminal.waitFor(/Name of the new model/)
    terminal.type(`asked-${columns}`)
    terminal.press('Enter')
    await terminal.waitFor(/Which base model\?[\s\S]*trainyard\/spark/)
    terminal.press('Enter')
    await terminal.waitFor(new RegExp(`Created model asked-${columns} [\\s\\S]*exit 0`))
    terminal.run('models get')
    await terminal.waitFor(/Which model\?[\s\S]*first/)
    terminal.press('Enter')
    expect(await terminal.waitFor(/exit 0[\s\S]*exit 0/)).toMatch(new RegExp(`Name +asked-${columns}`))
  })

  test('Ctrl-C at a question ends with 130 and changes nothing', async () => {
    terminal.run('models delete')
    await terminal.waitFor(/Which model\?/)
    terminal.press('C-c')
    await terminal.waitFor(/exit 130/)
    terminal.run('models get first')
    await terminal.waitFor(/exit 0/)
  })

  test('a conversation: an answer, a command, Ctrl-C while it answers, /exit', async () => {
    terminal.run('chat trainyard/spark --temperature 0')
    await terminal.waitFor(/> *$/)
    terminal.type('Is a potato a fruit?')
    terminal.press('Enter')
    await terminal.waitFor(/potato a fruit\?\n.*\w[\s\S]*> *$/)
    terminal.type('/help')
    terminal.press('Enter')
    await terminal.waitFor(/\/save[\s\S]*> *$/)
    terminal.press('C-c')
    await terminal.waitFor(/\/exit|Ctrl-D[\s\S]*> *$/)
    terminal.type('/exit')
    terminal.press('Enter')
    await terminal.waitFor(/exit 0/)
  })

  test('a watched job shows its picture, survives a resize, and Ctrl-C leaves it running', async () => {
    terminal.run(`train sft first --file ${rows} --batch-size 4 --learning-rate 0.0001 --watch`)
    await terminal.waitFor(/[█░]{20} {2}\d+\/\d+ .*\d+ tokens\/s .*left\n +loss [▁▂▃▄▅▆▇█]+ /)
    for (const width of [60, columns]) {
      const before = stepOf(terminal.screen())
      terminal.resize(width)
      await until(() => stepOf(terminal.screen()) > before, `a picture in ${width} columns`, 120_000)
    }
    terminal.press('C-c')
    // the last line is the shell's
    const screen = await terminal.waitFor(/Detached from job[\s\S]*exit 130.*\n\$ *$/)
    // the picture is gone, the rows stay; of one that the terminal wrapped while it was drawn a line may be left among them
    const lines = screen.split('\n')
    const behindRows = lines.slice(lines.findLastIndex((line) => /^ +\d+\/\d+ /.test(line)) + 1)
    expect(behindRows.join('\n')).not.toMatch(/[█░]{20}/)
    expect(screen).toMatch(/ {2}step +loss +grad norm/)
    expect(Math.max(...screen.split('\n').map(displayWidth))).toBeLessThanOrEqual(columns)
    terminal.run('jobs cancel latest --yes')
    await terminal.waitFor(/Cancel[\s\S]*exit 0/)
    terminal.run('jobs watch')
    await terminal.waitFor(/cancelled[\s\S]*exit 7/)
  })

  test('lists fit: every column in one line', async () => {
    for (const list of ['base-models list', 'models list', 'jobs list', 'checkpoints list first']) {
      await terminal.waitFor(terminal.run(list))
    }
    expect(terminal.screen()).toMatch(
      /NAME +ARCH +PARAMS +CONTEXT +SIZE +PRECISION +SERVED AS\n.*llama +4\.5 M +2048 +9 MB +float16 +f32/,
    )
  })
})
