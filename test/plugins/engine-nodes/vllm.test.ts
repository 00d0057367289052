/**
 * vLLM as an engine node, beside our own engine on the same checkpoint: the same ids, log-probabilities within 1e-4 (2.6e-5 was the most in
 * 3,034 tokens of spark in float32), and every process of it gone when one of them is killed.
 *
 * A heavy check of some minutes: `CI_HEAVY=1 .ci/run` installs a third party's build for processors into `.cache/vllm-venv`; skipped without.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { EngineNodeInfo } from '#contract/wire/engine-nodes.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { startWorkerProcess, type WorkerProcess } from '../../support/service/worker-process.js'
import { until } from '../../support/until.js'

const VLLM = join(packageRoot(), '.cache/vllm-venv/bin/vllm')
const BASE = 'trainyard/spark'
const START_MS = 600_000
const isThere = process.env['CI_HEAVY'] === '1' && existsSync(VLLM)

interface Answer {
  readonly status: number
  readonly body: {
    readonly choices: readonly {
      readonly text: string
      readonly token_ids: readonly number[]
      readonly finish_reason: string
      readonly logprobs: { readonly token_logprobs: readonly number[] } | null
    }[]
    readonly error?: { readonly param: string; readonly message: string }
  }
}

describe.skipIf(!isThere)('vLLM behind an engine node (CI_HEAVY=1)', { timeout: START_MS }, () => {
  let directory: string
  let service: TestService
  let node: WorkerProcess

  const ask = (more: object): Promise<Answer> =>
    service.json('/v1/completions', {
      json: { model: BASE, max_tokens: 24, temperature: 0, logprobs: 2, return_token_ids: true, ...more },
    })

  async function askAll(requests: readonly object[]): Promise<Answer[]> {
    const answers: Answer[] = []
    let next = 0
    const work = async (): Promise<void> => {
      for (let i = next++; i < requests.length; i = next++) answers[i] = await ask(requests[i] ?? {})
    }
    await Promise.all(Array.from({ length: 8 }, work))
    return answers
  }

  const starts = ['the number', 'a cat', 'three plus four', 'sort 9 3 1', 'once upon', 'hello there', 'what is']
  const prompts = Array.from({ length: 200 }, (_, i) => ({
    prompt: `${starts[i % starts.length]} ${i} ${starts[(i * 5) % starts.length]}`,
    model: i % 2 === 0 ? BASE : 'm',
    ignore_eos: i % 3 === 0,
  }))
  const rules = [
    { structured_outputs: { choice: ['yes', 'no', 'perhaps'] } },
    { structured_outputs: { regex: '[a-c]{6}' } },
    { structured_outputs: { grammar: 'root ::= "ab" ("c" | "d")+ "."' } },
    { stop: ['e'] },
    { bad_words: ['the', 'a'] },
    { logit_bias: { 65: 4, 70: -100 } },
    { allowed_token_ids: [65, 66, 67] },
    { repetition_penalty: 1.3, frequency_penalty: 0.4, presence_penalty: 0.2 },
    { min_tokens: 10 },
  ].map((each) => ({ model: 'm', prompt: 'Once upon a time', ...each }))
  let local: Answer[]

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-vllm-'))
    service = await createTestService({ scripted: false, baseModels: [BASE], precision: 'f32', engines: 'local' })
    const rows = Array.from({ length: 8 }, (_, i) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: `Say ${i}` },
          { role: 'assistant', content: `The number is ${i}, gladly.` },
        ],
      }),
    )
    const { body: model } = await service.json<{ id: string }>('/v1/preview/models', {
      json: { project: 'default', name: 'm', base_model: BASE },
    })
    const url = `data:application/jsonl;base64,${Buffer.from(rows.join('\n')).toString('base64')}`
    const { body: job } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', {
      json: { model_id: model.id, training_data_url: url, config: { batch_size: 4, learning_rate: 3e-3, seed: 1 } },
    })
    expect((await service.waitForJob(job.id)).status).toBe('completed')
    local = await askAll([...prompts, ...rules])
    service = await service.restart({ engines: 'remote', tuning: { plugins: { 'engine-nodes': { reportMs: 200 } } } })
    const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'worker' } })
    node = startWorkerProcess({
      url: service.url,
      key: body.key,
      directory,
      command: 'engine-node',
      // as little of a shared machine as will do
      environment: { VLLM_CPU_KVCACHE_SPACE: '1', VLLM_CPU_OMP_THREADS_BIND: 'nobind', OMP_NUM_THREADS: '1' },
      flags: [
        ...['--base-model', BASE, '--engine', 'vllm', '--vllm', VLLM, '--max-sequences', '16', '--max-loras', '1'],
        ...['--', '--dtype', 'float32', '--enforce-eager'],
      ],
    })
    await node.heard('ready', START_MS)
  }, START_MS)

  afterAll(async () => {
    node?.child.kill('SIGKILL')
    await node?.ended
    await service?.dispose()
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  })

  it('gives the same ids and, within 1e-4, the same log-probabilities: base model, adapter, rules, structured outputs', async () => {
    const remote = await askAll([...prompts, ...rules])
    for (const [i, { status, body }] of remote.entries()) {
      const expected = local[i]?.body.choices[0]
      const [got] = body.choices
      expect(
        [status, got?.token_ids, got?.text, got?.finish_reason],
        JSON.stringify([...prompts, ...rules][i]),
      ).toEqual([200, expected?.token_ids, expected?.text, expected?.finish_reason])
      const given = got?.logprobs?.token_logprobs ?? []
      const gaps = expected?.logprobs?.token_logprobs.map((logprob, k) => Math.abs((given[k] ?? Number.NaN) - logprob))
      expect(Math.max(...(gaps ?? [Number.NaN])), JSON.stringify([...prompts, ...rules][i])).toBeLessThan(1e-4)
    }
  })

  it('refuses by name what it does not have', async () => {
    for (const [param, more] of [
      ['dry_multiplier', { dry_multiplier: 0.8 }],
      ['xtc_probability', { xtc_probability: 0.5, xtc_threshold: 0.1 }],
      // its build for processors ends at it, with every request that runs beside
      ['prompt_logprobs', { prompt_logprobs: 2 }],
      ['use_beam_search', { use_beam_search: true, n: 2, logprobs: null }],
    ] as const) {
      const { status, body } = await ask({ prompt: 'a', ...more })
      expect([status, body.error?.param]).toEqual([400, param])
    }
  })

  it('loses all of its processes with one of them, and is started again', async () => {
    const before = groupOf()
    expect(before.pids.length).toBeGreaterThan(2)
    const response = await service.fetch('/v1/completions', {
      json: { model: 'm', prompt: 'Once', max_tokens: 1500, ignore_eos: true, stream: true },
    })
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = (await reader?.read())?.value ?? ''
    process.kill(before.server, 'SIGKILL')
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += part.value
    expect(text).toContain('engine node')
    await until(() => membersOf(before.group).length === 0, 'a group without processes')
    const stateOf = async (): Promise<string | undefined> =>
      (await service.json<{ data: EngineNodeInfo[] }>('/v1/preview/engine-nodes')).body.data[0]?.state
    await until(async () => (await stateOf()) === 'leaving', 'a node that takes nothing')
    await until(async () => (await stateOf()) === 'ready', 'vLLM that is back', START_MS)
    // the adapter is loaded anew
    expect((await ask({ model: 'm', prompt: prompts[1]?.prompt })).status).toBe(200)
  })

  it('ends with the command, however that ends', async () => {
    const { group } = groupOf()
    node.child.kill('SIGKILL')
    await until(() => membersOf(group).length === 0, 'a group without processes')
  })

  /** vLLM's processes: those of the group whose leader was started for this folder's model. */
  function groupOf(): { readonly group: number; readonly pids: readonly number[]; readonly server: number } {
    const leader = processes().find(({ command }) => command.includes('group-leader.js') && command.includes(directory))
    const pids = membersOf(leader?.pid ?? -1)
    const server = processes().find(
      ({ pid, command }) => pids.includes(pid) && pid !== leader?.pid && command.includes('serve'),
    )
    return { group: leader?.pid ?? -1, pids, server: server?.pid ?? -1 }
  }
})

interface Listed {
  readonly pid: number
  readonly group: number
  readonly command: string
}

function processes(): readonly Listed[] {
  const text = execFileSync('ps', ['-eo', 'pid,pgid,args', '-ww'], { encoding: 'utf8' })
  return text.split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line)
    return match === null ? [] : [{ pid: Number(match[1]), group: Number(match[2]), command: match[3] ?? '' }]
  })
}

const membersOf = (wanted: number): readonly number[] =>
  processes().flatMap(({ pid, group }) => (group === wanted ? [pid] : []))
