/**
 * Files for containers, Kubernetes and systemd (`src/deploy/`), in parts, as no container engine is at hand: what judges of
 * their formats say, and that every command and setting in them is one of the program's.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { packageVersion } from '#base/util/package-root.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const DEPLOY = path.join(ROOT, 'src/deploy')
const BIN = path.join(ROOT, '.cache/deploy-venv/bin')
const NO_JUDGES = 'no judges of deployment files in .cache/deploy-venv: .ci/run installs them'
const hasJudges = existsSync(path.join(BIN, 'kubernetes-validate')) && existsSync(path.join(BIN, 'hadolint'))
const hasUnits = spawnSync('systemd-analyze', ['--version']).status === 0

const read = (file: string): string => readFileSync(path.join(DEPLOY, file), 'utf8')
const filesOf = (folder: string): string[] => readdirSync(path.join(DEPLOY, folder)).map((name) => `${folder}/${name}`)
const UNITS = filesOf('systemd')
const MANIFESTS = ['kubernetes/base/server.yaml', 'kubernetes/cards/cards.yaml']

function judge(program: string, args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', cwd: DEPLOY })
  expect(status, `${stdout}${stderr}`).toBe(0)
}

describe('their formats', () => {
  it('are those of Dockerfiles', (context) => {
    if (!hasJudges) return context.skip(NO_JUDGES)
    judge(path.join(BIN, 'hadolint'), ['Dockerfile', 'Dockerfile.gpu'])
  })

  it('are those of Kubernetes, without a field that it does not know', (context) => {
    if (!hasJudges) return context.skip(NO_JUDGES)
    for (const version of ['1.29', '1.35'])
      judge(path.join(BIN, 'python'), [path.join(BIN, 'kubernetes-validate'), '--strict', '-k', version, ...MANIFESTS])
  })

  it('is that of compose', (context) => {
    if (!hasJudges) return context.skip(NO_JUDGES)
    judge(path.join(BIN, 'python'), [path.join(import.meta.dirname, 'read_compose.py'), 'compose.yaml'])
  })

  it('are those of systemd', (context) => {
    if (!hasUnits) return context.skip('systemd-analyze is not installed')
    judge('systemd-analyze', ['verify', ...UNITS])
  })
})

describe('what they say to the program', () => {
  /** Words behind `trainyard` of each file. */
  const commands: readonly (readonly [string, readonly string[]])[] = [
    ...UNITS.map((file) => [file, words(/^ExecStart=\S+ trainyard (.*)$/m.exec(read(file))?.[1] ?? '')] as const),
    ...['Dockerfile', 'Dockerfile.gpu'].map(
      (file) => [file, JSON.parse(/^CMD (\[.*\])$/m.exec(read(file))?.[1] ?? '[]')] as const,
    ),
    ...MANIFESTS.flatMap((file) =>
      [...read(file).matchAll(/ args: \[(.*)\]$/gm)].map(([, list = '']) => [file, words(list, ', ')] as const),
    ),
    [
      'kubernetes/cards/kustomization.yaml',
      words(/value: \[(serve.*?)\]/.exec(read('kubernetes/cards/kustomization.yaml'))?.[1] ?? '', ', '),
    ],
    ['compose.yaml', words(/command: \[(worker.*)\]/.exec(read('compose.yaml'))?.[1] ?? '', ', ')],
    [
      'compose.yaml',
      [...(/command:\n((?: {6}- .*\n)+)/.exec(read('compose.yaml'))?.[1] ?? '').matchAll(/- (.*)\n/g)].map(
        ([, word = '']) => word,
      ),
    ],
  ]

  it.each(commands)('%s: %j', (_, [command = '', ...args]) => {
    expect(command).toMatch(/^(serve|worker|engine-node)$/)
    const help = execFileSync(process.execPath, ['bin/trainyard.js', 'help', command], { cwd: ROOT, encoding: 'utf8' })
    const known = new Set(help.match(/--[\w-]+/g))
    for (const arg of args.filter((each) => each.startsWith('--'))) expect([...known], arg).toContain(arg.split('=')[0])
  })

  it('sets what is a setting', () => {
    const listed = JSON.stringify(
      JSON.parse(
        execFileSync(process.execPath, ['bin/trainyard.js', 'config', 'list', '--json'], {
          cwd: ROOT,
          encoding: 'utf8',
        }),
      ),
    )
    const texts = [read('Dockerfile'), read('kubernetes/base/settings.env')].join('\n')
    const names = [...new Set(texts.match(/TRAINYARD_\w+/g))]
    expect(names.length).toBeGreaterThan(4)
    for (const name of names) {
      const key = name.replace('TRAINYARD_', '').toLowerCase().replaceAll('_', '-')
      expect(listed, name).toContain(`"${key}"`)
    }
  })

  it('names this version of the package', () => {
    for (const file of ['Dockerfile', 'Dockerfile.gpu']) expect(read(file)).toContain(`trainyard@${packageVersion()}`)
    expect(read('kubernetes/base/kustomization.yaml')).toContain(`newTag: ${packageVersion()}`)
  })
})

function words(text: string, between = ' '): string[] {
  return text.split(between).map((word) => word.replace(/^"(.*)"$/, '$1'))
}
