/** A coding agent from npm, unmodified, as `env train agent:…` starts it: it is recorded, with its tools, and trains. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { packageRoot } from '#base/util/package-root.js'
import { type LocalService, startLocal, TrainableModel } from '../../../src/rl.js'
import { runCli } from '../../support/service/run-cli.js'

const BASE = 'trainyard/spark'
const pi = join(packageRoot(), '.cache/agents/node_modules/@mariozechner/pi-coding-agent/dist/cli.js')
const provider = join(import.meta.dirname, 'support', 'pi-provider.mjs')
const folder = mkdtempSync(join(tmpdir(), 'trainyard-pi-'))

interface Group {
  readonly exceptions: readonly object[]
  readonly trajectories: readonly {
    readonly tools?: readonly { readonly function: { readonly name: string } }[]
    readonly metrics: Readonly<Record<string, number>>
    readonly messages_and_choices: readonly { readonly token_ids?: readonly number[] }[]
  }[]
}

describe.skipIf(!existsSync(pi))('pi (skipped without .cache/agents, which has it)', () => {
  let local: LocalService
  beforeAll(async () => {
    local = await startLocal({ baseModels: [BASE], logger: createLogger({ level: 'silent' }) })
    await new TrainableModel(local.client, { name: 'coder', baseModel: BASE }).register()
  })
  afterAll(async () => {
    await local.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('is recorded as it asks, streamed and with tools, and its groups train', { timeout: 1_200_000 }, async () => {
    const [tasks, reward, out] = ['asks.jsonl', 'reward.mjs', 'run'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ]
    const words = ['tree', 'house', 'a', 'moon', 'river', 'go', 'window', 'sun']
    writeFileSync(
      tasks,
      words.map((word) => `${JSON.stringify({ prompt: `How many letters has ${word}?` })}\n`).join(''),
    )
    // answers of every length, so that groups differ
    writeFileSync(reward, 'export const reward = (answer, row, messages) => messages.length + answer.length / 100\n')
    const flags = [
      '--no-skills',
      '--no-context-files',
      '--no-prompt-templates',
      '--no-themes',
      '--system-prompt',
      'brief',
    ]
    const command = [
      ...[process.execPath, pi, '-p', '--no-session', '--offline', ...flags, '--tools', 'read,bash', '-e', provider],
      ...['--provider', 'trainyard', '--model', '{model}', '{prompt}'],
    ]
    const { exitCode, stderr } = await runCli(
      [
        ...['env', 'train', `agent:${command.map((word) => `"${word}"`).join(' ')}`, 'coder', '--tasks-file', tasks],
        ...[
          '--reward',
          reward,
          '--steps',
          '1',
          '--tasks-per-step',
          '2',
          '-n',
          '3',
          '--eval-every',
          '0',
          '--eval-tasks',
          '1',
        ],
        ...['--max-turns', '4', '--temperature', '1.3', '--out', out, '--json'],
      ],
      { env: { TRAINYARD_URL: local.url, TRAINYARD_API_KEY: local.apiKey }, fetch: globalThis.fetch },
    )
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
    const lines = readFileSync(join(out, 'groups', '1.jsonl'), 'utf8')
      .split('\n')
      .filter(Boolean)
    const groups = lines.map((line) => JSON.parse(line) as Group)
    for (const { exceptions, trajectories } of groups) {
      expect(exceptions).toEqual([])
      for (const { tools, metrics, messages_and_choices: items } of trajectories) {
        expect(tools?.map(({ function: { name } }) => name).toSorted()).toEqual(['bash', 'read'])
        expect(items.flatMap(({ token_ids }) => token_ids ?? []).length).toBeGreaterThan(0)
        expect(metrics['recording/undelivered_calls']).toBe(0)
      }
    }
    const steps = readFileSync(join(out, 'steps.jsonl'), 'utf8')
    const trained = steps.split('\n').find((line) => line.includes('"trained"'))
    const { job, trained_groups: count } = JSON.parse(trained ?? '{}') as { job: string | null; trained_groups: number }
    expect(count).toBeGreaterThan(0)
    const events = (await local.client.trainingJobs.events(job ?? '', {})).data
    const [step] = events.flatMap(({ data }) => ('kl_div' in data ? [data as { kl_div: number }] : []))
    // sampler and trainer are at one on what was recorded
    expect(Math.abs(step?.kl_div ?? 1)).toBeLessThan(1e-6)
  })
})
