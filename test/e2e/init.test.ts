/**
 * A task of one's own, from nothing: asked for in a real terminal, and what is written runs as it stands, passes its own tests and learns.
 */
import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import { type CliProcess, cli, createHome, startCli } from '../support/service/cli-process.js'
import { startFakeHub } from '../support/service/fake-hub.js'
import { hasTmux, openTerminal } from '../support/service/terminal.js'

const home = createHome()
afterAll(() => home.remove())
const run = promisify(execFile)
const SAMPLE = ['--base-model', 'trainyard/spark', '--prompts', 'sample']

async function linkPackage(): Promise<void> {
  await mkdir(join(home.path, 'node_modules'), { recursive: true })
  await symlink(packageRoot(), join(home.path, 'node_modules', 'trainyard')).catch(() => undefined)
}

/** Writes a task below a folder where programs find this package. */
async function write(name: string, argv: readonly string[]): Promise<string> {
  const folder = join(home.path, name)
  await linkPackage()
  const { exitCode, stderr } = await cli(['init', folder, ...argv], { home: home.path })
  expect([exitCode, stderr]).toEqual([0, expect.any(String)])
  return folder
}

const programOf = async (folder: string): Promise<string> =>
  (await readdir(folder)).find((file) => /^task\.(ts|mjs)$/.test(file)) ?? ''

/** Held-out rewards that a program says, in their order. */
const heldOutIn = (text: string): number[] =>
  [...text.matchAll(/held-out reward(?: before| after examples)?:? ([\d.]+)/g)].map(([, value]) => Number(value))

describe('what is written', () => {
  test.each(['checker', 'teacher'])('with a %s passes its own two tests, runs, and learns', async (have) => {
    const folder = await write(`with-${have}`, ['--have', have, ...SAMPLE])
    const { stdout: tested } = await run(process.execPath, ['--test'], { cwd: folder })
    expect(tested).toMatch(/pass 2\b/)
    const { stdout } = await run(process.execPath, [await programOf(folder)], { cwd: folder })
    const heldOut = heldOutIn(stdout)
    // runs by hand began between 0.3 and 0.45 and ended between 0.95 and 1
    expect(heldOut[0]).toBeLessThan(0.65)
    expect(Math.max(...heldOut)).toBeGreaterThan((heldOut[0] ?? 0) + 0.3)
    const [training, held] = await Promise.all(
      ['train.jsonl', 'held-out.jsonl'].map(async (file) =>
        (await readFile(join(folder, file), 'utf8')).trim().split('\n'),
      ),
    )
    expect([training?.length, held?.length]).toEqual([32, 8])
    expect(held?.filter((line) => training?.includes(line))).toEqual([])
    expect((await readFile(join(folder, 'README.md'), 'utf8')).trim().split('\n').length).toBeLessThanOrEqual(10)
  })

  test('for the shell and with examples runs with the command alone', async () => {
    const folder = await write('in-shell', ['--have', 'examples', '--as', 'shell', ...SAMPLE])
    const bin = join(home.path, 'bin')
    await mkdir(bin, { recursive: true })
    const program = join(bin, 'trainyard')
    await writeFile(
      program,
      `#!/bin/sh\nexec "${process.execPath}" "${join(packageRoot(), 'bin', 'trainyard.js')}" "$@"\n`,
      {
        mode: 0o755,
      },
    )
    const env = { ...process.env, HOME: home.path, PATH: `${bin}:${process.env['PATH'] ?? ''}` }
    const { stdout } = await run('sh', ['task.sh'], { cwd: folder, env })
    const rewards = [...stdout.matchAll(/^Reward ([\d.]+)/gm)].map(([, value]) => Number(value))
    expect(rewards.length).toBeGreaterThanOrEqual(3)
    expect(rewards.at(-1)).toBeGreaterThan((rewards[0] ?? 0) + 0.3)
  })
})

describe('what cannot be written is refused with what to do', () => {
  test('a folder that holds something, examples without answers, too few prompts, and questions that nobody can answer', async () => {
    const folder = await write('taken', ['--have', 'checker', ...SAMPLE])
    const prompts = join(home.path, 'prompts.txt')
    await writeFile(prompts, 'one\ntwo\nthree\nfour\n')
    const few = join(home.path, 'few.txt')
    await writeFile(few, 'one\n')
    const other = join(home.path, 'other')
    const base = ['--base-model', 'trainyard/spark']
    const refusals: readonly (readonly [readonly string[], string])[] = [
      [['init', folder, '--have', 'checker', ...SAMPLE], 'is not empty: it holds README.md'],
      [['init', other, ...base, '--have', 'examples', '--prompts', prompts], 'examples need an answer in each row'],
      [['init', other, ...base, '--have', 'checker', '--prompts', few], 'holds 1 prompts, 4 are the fewest'],
      [['init', other, ...base, '--prompts', prompts], '--have is required to choose without a terminal'],
    ]
    for (const [argv, said] of refusals) {
      const { exitCode, stderr } = await cli(argv, { home: home.path })
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining(said)])
    }
    expect(await readdir(home.path)).not.toContain('other')
  })
})

describe('the base model', () => {
  const checker = ['--have', 'checker', '--prompts', 'sample']

  test('that is no model is refused at once, and nothing is written', async () => {
    const place = (name: string) => join(home.path, name)
    await mkdir(place('bare'))
    await mkdir(place('weightless'))
    await writeFile(join(place('weightless'), 'config.json'), '{}')
    await writeFile(place('words.gguf'), 'no weights')
    await writeFile(place('pointer.gguf'), 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n')
    const hub = await startFakeHub()
    try {
      for (const [base, said] of [
        [place('nowhere'), 'does not exist'],
        [place('bare'), 'is a folder without config.json'],
        [place('weightless'), 'is a folder without weights'],
        [place('words.gguf'), 'is a file that is no GGUF'],
        [place('pointer.gguf'), 'is a Git LFS pointer'],
        ['trainyard/sprak', 'Did you mean "trainyard/spark"?'],
        ['some/model', `is not at ${hub.url} (404)`],
      ] as const) {
        const { exitCode, stderr } = await cli(['init', place('never'), '--base-model', base, ...checker], {
          home: home.path,
          env: { HF_ENDPOINT: hub.url },
        })
        expect([base, exitCode, stderr]).toEqual([base, 2, expect.stringContaining(said)])
      }
      expect(await readdir(home.path)).not.toContain('never')
    } finally {
      hub.close()
    }
  })

  describe('may be', () => {
    const spark = join(packageRoot(), 'src/assets/spark')
    const rows = join(home.path, 'letters.jsonl')
    let server: CliProcess
    let url = ''
    beforeAll(async () => {
      await linkPackage()
      const names = 'Anna Tom Mia Omar Lena Ravi Nora Paul Eva Ben'.split(' ')
      const row = (name: string) => ({
        messages: [
          { role: 'user', content: `Greet ${name}.` },
          { role: 'assistant', content: `Salve, ${name}! ${'Quid agis hodie? '.repeat(8)}` },
        ],
      })
      await writeFile(rows, names.map((name) => `${JSON.stringify(row(name))}\n`).join(''))
      const data = join(home.path, 'served-data')
      const serve = ['serve', '--json', '--port', '0', '--data-dir', data, '--base-model', `mine/served=${spark}`]
      server = startCli([...serve, '--log-level', 'warn'], { home: home.path })
      url = (JSON.parse((await server.waitForStdout(/\n/)).trim()) as { url: string }).url
    })
    afterAll(async () => {
      server?.child.kill('SIGTERM')
      await server?.finished
    })

    /** Spark as llama.cpp has it. */
    async function ggufFile(): Promise<string> {
      const there = { home: home.path, env: { TRAINYARD_URL: url } }
      await cli(['models', 'create', 'for-export', '--base-model', 'mine/served'], there)
      const download = ['checkpoints', 'download', 'for-export', '--step', '0', '--format', 'gguf', '--json']
      const made = await cli([...download, '--out', home.path], there)
      expect(made.exitCode, made.stderr).toBe(0)
      const { path, files } = JSON.parse(made.stdout) as { path: string; files: { name: string }[] }
      return join(path, files.find(({ name }) => name.endsWith('.gguf'))?.name ?? '')
    }

    test('a served one, whose program asks for the key in one sentence', async () => {
      const folder = join(home.path, 'keyless')
      const argv = ['init', rows, folder, '--base-model', 'mine/served']
      const written = await cli(argv, { home: home.path, env: { TRAINYARD_URL: url } })
      expect(written.exitCode, written.stderr).toBe(0)
      const env = { HOME: home.path, PATH: process.env['PATH'], TRAINYARD_URL: url }
      const ended = await run(process.execPath, [await programOf(folder)], { cwd: folder, env }).catch(
        (error: unknown) => error,
      )
      const said = expect.stringMatching(/^TRAINYARD_API_KEY is not set, and http:.* takes a key: export [^\n]*\n$/)
      expect(ended).toMatchObject({ code: 2, stderr: said })
    })

    test.each([['a GGUF file', ggufFile]])('%s, and the task is trained from it to its end', async (what, find) => {
      const folder = join(home.path, what.replaceAll(' ', '-'))
      const argv = ['init', rows, folder, '--base-model', await find(), '--run']
      const run = await cli(argv, { home: home.path, env: { TRAINYARD_URL: url } })
      expect(run.exitCode, run.stderr).toBe(0)
      const [, first, last] = /held-out loss ([\d.]+) at first, ([\d.]+) at last/.exec(run.stdout) ?? []
      expect(Number(last), run.stdout).toBeLessThan(Number(first) / 2)
    })
  })
})

describe.skipIf(!hasTmux)('in a terminal', () => {
  test('three questions are asked', async () => {
    const terminal = openTerminal({ columns: 90, env: { HOME: home.path } })
    try {
      terminal.run(`init ${join(home.path, 'asked')}`)
      await terminal.waitFor(/Which base model\?/)
      terminal.press('Enter')
      await terminal.waitFor(/What do you have\?/)
      terminal.press('Enter')
      await terminal.waitFor(/Where are the prompts/)
      terminal.type('sample')
      terminal.press('Enter')
      await terminal.waitFor(/32 prompts to train on, 8 held out[\s\S]*exit 0/)
      expect(await readdir(join(home.path, 'asked'))).toContain('train.jsonl')
    } finally {
      terminal.close()
    }
  })
})
