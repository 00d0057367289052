/**
 * Every code block of the README, of start and the guides, and the TypeScript of the training loops, runs as it stands there: shell, TypeScript and
 * Python, each in a folder of its own, against a real service; only the port of a server that a block starts is another. Blocks marked
 * `text` are recordings.
 */
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'
import { unassignedPort } from '../support/service/unassigned-port.js'

const ROOT = path.resolve(import.meta.dirname, '../..')
const VENV = path.join(ROOT, '.cache/venv')
const PAGES = [
  'README.md',
  ...['start', 'guides'].flatMap((shelf) =>
    readdirSync(path.join(ROOT, 'src/docs', shelf))
      .filter((name) => /[.]md$/.test(name))
      .map((name) => `src/docs/${shelf}/${name}`),
  ),
  'src/docs/reference/training-loops.md',
]
/** Of these pages only the TypeScript runs here: the rest installs a client and starts a server, which `tinker/` does. */
const TYPESCRIPT_PAGES = ['src/docs/reference/training-loops.md']
/** Longest run of one block, milliseconds: far more than any needs on a busy machine. */
const BLOCK_MS = 900_000

/** The port of servers that blocks start. */
const SHOWN_PORT = '8655'

interface Block {
  readonly name: string
  readonly language: string
  readonly code: string
}

const blocks = PAGES.flatMap((page): readonly Block[] => {
  const text = readFileSync(path.join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .map((match) => ({
      name: `${page}:${text.slice(0, match.index).split('\n').length + 1}`,
      language: match[1] ?? '',
      code: match[2] ?? '',
    }))
    .filter(({ language }) => language === 'ts' || !TYPESCRIPT_PAGES.includes(page))
})
const named = (language: string) =>
  blocks.filter((block) => block.language === language).map((b) => [b.name, b] as const)

let service: Awaited<ReturnType<typeof startService>>
let folder = ''
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** Runs a program in a fresh folder that has `trainyard` on its path and among its packages. */
async function run(command: string, argv: readonly string[], files: Readonly<Record<string, string>>): Promise<string> {
  folder = mkdtempSync(path.join(tmpdir(), 'trainyard-docs-'))
  try {
    const bin = path.join(folder, 'bin')
    mkdirSync(bin)
    linkPackages(folder)
    const launcher = `#!/bin/sh\nexec "${process.execPath}" "${path.join(ROOT, 'bin/trainyard.js')}" "$@"\n`
    writeFileSync(path.join(bin, 'trainyard'), launcher, { mode: 0o755 })
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
    return await runClient(command, argv, {
      cwd: folder,
      timeoutMs: BLOCK_MS - 10_000,
      hasOwnEnvironment: true,
      env: {
        PATH: `${bin}:${path.dirname(process.execPath)}:${process.env['PATH']}`,
        HOME: folder,
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
        TRAINYARD_URL: service.url,
        TRAINYARD_API_KEY: service.key,
      },
    })
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** What blocks import. */
function linkPackages(into: string): void {
  const modules = path.join(into, 'node_modules')
  mkdirSync(modules)
  symlinkSync(ROOT, path.join(modules, 'trainyard'))
  for (const name of ['openai', 'ai', '@ai-sdk'])
    symlinkSync(path.join(ROOT, 'node_modules', name), path.join(modules, name))
}

describe('code blocks', () => {
  test('say what they are', () => {
    expect(
      blocks
        .map(({ language }) => language)
        // files of the reader's, `json` and `js`, are read by test/plugins/environments/guide.test.ts
        .filter((each) => !['bash', 'ts', 'python', 'text', 'json', 'js'].includes(each)),
    ).toEqual([])
    for (const language of ['bash', 'ts', 'python']) expect(named(language).length).toBeGreaterThan(0)
  })
  test.each([
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ])('TypeScript is strict, with modules %s as %s resolves them', (module, resolution) => {
    folder = mkdtempSync(path.join(tmpdir(), 'trainyard-docs-'))
    try {
      linkPackages(folder)
      symlinkSync(path.join(ROOT, 'node_modules/@types'), path.join(folder, 'node_modules/@types'))
      writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}')
      const files = named('ts').map(([name, { code }]) => {
        const file = `${name.replaceAll(/\W/g, '-')}.ts`
        writeFileSync(path.join(folder, file), code)
        return file
      })
      const flags = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2023', '--types', 'node']
      const argv = [...flags, '--module', module, '--moduleResolution', resolution, ...files]
      const compiler = path.join(ROOT, 'node_modules/typescript/bin/tsc')
      const { stdout } = spawnSync(process.execPath, [compiler, ...argv], { cwd: folder, encoding: 'utf8' })
      expect(stdout).toBe('')
    } finally {
      rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
    }
  })
  test.each(named('bash'))('%s', { timeout: BLOCK_MS }, async (_, { code }) => {
    // The server of a block has a key of its own, which the command line finds by itself.
    const isServer = code.includes('trainyard serve')
    // its port may be another's on this machine, for example of the same test in another checkout
    const shown = isServer ? code.replaceAll(SHOWN_PORT, String(await unassignedPort())) : code
    const script = `set -euo pipefail\n${isServer ? 'unset TRAINYARD_URL TRAINYARD_API_KEY\n' : ''}${shown}`
    expect(await run('bash', ['script.sh'], { 'script.sh': script })).not.toBe('')
  })
  test.each(named('ts'))('%s', { timeout: BLOCK_MS }, async (_, { code }) => {
    // a plugin is no program: a server tries it
    const tried = [path.join(ROOT, 'bin/trainyard.js'), 'serve', '--check', '--json', '--plugin', './block.mjs']
    // Without annotations, TypeScript is JavaScript.
    const argv = code.includes('definePlugin') ? tried : ['block.mjs']
    expect(await run(process.execPath, argv, { 'block.mjs': code })).not.toBe('')
  })
  test.skipIf(!hasPackage('pyarrow')).each(named('python'))(
    '%s (skipped without .cache/venv, see .ci/run)',
    {
      timeout: BLOCK_MS,
    },
    async (_, { code }) => {
      const said = await run(path.join(VENV, 'bin/python'), ['block.py'], { 'block.py': code })
      if (!code.includes('import art')) return expect(said).not.toBe('')
      const { data } = await service.api.call('GET', '/v1/preview/models?project=python')
      const checkpoints = await service.api.call('GET', `/v1/preview/models/${data[0]?.id}/checkpoints`)
      expect(data[0]).toMatchObject({ name: 'orders', step: 3 })
      expect(checkpoints.data.length, 'the best and the latest are left').toBeLessThanOrEqual(2)
    },
  )
})

function hasPackage(name: string): boolean {
  const lib = path.join(VENV, 'lib')
  return existsSync(lib) && readdirSync(lib).some((python) => existsSync(path.join(lib, python, 'site-packages', name)))
}
