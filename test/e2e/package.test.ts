/**
 * The published package: what is in it, that it serves its built-in model where it is installed, and that it refuses to when
 * a file of the model was damaged.
 *
 * Installed as npm does it, except for the dependencies: a link to this checkout's, so that no network is needed.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, posix, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ChatResponse } from '../../src/contract/wire/chat-completions.js'
import { packedPackage } from '../support/packed-package.js'
import { cli, createHome, startCli } from '../support/service/cli-process.js'

const ROOT = resolve(import.meta.dirname, '../..')
const MAX_PACKED_BYTES = 12e6
const MAX_UNPACKED_BYTES = 20e6

const home = createHome()
const packageRoot = join(home.path, 'project/node_modules/trainyard')
const assets = join(packageRoot, 'src/assets/spark')
let packed: Awaited<ReturnType<typeof packedPackage>>

beforeAll(async () => {
  packed = await packedPackage()
  mkdirSync(packageRoot, { recursive: true })
  execFileSync('tar', ['-xzf', packed.file, '-C', packageRoot, '--strip-components=1'])
  symlinkSync(join(ROOT, 'node_modules'), join(packageRoot, 'node_modules'))
})
afterAll(() => home.remove())

describe('contents', () => {
  test('the built-in model with its card is in it, tests and source maps are not', () => {
    const paths = packed.files.map((file) => file.path)
    for (const name of [
      'config.json',
      'digests.json',
      'model.safetensors',
      'README.md',
      'tokenizer.json',
      'tokenizer_config.json',
    ]) {
      expect(paths).toContain(`src/assets/spark/${name}`)
    }
    expect(paths).toContain('bin/trainyard.js')
    expect(paths).toContain('dist/src/index.d.ts')
    expect(paths).toContain('dist/ui/manifest.json')
    expect(paths.filter((path) => /^dist\/ui\/app-\w+\.js(\.br|\.gz)?$/.test(path))).toHaveLength(3)
    expect(paths.filter((path) => /\.(map|test\.js)$|^dist\/test|^test\//.test(path))).toEqual([])
    expect(paths).toContain('src/docs/reference/how-training-works.md')
    expect(
      paths.filter(
        (path) =>
          path.startsWith('src/') &&
          !/^src\/(assets|deploy|docs|plugins\/torch\/trainyard_torch)\/|\/python\/\w+\.py$|^src\/plugins\/mcp\/SKILL\.md$|^src\/plugins\/environments\/walls\/\w+\.mjs$/.test(
            path,
          ),
      ),
    ).toEqual([])
  })
  test('every link of its pages leads to a file that is in it', () => {
    const paths = new Set(packed.files.map((file) => file.path))
    const pages = [...paths].filter((file) => /[.]md$/.test(file))
    expect(pages.length).toBeGreaterThan(8)
    const lost = pages.flatMap((page) =>
      [...readFileSync(join(packageRoot, page), 'utf8').matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g)]
        .map(([, target]) => posix.join(posix.dirname(page), target as string))
        .filter((target) => !paths.has(target))
        .map((target) => `${page}: ${target}`),
    )
    expect(lost).toEqual([])
  })
  test('it is at most 12 MB packed and 20 MB unpacked', () => {
    expect(packed.size).toBeLessThanOrEqual(MAX_PACKED_BYTES)
    expect(packed.unpackedSize).toBeLessThanOrEqual(MAX_UNPACKED_BYTES)
  })
  test('every file in it that the model’s digests list is byte for byte this checkout’s', () => {
    const { files } = JSON.parse(readFileSync(join(assets, 'digests.json'), 'utf8')) as {
      files: Record<string, string>
    }
    for (const [name, digest] of Object.entries(files)) {
      expect(sha256(join(assets, name)), name).toBe(digest)
      expect(sha256(join(ROOT, 'src/assets/spark', name)), name).toBe(digest)
    }
  })
})

describe('installed', () => {
  test('`serve` alone serves the built-in model: it is listed, answers, and can be trained from', async () => {
    const server = startCli(['serve', '--json', '--port', '0'], { home: home.path, packageRoot })
    try {
      const { url } = JSON.parse((await server.waitForStdout(/\n/)).trim()) as { url: string }
      const options = { home: home.path, packageRoot, env: { TRAINYARD_URL: url } }
      const run = async <T>(argv: readonly string[]): Promise<T> => {
        const { stdout, stderr, exitCode } = await cli([...argv, '--json'], options)
        expect(exitCode, stderr).toBe(0)
        return JSON.parse(stdout) as T
      }
      expect(await run(['base-models', 'list'])).toMatchObject({ data: [{ id: 'trainyard/spark', status: 'ready' }] })
      const prompt = ['Say hello.', '--temperature', '0', '--max-tokens', '16']
      const base = await run<ChatResponse>(['chat', 'trainyard/spark', ...prompt])
      await run(['models', 'create', 'mine', '--base-model', 'trainyard/spark'])
      const mine = await run<ChatResponse>(['chat', 'mine', ...prompt])
      expect(mine.choices[0]?.message.content).toBe(base.choices[0]?.message.content)
      expect(base.choices[0]?.message.content).toMatch(/[a-z]/i)
    } finally {
      server.child.kill('SIGTERM')
      await server.finished
    }
  })
})

describe('a damaged model', () => {
  const weights = join(assets, 'model.safetensors')

  /** Damages the installed copy, tries to start, puts the copy back. */
  async function serveDamaged(damage: () => void, argv: readonly string[] = []) {
    const dataDir = join(home.path, 'refused')
    cpSync(assets, `${assets}.whole`, { recursive: true })
    try {
      damage()
      const result = await cli(['serve', '--port', '0', '--data-dir', dataDir, ...argv], {
        home: home.path,
        packageRoot,
      })
      expect(existsSync(join(dataDir, 'api-key'))).toBe(false)
      return { ...result, actual: existsSync(weights) ? sha256(weights) : '' }
    } finally {
      rmSync(assets, { recursive: true, force: true, maxRetries: 20 })
      renameSync(`${assets}.whole`, assets)
    }
  }

  test.each<[string, (bytes: Buffer) => Buffer]>([
    ['truncated', (bytes) => bytes.subarray(0, bytes.length >> 1)],
    [
      'altered in one byte',
      (bytes) => {
        bytes[bytes.length - 1000]! ^= 0x40
        return bytes
      },
    ],
  ])('%s: exit 1 with the file, both digests and what to do; no key is made', async (_, alter) => {
    const expected = sha256(weights)
    const { stdout, stderr, exitCode, actual } = await serveDamaged(() =>
      writeFileSync(weights, alter(readFileSync(weights))),
    )
    expect(exitCode).toBe(1)
    expect(stdout).toBe('')
    expect(actual).not.toBe(expected)
    for (const words of [weights, actual, expected, 'npm ci', 'git checkout']) expect(stderr).toContain(words)
    expect(stderr).not.toContain('bug')
  })

  test('a list of digests without the weights is no proof: refused the same, in JSON when asked', async () => {
    const path = join(assets, 'digests.json')
    const { stderr, exitCode } = await serveDamaged(() => {
      const json = JSON.parse(readFileSync(path, 'utf8')) as { files: Record<string, string> }
      delete json.files['model.safetensors']
      writeFileSync(path, JSON.stringify(json))
    }, ['--json'])
    expect(exitCode).toBe(1)
    expect(JSON.parse(stderr)).toMatchObject({
      error: {
        type: 'internal',
        code: 'built_in_model_damaged',
        message: expect.stringContaining(`"${path}" of the built-in model has no sha256 of model.safetensors`),
        hint: expect.stringContaining('npm ci'),
      },
    })
  })

  test('another base model can be served all the same', async () => {
    rmSync(weights)
    const argv = ['serve', '--json', '--port', '0', '--base-model', 'trainyard/tiny-random']
    const server = startCli(argv, { home: home.path, packageRoot })
    await server.waitForStdout(/listening/)
    server.child.kill('SIGTERM')
    expect(await server.finished).toMatchObject({ exitCode: 0 })
  })
})

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}
