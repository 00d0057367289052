/** Commands in each output mode against a scripted service: what is printed where, what is sent, how it ends. */
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Clock } from '../../../../src/base/util/clock.js'
import { InterruptedError } from '../../../../src/cli/terminal/errors.js'
import { type RunOptions, runCli } from '../../../support/service/run-cli.js'
import {
  checkpoint,
  errorBody,
  JOB,
  MODEL,
  page,
  type Routes,
  scriptedService,
} from '../../../support/service/scripted-service.js'

const clock: Clock = { nowMs: () => Date.parse('2026-11-20T11:12:44Z'), monotonicMs: () => 0 }
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-commands-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

const PLAN = {
  object: 'training_plan',
  model_id: MODEL.id,
  kind: 'rl',
  config: {},
  num_gradient_steps: 3,
  num_rows: 4,
  tokens: 12_000,
  trained_tokens: 800,
  started: { num_sequences: 3 },
  left_out: [{ reason: 'zero_advantage', count: 2, examples: ['trajectory_groups[1].trajectories[0]'] }],
  warnings: ['reward variance zero in 50% of groups'],
  groups: [
    { index: 0, mean_reward: 0.5, reward_std_dev: 0.5, advantages: [1, -1], left_out: null },
    { index: 1, mean_reward: 1, reward_std_dev: 0, advantages: [0, 0], left_out: 'equal_rewards' },
  ],
  num_groups: 2,
  sequences: [
    {
      source: 'trajectory_groups[0].trajectories[0]',
      tokens: 300,
      trained_tokens: 3,
      advantage: 1,
      weight: 1,
      spans: [
        { is_trained: false, tokens: 297, text: 'x'.repeat(310) },
        { is_trained: true, tokens: 3, text: 'yes\n' },
      ],
      omitted_spans: 0,
    },
  ],
  num_sequences: 2,
  memory: { needed_bytes: 1.2e9, available_bytes: 8e9, is_recomputed: true, rows: 1, row_length: 2048 },
  refusal: null,
  time: { predicted_seconds: 125, basis: 'calibration', tokens_per_second: 96 },
}

const models: Routes = { 'GET /v1/preview/models': { body: page([MODEL]) } }
const checkpointsPath = `/v1/preview/models/${MODEL.id}/checkpoints`
function run(argv: readonly string[], routes: Routes, options: RunOptions = {}) {
  const service = scriptedService(routes)
  return runCli(argv, { clock, ...options, fetch: service.fetch }).then((result) => ({
    ...result,
    requests: service.requests,
  }))
}

describe('lists', () => {
  test('a terminal shows a table, relative times and the next command', async () => {
    const { stdout, stderr } = await run(
      ['models', 'list'],
      { 'GET /v1/preview/models': { body: page([MODEL], true) } },
      { tty: true },
    )
    const [head, row] = stdout.split('\n')
    expect(head).toMatch(/^NAME +PROJECT +BASE MODEL +STEP +CREATED$/)
    expect(row).toContain('2 hours ago')
    expect(row).not.toContain(MODEL.id)
    expect(stderr.trimEnd().split('\n').at(-1)).toBe(`more: trainyard models list --after ${MODEL.id}`)
  })
  test('no table is wider than 80 columns, no line breaks inside a word, and --wide shows ids in full', async () => {
    const long = { ...MODEL, name: 'an-agent-with-a-long-name', base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct' }
    const job = { ...JOB, id: '019a3c5e-7b1f-7000-8000-0000deadbeef', config: { learning_rate: 0.001, epsilon: 0.2 } }
    const routes = {
      'GET /v1/preview/models': { body: page([long]) },
      [`GET ${checkpointsPath}`]: { body: page([checkpoint(1, { 'val/reward': 0.5, 'train/reward': 0.25 })]) },
      'GET /v1/preview/training-jobs': { body: page([job]) },
      [`GET /v1/preview/training-jobs/${job.id}`]: {
        body: {
          ...job,
          status: 'failed',
          error_message: 'the loss became infinite in the third gradient step of four',
        },
      },
      [`GET /v1/preview/models/${MODEL.id}`]: { body: long },
    }
    const narrow = { tty: true, columns: 80 }
    for (const argv of [
      ['models', 'list'],
      ['checkpoints', 'list', long.name],
      ['jobs', 'list'],
      ['jobs', 'get'],
    ]) {
      const { stdout } = await run(argv, routes, narrow)
      expect(Math.max(...stdout.split('\n').map((line) => line.length)), argv.join(' ')).toBeLessThanOrEqual(80)
    }
    expect((await run(['jobs', 'list'], routes, narrow)).stdout).toMatch(/ deadbeef\n$/)
    expect((await run(['jobs', 'list', '--wide'], routes, narrow)).stdout).toContain(job.id)
    expect((await run(['models', 'list', '--wide'], routes, narrow)).stdout).toContain(MODEL.id)
    const { stdout } = await run(['jobs', 'get'], routes, narrow)
    expect(stdout).toContain('the loss became infinite in the third gradient step of')
  })
  test('a pipe gets tabs without header or colour, even when colour is forced', async () => {
    const { stdout } = await run(['models', 'list'], models, { env: { FORCE_COLOR: '1' } })
    expect(stdout).toBe(`email-agent\tdefault\ttrainyard/tiny-random\t12\t2026-11-20T09:12:44.000Z\t${MODEL.id}\n`)
  })
  test('--json is the envelope untouched, also when empty; --quiet is ids', async () => {
    expect(JSON.parse((await run(['models', 'list', '--json'], models)).stdout)).toEqual(page([MODEL]))
    const empty = await run(['--json', 'models', 'list'], { 'GET /v1/preview/models': { body: page([]) } })
    expect(empty).toMatchObject({ stdout: `${JSON.stringify(page([]))}\n`, stderr: '', exitCode: 0 })
    expect((await run(['models', 'list', '-q'], models)).stdout).toBe(`${MODEL.id}\n`)
  })
  test('an empty list is exit 0 and says so on stderr', async () => {
    const { stdout, stderr, exitCode } = await run(['models', 'list'], { 'GET /v1/preview/models': { body: page([]) } })
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 0 })
    expect(stderr).toContain('no models yet')
  })
  test('--all walks every page into one envelope', async () => {
    const second = { ...MODEL, id: '019a3c5e-0000-7000-8000-000000000002', name: 'b' }
    const routes: Routes = {
      'GET /v1/preview/models': ({ query }) => ({
        body: query.get('after') === null ? page([MODEL], true) : page([second]),
      }),
    }
    const { stdout } = await run(['models', 'list', '--all', '--json'], routes)
    expect(JSON.parse(stdout)).toEqual(page([MODEL, second]))
  })
  test('checkpoints show the metrics that exist as columns', async () => {
    const routes = {
      ...models,
      [`GET ${checkpointsPath}`]: { body: page([checkpoint(1, { 'val/reward': 0.5 }), checkpoint(2)]) },
    }
    const { stdout } = await run(['checkpoints', 'list', 'email-agent'], routes, { tty: true })
    expect(stdout).toMatch(/^ *STEP +VAL\/REWARD +SIZE +CREATED\n/)
  })
})

describe('models', () => {
  test('create sends all five fields and prints the object', async () => {
    const routes: Routes = { 'POST /v1/preview/models': { body: MODEL } }
    const { stdout, requests } = await run(
      ['models', 'create', 'games/email-agent', '--base-model', 'trainyard/tiny-random', '--json'],
      routes,
    )
    expect(requests[0]?.body).toEqual({
      entity: null,
      project: 'games',
      name: 'email-agent',
      base_model: 'trainyard/tiny-random',
      return_existing: false,
    })
    expect(JSON.parse(stdout)).toEqual(MODEL)
  })
  test('an existing name is exit 5 with the flag that reuses it; a different base model too', async () => {
    const conflict: Routes = {
      'POST /v1/preview/models': { status: 409, body: errorBody('model_already_exists', 'taken') },
    }
    const create = ['models', 'create', 'email-agent', '--base-model', 'other']
    const first = await run(create, conflict)
    expect(first.exitCode).toBe(5)
    expect(first.stderr).toBe(
      'error: model "email-agent" already exists in project "default"\nhint: add --if-not-exists to reuse it\n',
    )
    const second = await run([...create, '--if-not-exists'], { 'POST /v1/preview/models': { body: MODEL } })
    expect(second.exitCode).toBe(5)
    expect(second.stderr).toContain('exists with base model trainyard/tiny-random, not other')
  })
  test('--if-not-exists says whether the model is new', async () => {
    const create = ['models', 'create', 'email-agent', '--base-model', MODEL.base_model, '--if-not-exists']
    const made = await run(create, { 'POST /v1/preview/models': { body: MODEL } })
    expect(made.stdout).toBe(`Created model email-agent (${MODEL.id}) from ${MODEL.base_model}\n`)
    const found = await run(create, {
      'POST /v1/preview/models': ({ body }) =>
        (body as { return_existing: boolean }).return_existing
          ? { body: MODEL }
          : { status: 409, body: errorBody('model_already_exists', 'taken') },
    })
    expect(found.exitCode).toBe(0)
    expect(found.stdout).toBe(`Model email-agent (${MODEL.id}) exists already, from ${MODEL.base_model}\n`)
  })
  test('a misspelt name is exit 3 with the nearest one', async () => {
    const { stderr, exitCode } = await run(['models', 'get', 'emial-agent'], models)
    expect(exitCode).toBe(3)
    expect(stderr).toBe(
      'error: model "emial-agent" was not found in project "default"\n  Did you mean "email-agent"?\nhint: trainyard models list\n',
    )
  })
  test('one match in another project is taken, unless a project was asked for', async () => {
    const routes: Routes = {
      'GET /v1/preview/models': ({ query }) => ({
        body: page(query.get('name') === null ? [{ ...MODEL, project: 'games' }] : []),
      }),
      [`GET ${checkpointsPath}`]: { body: page([]) },
    }
    const found = await run(['models', 'get', 'email-agent', '--json'], routes)
    expect(JSON.parse(found.stdout)).toMatchObject({ project: 'games' })
    const asked = await run(['models', 'get', 'email-agent', '--project', 'work'], routes)
    expect(asked.exitCode).toBe(3)
    expect(asked.stderr).toContain('Did you mean "games/email-agent"?')
  })
  test('get shows facts with the best checkpoint', async () => {
    const routes = { ...models, [`GET ${checkpointsPath}`]: { body: page([checkpoint(9, { 'val/reward': 0.71 })]) } }
    const { stdout } = await run(['models', 'get', 'email-agent'], routes, { tty: true })
    expect(stdout).toContain('Step         12   (1 checkpoint, 8.7 MB)')
    expect(stdout).toContain('step 9   val/reward 0.71')
  })
  test('delete goes on after a failure and exits with it, saying what was deleted', async () => {
    const other = { ...MODEL, id: '019a3c5e-0000-7000-8000-000000000002', name: 'busy' }
    const routes: Routes = {
      'GET /v1/preview/models': { body: page([MODEL, other]) },
      [`GET ${checkpointsPath}`]: { body: page([]) },
      [`GET /v1/preview/models/${other.id}/checkpoints`]: { body: page([]) },
      [`DELETE /v1/preview/models/${MODEL.id}`]: {
        body: { model_id: MODEL.id, deleted_checkpoints: 0, deleted_run: false },
      },
      [`DELETE /v1/preview/models/${other.id}`]: { status: 409, body: errorBody('model_in_use', 'a job is running') },
    }
    const { stdout, exitCode } = await run(['models', 'delete', 'busy', 'email-agent', '--yes', '--json'], routes)
    expect(JSON.parse(stdout)).toEqual({ deleted: [MODEL.id], failed: [{ id: other.id, message: 'a job is running' }] })
    expect(exitCode).toBe(5)
  })
})

describe('checkpoints delete', () => {
  const listed = {
    ...models,
    [`GET ${checkpointsPath}`]: { body: page([checkpoint(1), checkpoint(2), checkpoint(3, { 'val/reward': 1 })]) },
  }
  const removed: Routes = { [`DELETE ${checkpointsPath}`]: { body: { deleted_count: 2, not_found_steps: [] } } }
  test('--keep says what goes and what stays, then deletes it', async () => {
    const argv = ['checkpoints', 'delete', 'email-agent', '--keep', 'latest', '--keep', 'best:val/reward', '--yes']
    const { stdout, stderr, requests } = await run(argv, { ...listed, ...removed })
    expect(stderr).toBe(
      'Will delete 2 of 3 checkpoints (17 MB): steps 1-2\nKeeping: step 3 (latest, best val/reward 1)\n',
    )
    expect(stdout).toBe('Deleted 2 checkpoints\n')
    expect(requests.at(-1)?.body).toEqual({ steps: [1, 2] })
  })
  test('--dry-run sends nothing', async () => {
    const { stdout, requests } = await run(
      ['checkpoints', 'delete', 'email-agent', '--steps', '1', '--dry-run', '--json'],
      listed,
    )
    expect(JSON.parse(stdout)).toEqual({ deleted_count: 0, not_found_steps: [], would_delete_steps: [1] })
    expect(requests.every((request) => request.method === 'GET')).toBe(true)
  })
  test('a missing step is exit 3 and nothing is deleted, unless it may be missing', async () => {
    const argv = ['checkpoints', 'delete', 'email-agent', '--steps', '1,9', '--yes']
    const refused = await run(argv, { ...listed, ...removed })
    expect(refused.exitCode).toBe(3)
    expect(refused.requests.every((request) => request.method === 'GET')).toBe(true)
    const allowed = await run([...argv, '--ignore-missing', '--json'], { ...listed, ...removed })
    expect(JSON.parse(allowed.stdout)).toEqual({ deleted_count: 2, not_found_steps: [9] })
  })
  test.each([[[]], [['--steps', '1', '--keep', 'latest']]])(
    'neither or both of --steps and --keep (%j) is exit 2',
    async (flags) => {
      expect((await run(['checkpoints', 'delete', 'email-agent', '--yes', ...flags], listed)).exitCode).toBe(2)
    },
  )
})

describe('checkpoints download', () => {
  const bytes = Buffer.from('adapter bytes')
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  function routes(name: string, digest: string): Routes {
    return {
      ...models,
      [`GET ${checkpointsPath}`]: { body: page([checkpoint(1), checkpoint(9, { 'val/reward': 1 })]) },
      [`GET ${checkpointsPath}/9/files`]: {
        body: {
          model_id: MODEL.id,
          step: 9,
          files: [
            { name, size_bytes: bytes.length, sha256: digest },
            { name: 'optimizer.safetensors', size_bytes: 1, sha256: '00' },
          ],
        },
      },
      [`GET ${checkpointsPath}/9/files/${name}`]: () => new Response(bytes),
    }
  }
  const argv = () => ['checkpoints', 'download', 'email-agent', '--step', 'best', '--out', folder, '--json']
  test('the folder appears with checked files, without the optimizer', async () => {
    const { stdout, exitCode } = await run(argv(), routes('adapter_model.safetensors', sha256))
    const path = join(folder, 'email-agent-step9')
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ model: 'email-agent', step: 9, path, format: 'peft' })
    expect(readFileSync(join(path, 'adapter_model.safetensors'))).toEqual(bytes)
    expect(readdirSync(folder)).toEqual(['email-agent-step9'])
    expect((await run(argv(), routes('adapter_model.safetensors', sha256))).exitCode).toBe(5)
    expect((await run([...argv(), '--force'], routes('adapter_model.safetensors', sha256))).exitCode).toBe(0)
    expect(readdirSync(folder)).toEqual(['email-agent-step9'])
  })
  test('--optimizer is refused where no format has it, and missed where a step lacks it', async () => {
    const listed = routes('adapter_model.safetensors', sha256)
    for (const format of ['merged', 'gguf', 'gguf-adapter']) {
      const refused = await run([...argv(), '--optimizer', '--format', format], listed)
      expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--optimizer has no effect with') })
      expect(refused.requests).toEqual([])
    }
    const files = [{ name: 'adapter_model.safetensors', size_bytes: bytes.length, sha256 }]
    const imported = { [`GET ${checkpointsPath}/9/files`]: { body: { model_id: MODEL.id, step: 9, files } } }
    const { stderr, exitCode } = await run([...argv(), '--optimizer'], { ...listed, ...imported })
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining('warning: step 9 has no optimizer state')])
  })
  test('a wrong digest leaves no folder', async () => {
    const { stderr, exitCode } = await run(argv(), routes('adapter_model.safetensors', 'ff'.repeat(32)))
    expect(exitCode).toBe(1)
    expect(stderr).toContain('arrived damaged')
    expect(existsSync(join(folder, 'email-agent-step9'))).toBe(false)
  })
  test('a file name that leaves the folder is refused before anything is fetched', async () => {
    const { stderr, exitCode } = await run(argv(), routes('../evil', sha256))
    expect(exitCode).toBe(1)
    expect(stderr).toContain('not a plain file name')
    expect(readdirSync(folder)).toEqual([])
  })
})

const started = { id: 'e1', type: 'training_started', data: { num_sequences: 2 }, created_at: JOB.created_at }
const step = {
  id: 'e2',
  type: 'gradient_step',
  data: { loss: 0.0132, grad_norm: 0.84, tokens_per_second: 2140.4 },
  created_at: JOB.created_at,
}
const ended = { id: 'e3', type: 'training_ended', data: {}, created_at: JOB.created_at }
const completed = { ...JOB, status: 'completed', step: 13, training_end: '2026-11-20T10:01:22.000Z' }
const jobPath = `/v1/preview/training-jobs/${JOB.id}`
function jobRoutes(job: object, events: readonly { id: string }[] = [started, step, ended]): Routes {
  return {
    ...models,
    'POST /v1/preview/training-jobs': { body: { ...JOB, status: 'queued' } },
    'POST /v1/preview/sft-training-jobs': { body: { ...JOB, kind: 'sft', status: 'queued' } },
    'POST /v1/files': { body: { id: 'file-1', object: 'file', bytes: 1, filename: 'f' } },
    [`GET ${jobPath}/events`]: { body: page(events) },
    [`GET ${jobPath}`]: { body: job },
  }
}
function writeRows(): string {
  const path = join(folder, 'rows.jsonl')
  writeFileSync(path, '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n')
  return path
}
function writeGroups(): string {
  const path = join(folder, 'groups.jsonl')
  const trajectory = (reward: number) => ({
    messages_and_choices: [
      { role: 'user', content: 'q' },
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'a' }, token_ids: [1] },
    ],
    reward,
  })
  writeFileSync(
    path,
    `${JSON.stringify({ trajectories: [trajectory(0), trajectory(1)] })}\n${JSON.stringify({ trajectories: [trajectory(1)] })}\n`,
  )
  return path
}

describe('train', () => {
  test('rl sends groups and hyperparameters: named flags over --set over --config', async () => {
    const config = join(folder, 'config.json')
    writeFileSync(config, '{"learning_rate":1,"epsilon":0.1,"mask_prob_ratio":true}')
    const argv = [
      'train',
      'rl',
      'email-agent',
      '--file',
      writeGroups(),
      '--config',
      config,
      '--set',
      'epsilon=0.3',
      '--learning-rate',
      '1e-5',
      '--no-scale-rewards',
      '--loss',
      'ppo',
    ]
    const { stdout, requests } = await run(argv, jobRoutes(JOB))
    expect(requests.at(-1)?.body).toMatchObject({
      model_id: MODEL.id,
      experimental_config: {
        learning_rate: 1e-5,
        epsilon: 0.3,
        mask_prob_ratio: true,
        scale_rewards: false,
        ppo: true,
        loss_fn: 'ppo',
      },
    })
    expect(stdout).toBe(
      `Submitted job ${JOB.id} to email-agent: 2 groups, 3 trajectories (1 of them without anything to learn from)\n`,
    )
  })
  test('sft uploads the file and watches the job to its outcome', async () => {
    const { stdout, requests, exitCode } = await run(
      ['train', 'sft', 'email-agent', '--file', writeRows(), '--batch-size', 'auto', '--watch'],
      jobRoutes(completed),
    )
    expect(exitCode).toBe(0)
    expect(requests.find((request) => request.path.endsWith('sft-training-jobs'))?.body).toEqual({
      model_id: MODEL.id,
      training_data_url: 'file-1',
      config: { batch_size: 'auto', shuffle: true, epochs: 6 },
    })
    expect(stdout.split('\n')).toEqual([
      `Submitted job ${JOB.id} to email-agent: 1 conversation`,
      '  step     loss       grad norm   entropy   tokens/s   time',
      '  1/2      0.0132     0.84        -         2,140      0:00',
      `Job ${JOB.id} ended: checkpoint step 13 saved, 1m 21s`,
      '',
    ])
  })
  test('what did not train is said at the end of a watched job, and when that was everything', async () => {
    const argv = ['train', 'sft', 'email-agent', '--file', writeRows(), '--watch']
    const report = {
      left_out: [
        { reason: 'overlength', count: 2, examples: ['line 1', 'line 4'] },
        { reason: 'zero_advantage', count: 9, examples: [] },
      ],
      tokens: 12,
      trained_tokens: 2,
      seconds: {},
      validation: [],
      kept_gradient_step: null,
      stopped_early: false,
      facts: {},
      warnings: [],
    }
    const some = await run(argv, jobRoutes({ ...completed, report }))
    expect(some.stderr).toContain('warning: left out: 2 overlength: line 1, line 4\n')
    expect(some.stderr).not.toContain('zero advantage')
    expect(some.stderr).not.toContain('nothing was trained on')
    const none = await run(argv, jobRoutes({ ...completed, report: { ...report, tokens: 0, trained_tokens: 0 } }))
    expect(none.stderr).toContain('warning: nothing was trained on: step 13 answers as the step before it\n')
    expect(none.exitCode).toBe(0)
  })
  test('of many gradient steps a pipe gets every tenth, the first and the last among them, a program all', async () => {
    const events = [
      { ...started, data: { num_sequences: 108 } },
      ...Array.from({ length: 108 }, (_, i) => ({ ...step, id: `s${i}` })),
      ended,
    ]
    const argv = ['train', 'sft', 'email-agent', '--file', writeRows(), '--watch']
    const { stdout } = await run(argv, jobRoutes(completed, events))
    const rows = [...stdout.matchAll(/^ +(\d+)\/108 /gm)].map((match) => Number(match[1]))
    expect([rows.length <= 12, rows.at(0), rows.at(1), rows.at(-1)]).toEqual([true, 1, 11, 108])
    const json = await run([...argv, '--json'], jobRoutes(completed, events))
    expect(json.stdout.match(/"gradient_step"/g)).toHaveLength(108)
  })
  test('how many answers had advantage 0 is said where some trained', async () => {
    const report = {
      left_out: [{ reason: 'zero_advantage', count: 76, examples: [] }],
      tokens: 12,
      trained_tokens: 2,
      seconds: {},
      validation: [],
      kept_gradient_step: null,
      stopped_early: false,
      facts: { answers: { total: 128 } },
      warnings: [],
    }
    const argv = ['train', 'rl', 'email-agent', '--file', writeGroups(), '--watch']
    const { stdout } = await run(argv, jobRoutes({ ...completed, report }))
    expect(stdout).toContain('saved, 1m 21s\n76 of 128 answers had advantage 0: they earned what')
  })
  test('what validation rows said stands below the outcome, of the state that was kept', async () => {
    const argv = ['train', 'sft', 'email-agent', '--file', writeRows(), '--validation-file', writeRows(), '--watch']
    const validation = [0.75, 0.25, 0.5].map((loss, i) => ({ gradient_step: 4 * i, loss }))
    const report = { left_out: [], tokens: 12, trained_tokens: 2, seconds: {}, validation, facts: {}, warnings: [] }
    const ended = (kept: object) => jobRoutes({ ...completed, report: { ...report, ...kept } })
    const last = await run(argv, ended({ kept_gradient_step: null, stopped_early: false }))
    expect(last.stdout).toContain('saved, 1m 21s\nValidation loss 0.75 before, 0.5 after\n')
    const best = await run(argv, ended({ kept_gradient_step: 4, stopped_early: true }))
    expect(best.stdout).toContain(
      'Validation loss 0.75 before, 0.25 after; stopped early: it no longer got better; kept the state after gradient step 4\n',
    )
  })
  test('--json --watch is JSON Lines: the job, its events, the settled job', async () => {
    const { stdout } = await run(
      ['train', 'sft', 'email-agent', '--file', writeRows(), '--watch', '--json'],
      jobRoutes(completed),
    )
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map((line) => line.type ?? line.status)).toEqual([
      'queued',
      'training_started',
      'gradient_step',
      'training_ended',
      'completed',
    ])
    expect(lines[1]).toEqual({ object: 'training_job.event', ...started })
  })
  test('a watched job that fails is exit 7 with its message', async () => {
    const failed = {
      ...JOB,
      status: 'failed',
      error_code: 'non_finite_loss',
      error_message: 'loss became NaN at step 3',
    }
    const events = [started, { ...ended, type: 'training_failed', data: { error_message: 'x' } }]
    const { stderr, exitCode } = await run(
      ['train', 'rl', 'email-agent', '--file', writeGroups(), '--watch'],
      jobRoutes(failed, events),
    )
    expect(exitCode).toBe(7)
    expect(stderr).toContain(`error: job ${JOB.id} failed: loss became NaN at step 3\n`)
  })
  test('Ctrl-C while watching detaches: exit 130, the job is not cancelled, and it says how to return', async () => {
    const interruption = new AbortController()
    const routes = {
      ...jobRoutes(JOB),
      [`GET ${jobPath}/events`]: () => {
        interruption.abort(new InterruptedError('SIGINT'))
        return { body: page([started]) }
      },
    }
    const { stderr, exitCode, requests } = await run(
      ['train', 'rl', 'email-agent', '--file', writeGroups(), '--watch'],
      routes,
      { signal: interruption.signal },
    )
    expect(exitCode).toBe(130)
    expect(stderr).toContain(`Detached from job ${JOB.id}; it keeps running.\nFollow: trainyard jobs watch ${JOB.id}\n`)
    expect(requests.some((request) => request.path.endsWith('/cancel'))).toBe(false)
  })
  test('nothing to train on is exit 2, or a warning with --allow-empty', async () => {
    const routes = {
      ...jobRoutes(JOB),
      'POST /v1/preview/training-jobs': {
        status: 400,
        body: errorBody('no_trainable_tokens', 'nothing to train on: 2 groups have equal rewards'),
      },
    }
    const argv = ['train', 'rl', 'email-agent', '--file', writeGroups()]
    expect((await run(argv, routes)).exitCode).toBe(2)
    const allowed = await run([...argv, '--allow-empty'], routes)
    expect(allowed.exitCode).toBe(0)
    expect(allowed.stderr).toContain('warning: nothing to train on')
  })
  test.each([
    ['equal rewards', [1, 1], true, 'reward variance zero in 100% of groups (1 of 1, mean reward 1)'],
    ['no logprobs', [0, 1], false, 'no choice carries logprobs or token ids'],
  ])('a file that cannot teach anything is told before it is sent: %s', async (_name, rewards, isSampled, message) => {
    const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'a' } }
    const trajectories = rewards.map((reward) => ({
      messages_and_choices: [isSampled ? { ...choice, token_ids: [1] } : choice],
      reward,
    }))
    const argv = ['train', 'rl', 'email-agent', '--file', '-']
    const options = { stdin: JSON.stringify({ trajectories }) }
    const refused = await run(argv, jobRoutes(JOB), options)
    expect(refused).toMatchObject({ exitCode: 2, requests: [] })
    expect(refused.stderr).toContain(message)
    expect((await run([...argv, '--allow-empty'], jobRoutes(JOB), options)).exitCode).toBe(0)
  })
  test('groups of one answer train where rewards are compared with those of all, and else are said to teach nothing', async () => {
    const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'a' }, token_ids: [1] }
    const lines = [0, 1].map(
      (reward) => `${JSON.stringify({ trajectories: [{ messages_and_choices: [choice], reward }] })}\n`,
    )
    const options = { stdin: lines.join('') }
    const argv = ['train', 'rl', 'email-agent', '--file', '-']
    for (const flags of [[], ['--set', 'kl_penalty_coef=0.1']]) {
      const refused = await run([...argv, ...flags], jobRoutes(JOB), options)
      expect(refused).toMatchObject({ exitCode: 2, requests: [] })
      expect(refused.stderr).toContain('reward variance zero in 100% of groups (2 of 2, mean reward 0.5)')
    }
    for (const flags of [[], ['--allow-empty']]) {
      const sent = await run([...argv, '--advantage', 'batch', ...flags], jobRoutes(JOB), options)
      expect(sent.exitCode).toBe(0)
      expect(sent.requests.at(-1)?.body).toMatchObject({ experimental_config: { advantage_estimator: 'batch' } })
      expect(sent.stdout).toContain('to email-agent: 2 groups, 2 trajectories\n')
    }
  })
  test('what was measured for the size that the service knows is sent and said, whatever the model is called; what was given stays', async () => {
    const described = { [`GET /v1/preview/base-models/${MODEL.base_model}`]: { body: { parameters: 4_491_520 } } }
    const argv = ['train', 'rl', 'email-agent', '--file', writeGroups()]
    const routes = { ...jobRoutes(JOB), ...described }
    const chosen = await run(argv, routes)
    expect(chosen.requests.at(-1)?.body).toMatchObject({
      experimental_config: { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.2, tokens_per_step: 384 },
    })
    expect(chosen.stderr).toContain(
      'learning_rate 0.001, advantage_balance 1, target_kl 0.2, tokens_per_step 384, for a base model of 4.5 million parameters; --learning-rate, --advantage-balance, --target-kl, --tokens-per-step say otherwise',
    )
    const given = await run([...argv, '--set', 'learning_rate=0.01', '--tokens-per-step', '64'], routes)
    expect(given.requests.at(-1)?.body).toMatchObject({
      experimental_config: { learning_rate: 0.01, target_kl: 0.2, tokens_per_step: 64 },
    })
    const none = await run([...argv, '--set', 'target_kl=null'], routes)
    expect(none.requests.at(-1)?.body).toMatchObject({ experimental_config: { target_kl: null } })
    const unknown = await run(argv, jobRoutes(JOB))
    expect(unknown.stderr).toContain('learning rate 5e-6 is the published default for a base model of unknown size')
  })
  test.each([
    ['rl', ['--set', 'epoch=2'], 'experimental_config.epoch is not a known option'],
    ['sft', ['--set', 'epoch=2'], 'config.epoch is not a known option and has no effect; did you mean "epochs"?'],
    ['dpo', ['--set', 'betta=0.2'], 'did you mean "beta"?'],
    [
      'sft',
      ['--set', 'lora={"rnak":4}'],
      'config.lora.rnak is not a known option and has no effect; did you mean "rank"?',
    ],
  ])('train %s %j is exit 2 before anything is sent', async (kind, more, message) => {
    const file = join(folder, 'rows.jsonl')
    const [question, answer] = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: 'a' },
    ]
    const row = kind === 'dpo' ? { prompt: 'q', chosen: 'a', rejected: 'b' } : { messages: [question, answer] }
    writeFileSync(file, `${JSON.stringify(row)}\n`)
    const argv = ['train', kind, 'email-agent', '--file', kind === 'rl' ? writeGroups() : file, ...more]
    const { stderr, exitCode, requests } = await run(argv, models)
    expect([exitCode, requests]).toEqual([2, []])
    expect(stderr).toContain(message)
    expect(stderr).toMatch(/learning_rate/)
  })
  test('--plan shows what the job would do, within 80 columns, and submits nothing', async () => {
    const argv = ['train', 'rl', 'email-agent', '--file', writeGroups(), '--plan']
    const routes = { ...models, 'POST /v1/preview/training-jobs': { body: PLAN } }
    const { stdout, requests } = await run(argv, routes, { tty: true })
    expect(requests.at(-1)).toMatchObject({ method: 'POST' })
    expect(requests.at(-1)?.query.get('plan')).toBe('true')
    expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([])
    expect(stdout).toMatch(/Steps +3 gradient steps/)
    expect(stdout).toMatch(/Memory +about 1.2 GB beside the weights, 8 GB free, layers recomputed/)
    expect(stdout).toMatch(/Time +about 2m 5s, 96 tokens\/s, measured for two seconds/)
    expect(stdout).toMatch(/^ +0 +0.5 +0.5 +1 -1/m)
    expect(stdout).toMatch(/^ +1 +1 +0 +0 0 +equal rewards/m)
    expect(stdout).toMatch(/trains +3 {2}yes\\n/)
    const empty = { ...PLAN, num_rows: 0, memory: { ...PLAN.memory, rows: 1, row_length: 1 } }
    const nothing = await run(argv, { ...routes, 'POST /v1/preview/training-jobs': { body: empty } }, { tty: true })
    expect(nothing.stdout).toMatch(/^Rows +none$/m)
    const json = await run([...argv, '--json'], routes)
    expect(JSON.parse(json.stdout)).toEqual(PLAN)
    const both = await run([...argv, '--watch'], routes)
    expect(both.stderr).toContain('--plan and --watch exclude each other')
  })
  test('--plan of small files sends the rows along, so that nothing is uploaded', async () => {
    const file = join(folder, 'pairs.jsonl')
    writeFileSync(file, '{"prompt":"q","chosen":"a","rejected":"b"}\n')
    const routes = { ...models, 'POST /v1/preview/dpo-training-jobs': { body: { ...PLAN, kind: 'dpo', groups: [] } } }
    const { requests } = await run(['train', 'dpo', 'email-agent', '--file', file, '--plan', '--json'], routes)
    expect(requests.map(({ method }) => method)).not.toContain('PUT')
    expect(requests.at(-1)?.body).toMatchObject({ training_data_url: expect.stringMatching(/^data:.*;base64,/) })
  })
  test('dpo takes addresses of rows and every flag of jobs on rows', async () => {
    const created = { body: { ...JOB, kind: 'dpo', status: 'queued' } }
    const flags = [
      '--min-learning-rate',
      '1e-6',
      '--weight-decay',
      '0.1',
      '--no-keep-best',
      '--epochs',
      '2',
      '--no-shuffle',
    ]
    const { requests, stdout } = await run(
      ['train', 'dpo', 'email-agent', '--data-url', 'file-1', '--validation-data-url', 'file-2', ...flags],
      { ...models, 'POST /v1/preview/dpo-training-jobs': created },
    )
    expect(requests.at(-1)?.body).toEqual({
      model_id: MODEL.id,
      training_data_url: 'file-1',
      validation_data_url: 'file-2',
      config: { min_learning_rate: 1e-6, weight_decay: 0.1, keep_best: false, epochs: 2, shuffle: false },
    })
    expect(stdout).toContain(`Submitted job ${JOB.id} to email-agent: file-1`)
  })
  test('--dry-run checks the file and sends nothing', async () => {
    const { stdout, requests } = await run(
      ['train', 'rl', 'email-agent', '--file', writeGroups(), '--dry-run', '--json'],
      models,
    )
    expect(JSON.parse(stdout)).toMatchObject({ dry_run: true, groups: 2, trainable_groups: 1, trajectories: 3 })
    expect(requests.every((request) => request.method === 'GET')).toBe(true)
  })
  test.each([
    [['train', 'sft', 'email-agent'], '--file with example conversations is required'],
    [['train', 'sft', 'email-agent', '--file', 'x', '--data-url', 'y'], 'give one of them'],
    [['train', 'dpo', 'email-agent', '--file', 'x', '--data-url', 'y'], 'give one of them'],
    [['train', 'rl', 'email-agent'], '--file with trajectory groups is required'],
    [
      ['train', 'sft', 'email-agent', '--file', 'x', '--batch-size', '0'],
      '--batch-size must be a whole number, 1 to 65536, got "0"',
    ],
    [
      ['train', 'rl', 'email-agent', '--file', 'x', '--learning-rate', '-1'],
      '--learning-rate must be a number from 0 to 1, got "-1"',
    ],
    [['train', 'rl', 'email-agent', '--file', '/no/such/file'], '/no/such/file does not exist'],
    [['train', 'rl', 'email-agent', '--file', 'x', '--loss', 'mse'], '--loss must be one of cispo, ppo'],
  ])('%j is exit 2', async (argv, message) => {
    const { stderr, exitCode, requests } = await run(argv, models)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
    expect(requests).toEqual([])
  })
})

describe('log', () => {
  test('prints the averages the service made', async () => {
    const routes = {
      ...models,
      [`POST /v1/preview/models/${MODEL.id}/log`]: {
        body: { metrics: { 'val/reward': 0.69, 'val/exception_rate': 0 } },
      },
    }
    const { stdout, requests } = await run(['log', 'email-agent', '--file', '-'], routes, {
      stdin: readFileSync(writeGroups(), 'utf8'),
    })
    expect(stdout).toBe('Logged 2 groups (3 trajectories) to split val at step 12\n  reward 0.69   exception_rate 0\n')
    expect(requests.at(-1)?.body).toMatchObject({ split: 'val' })
  })
})

describe('jobs', () => {
  test('list names models and progress', async () => {
    const routes = { ...models, 'GET /v1/preview/training-jobs': { body: page([completed]) } }
    const { stdout } = await run(['jobs', 'list'], routes, { tty: true })
    expect(stdout).toContain('completed  rl    default  email-agent  2/4')
    expect(stdout).toContain('1:21')
  })
  test('get explains a failure', async () => {
    const failed = { ...JOB, status: 'failed', error_code: 'non_finite_loss', error_message: 'loss became NaN' }
    const routes = { [`GET ${jobPath}`]: { body: failed }, [`GET /v1/preview/models/${MODEL.id}`]: { body: MODEL } }
    const { stdout } = await run(['jobs', 'get', JOB.id], routes, { tty: true })
    expect(stdout).toContain('failed, gradient step 2 of 4')
    expect(stdout).toContain('loss became NaN (non_finite_loss)')
  })
  test('wait prints all outcomes and exits 7 if any failed', async () => {
    const other = { ...completed, id: '019a3c5e-7b1f-7000-8000-00000000009d', status: 'cancelled', error_message: null }
    const routes = {
      [`GET ${jobPath}`]: { body: completed },
      [`GET /v1/preview/training-jobs/${other.id}`]: { body: other },
    }
    const { stdout, exitCode } = await run(['jobs', 'wait', JOB.id, other.id], routes)
    expect(stdout).toBe(`${JOB.id}\tcompleted\tcheckpoint step 13\n${other.id}\tcancelled\t\n`)
    expect(exitCode).toBe(7)
  })
  test('wait goes on when the service was away for a moment, and says at once that none is there', async () => {
    const answers = [{ body: JOB }, null, { body: completed }]
    const routes: Routes = {
      [`GET ${jobPath}`]: () => {
        const answer = answers.shift()
        if (answer !== null) return answer ?? { body: completed }
        throw Object.assign(new TypeError('fetch failed'), {
          cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }),
        })
      },
    }
    const waited = await run(['jobs', 'wait', JOB.id], routes)
    expect(waited.stdout).toBe(`${JOB.id}\tcompleted\tcheckpoint step 13\n`)
    expect(answers).toEqual([])
    expect((await runCli(['jobs', 'wait', JOB.id])).exitCode).toBe(6)
  })
  test('a lost connection is said once to who watches', async () => {
    const away = (): never => {
      throw Object.assign(new TypeError('fetch failed'), {
        cause: Object.assign(new Error(), { code: 'ECONNREFUSED' }),
      })
    }
    const ended = { id: 'e9', type: 'training_ended', data: {}, created_at: JOB.created_at }
    const answers = [away, away, () => ({ body: page([ended]) })]
    const routes: Routes = {
      [`GET ${jobPath}`]: { body: completed },
      [`GET ${jobPath}/events`]: () => (answers.shift() ?? away)(),
    }
    const { stderr, exitCode } = await run(['jobs', 'watch', JOB.id], routes)
    expect(exitCode).toBe(0)
    expect(stderr.match(/connection lost, trying again/g)).toHaveLength(1)
  })
  test('wait gives up after its limit with exit 8', async () => {
    let now = 0
    const ticking: Clock = { nowMs: () => 0, monotonicMs: () => (now += 20_000) }
    const { stderr, exitCode } = await run(
      ['jobs', 'wait', JOB.id, '--wait-timeout', '10s'],
      { [`GET ${jobPath}`]: { body: JOB } },
      { clock: ticking },
    )
    expect(exitCode).toBe(8)
    expect(stderr).toBe(`error: gave up after 10s; job ${JOB.id} is still running (2/4)\n`)
  })
  test('cancelling a finished job is exit 5', async () => {
    const routes = {
      [`POST ${jobPath}/cancel`]: { status: 409, body: errorBody('job_already_finished', 'the job is completed') },
    }
    expect((await run(['jobs', 'cancel', JOB.id, '--yes'], routes)).exitCode).toBe(5)
  })
  test('on a terminal nobody is asked about a job that is finished', async () => {
    const routes = { [`GET ${jobPath}`]: { body: { ...JOB, status: 'completed' } } }
    const { stderr, exitCode } = await run(['jobs', 'cancel', JOB.id], routes, { tty: true })
    expect(exitCode).toBe(5)
    expect(stderr).toContain(`job ${JOB.id} is already completed`)
  })
  test('a job is named by its id, the end or the beginning of it, latest, or nothing', async () => {
    const older = { ...JOB, id: `${JOB.id.slice(0, -8)}aaaaaaaa` }
    const routes = {
      ...models,
      'GET /v1/preview/training-jobs': ({ query }: { query: URLSearchParams }) => ({
        body: page(query.get('limit') === '1' ? [JOB] : [JOB, older]),
      }),
      [`GET ${jobPath}`]: { body: JOB },
    }
    for (const name of [[], ['latest'], [JOB.id], [JOB.id.slice(-8)], [JOB.id.slice(-8).toUpperCase()]]) {
      const { stdout } = await run(['jobs', 'get', ...name, '--json'], routes)
      expect(JSON.parse(stdout), String(name)).toMatchObject({ id: JOB.id })
    }
    const both = await run(['jobs', 'get', JOB.id.slice(0, 13)], routes)
    expect(both).toMatchObject({ exitCode: 5, stdout: '' })
    expect(both.stderr).toContain(older.id)
    expect((await run(['jobs', 'get', 'bbbbbbbb'], routes)).exitCode).toBe(3)
    const none = await run(['jobs', 'wait'], { 'GET /v1/preview/training-jobs': { body: page([]) } })
    expect(none).toMatchObject({ exitCode: 3 })
    expect(none.stderr).toContain('there is no training job yet')
  })
})

describe('chat', () => {
  const chunk = (content: string, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`
  function chatRoutes(text: string, finish = 'stop'): Routes {
    return {
      ...models,
      'GET /v1/models': { body: { object: 'list', data: [{ id: 'trainyard/tiny-random' }] } },
      'POST /v1/chat/completions': ({ body }) =>
        (body as { stream: boolean }).stream
          ? new Response(`${chunk(text)}${chunk('', finish)}data: [DONE]\n\n`, {
              headers: { 'content-type': 'text/event-stream' },
            })
          : {
              body: {
                id: 'c',
                object: 'chat.completion',
                choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: finish }],
              },
            },
    }
  }
  test('the answer alone is on stdout; a terminal gets a final newline, a pipe does not', async () => {
    expect(await run(['chat', 'email-agent', 'hi'], chatRoutes('Dana.'))).toMatchObject({
      stdout: 'Dana.',
      stderr: '',
      exitCode: 0,
    })
    expect((await run(['chat', 'email-agent', 'hi'], chatRoutes('Dana.'), { tty: true })).stdout).toBe('Dana.\n')
  })
  test('a model of one’s own is asked as the makers of its base model do it, and flags or --save say otherwise', async () => {
    const sampled = async (argv: readonly string[], own: object | null = null) => {
      const facts = { name: MODEL.base_model, sampling: own }
      const routes = { ...chatRoutes('x'), [`GET /v1/preview/base-models/${MODEL.base_model}`]: { body: facts } }
      const { requests, stderr } = await run(['chat', ...argv], routes)
      const asked = requests.find(({ path }) => path === '/v1/chat/completions')
      if (asked === undefined) throw new Error(stderr)
      const { temperature, top_p } = asked.body as { temperature?: number; top_p?: number }
      return [temperature, top_p]
    }
    expect(await sampled(['email-agent', 'hi'])).toEqual([0.8, 0.95])
    expect(await sampled(['email-agent', 'hi'], { temperature: 0.6, top_p: 0.9 })).toEqual([0.6, 0.9])
    expect(await sampled(['email-agent', 'hi', '--temperature', '0'])).toEqual([0, undefined])
    expect(await sampled(['email-agent', 'hi', '--save', join(folder, 'saved.jsonl')])).toEqual([undefined, undefined])
    expect(await sampled(['trainyard/tiny-random', 'hi'])).toEqual([undefined, undefined])
  })
  test('an answer that repeats itself is ended and said, as JSON it comes whole', async () => {
    const circles = `I am. ${'so it is. '.repeat(40)}`
    const ended = await run(['chat', 'email-agent', 'hi'], chatRoutes(circles, 'length'))
    expect(ended.stderr).toBe('warning: the answer began to repeat itself, and was ended there\n')
    const json = await run(['chat', 'email-agent', 'hi', '--json'], chatRoutes(circles))
    expect(JSON.parse(json.stdout).choices[0].message.content).toBe(circles)
  })
  test('the model is named as the inference API wants it, with its step', async () => {
    const { requests } = await run(
      ['chat', 'email-agent:step3', 'a', 'b', '--system', 's', '--temperature', '0', '--stop', 'x'],
      { ...chatRoutes(''), [`GET ${checkpointsPath}`]: { body: page([checkpoint(3)]) } },
    )
    expect(requests.at(-1)?.body).toMatchObject({
      model: 'wandb-artifact:///local/default/email-agent:step3',
      messages: [
        { role: 'system', content: 's' },
        { role: 'user', content: 'a b' },
      ],
      temperature: 0,
      stop: ['x'],
      stream: true,
    })
  })
  test('a step that is not there is exit 3 with those that are, before anything is asked', async () => {
    const routes: Routes = {
      ...chatRoutes(''),
      [`GET ${checkpointsPath}`]: { body: page([checkpoint(1), checkpoint(2)]) },
    }
    const prompts = join(folder, 'prompts.jsonl')
    writeFileSync(prompts, '{"prompt":"hi","answer":"x"}\n')
    for (const argv of [
      ['chat', 'email-agent:step3', 'hi'],
      ['chat', 'email-agent', 'hi', '--step', '3'],
      ['eval', 'email-agent:step3', '--prompts', prompts],
      ['rollout', 'email-agent:step3', '--prompts', prompts, '--reward', 'exact'],
    ]) {
      const { stderr, exitCode, requests } = await run(argv, routes)
      expect([exitCode, stderr], argv.join(' ')).toEqual([
        3,
        'error: checkpoint step 3 was not found\nhint: there are steps 1-2\n',
      ])
      expect(requests.map(({ method }) => method)).not.toContain('POST')
    }
  })
  test('a base model answers under its own name', async () => {
    const { requests } = await run(['chat', 'trainyard/tiny-random', 'hi'], chatRoutes(''))
    expect(requests.at(-1)?.body).toMatchObject({ model: 'trainyard/tiny-random' })
  })
  test('a misspelt base model is exit 3 with the nearest one', async () => {
    const { stderr, exitCode } = await run(['chat', 'trainyard/tiny-radnom', 'hi'], chatRoutes(''))
    expect([exitCode, stderr]).toEqual([3, expect.stringContaining('Did you mean "trainyard/tiny-random"?')])
  })
  test('standard input goes before the prompt, a blank line between', async () => {
    const { requests } = await run(['chat', 'email-agent', 'Summarise:'], chatRoutes(''), { stdin: 'mail text\n' })
    expect(requests.at(-1)?.body).toMatchObject({ messages: [{ role: 'user', content: 'mail text\n\nSummarise:' }] })
  })
  test('control characters of a model never reach a terminal, and reach a pipe unchanged', async () => {
    const hostile = 'a\u001b]0;title\u0007b'
    expect((await run(['chat', 'email-agent', 'hi'], chatRoutes(hostile), { tty: true })).stdout).toBe('a]0;titleb\n')
    expect((await run(['chat', 'email-agent', 'hi'], chatRoutes(hostile))).stdout).toBe(hostile)
  })
  test('--json is one completion; --json --stream is JSON Lines of chunks', async () => {
    const one = await run(['chat', 'email-agent', 'hi', '--json'], chatRoutes('x'))
    expect(JSON.parse(one.stdout)).toMatchObject({ object: 'chat.completion' })
    const lines = (await run(['chat', 'email-agent', 'hi', '--json', '--stream'], chatRoutes('x'))).stdout
      .trimEnd()
      .split('\n')
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(['c', 'c'])
  })
  test('an answer cut at the limit is a warning on stderr', async () => {
    const { stdout, stderr } = await run(['chat', 'email-agent', 'hi'], chatRoutes('x', 'length'))
    expect(stdout).toBe('x')
    expect(stderr).toContain('warning: the answer was cut')
  })
  test('nothing to ask is exit 2', async () => {
    expect((await run(['chat', 'email-agent'], chatRoutes(''))).exitCode).toBe(2)
    expect((await run(['chat', 'email-agent', '-q'], chatRoutes(''), { tty: true })).exitCode).toBe(2)
  })
  test('--save appends a trajectory that trains, --logprobs shows how sure each token was', async () => {
    const logprobs = { content: [{ token: 'x', logprob: -0.7, bytes: [120], top_logprobs: [] }] }
    const last = {
      id: 'c',
      choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop', logprobs, token_ids: [7] }],
    }
    const stream = `data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`
    const routes: Routes = {
      ...models,
      'POST /v1/chat/completions': () => new Response(stream, { headers: { 'content-type': 'text/event-stream' } }),
    }
    const file = join(folder, 'saved.jsonl')
    const { stdout, stderr, requests } = await run(['chat', 'email-agent', 'hi', '--save', file, '--logprobs'], routes)
    expect(stdout).toBe('x')
    expect(stderr).toBe('x‹0.50›\n')
    expect(requests.at(-1)?.body).toMatchObject({ logprobs: true, return_token_ids: true })
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      trajectories: [
        {
          messages_and_choices: [
            { role: 'user', content: 'hi' },
            { token_ids: [7], logprobs },
          ],
          reward: 0,
        },
      ],
    })
  })
})

describe('whoami, version, system-check, config', () => {
  test('whoami shows sources and only a fingerprint', async () => {
    const routes: Routes = {
      'GET /v1/whoami': { body: { entity: 'local', key_id: 'k', key_prefix: 'ty_', version: '1' } },
    }
    const env = { TRAINYARD_API_KEY: 'ty_0123456789abcdefghijklmnop' }
    const { stdout, exitCode } = await run(['whoami', '--json'], routes, { env })
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      authenticated: true,
      server: { value: 'http://127.0.0.1:8642', source: 'default' },
      api_key: { fingerprint: 'ty_0123…mnop', source: 'env' },
      entity: 'local',
      project: { value: 'default', source: 'default' },
    })
  })
  test('not authenticated is exit 4 with the same keys', async () => {
    const routes: Routes = { 'GET /v1/whoami': { status: 401, body: errorBody('missing_api_key', 'no key') } }
    const { stdout, exitCode } = await run(['whoami', '--json'], routes)
    expect(exitCode).toBe(4)
    expect(JSON.parse(stdout)).toMatchObject({ authenticated: false, api_key: null })
  })
  test('version works without a service', async () => {
    const { stdout, exitCode } = await runCli(['version', '--json'])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ client: '0.0.0-test', service: null })
  })
  test('a failed check is exit 1 and every check is shown', async () => {
    const queue = (success: boolean) => ({ success, duration_ms: 5, errors: success ? [] : ['no answer'] })
    const routes: Routes = {
      'GET /v1/health': { body: { status: 'ok', version: '1' } },
      'GET /v1/system-check': {
        status: 503,
        body: { api: true, database: true, cpu_queue: queue(true), gpu_queue: queue(false) },
      },
    }
    const { stdout, exitCode } = await run(['system-check', '--server-only', '--json'], routes)
    expect(exitCode).toBe(1)
    const { ok, checks } = JSON.parse(stdout)
    expect(ok).toBe(false)
    expect(checks.map((check: { name: string; status: string }) => `${check.name} ${check.status}`)).toEqual([
      'reachable pass',
      'database pass',
      'cpu_queue pass',
      'gpu_queue fail',
    ])
  })
  test('results of checks are shown whole in a narrow terminal', async () => {
    const message = 'the engine of trainyard/spark answers, served as f32 because it is small'
    const check = { name: 'gpu_queue', success: true, is_slow: false, duration_ms: 5, message, errors: [] }
    const routes: Routes = {
      'GET /v1/health': { body: { status: 'ok', version: '1' } },
      'GET /v1/system-check': { body: { api: true, database: true, checks: [check] } },
    }
    const { stdout, stderr } = await run(['system-check', '--server-only'], routes, { tty: true, columns: 60 })
    expect(stdout.replace(/\s+/g, ' ')).toContain(`PASS server gpu_queue ${message}, 5 ms`)
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(60)
    expect(stdout + stderr).not.toMatch(/…|were cut/)
  })
  test('config set, get, unset; an unknown key is exit 3; a secret is never an argument', async () => {
    const env = { HOME: folder }
    expect((await runCli(['config', 'set', 'project', 'games'], { env })).exitCode).toBe(0)
    expect((await runCli(['config', 'get', 'project'], { env })).stdout).toBe('games\n')
    expect(
      (await runCli(['config', 'set', 'api-key', '-'], { env, stdin: 'ty_0123456789abcdefghij\n' })).exitCode,
    ).toBe(0)
    const list = (await runCli(['config', 'list', '--json'], { env })).stdout
    expect(list).not.toContain('0123456789')
    expect((await runCli(['config', 'unset', 'project'], { env })).exitCode).toBe(0)
    expect((await runCli(['config', 'get', 'project'], { env })).stdout).toBe('default\n')
    expect((await runCli(['config', 'set', 'projct', 'x'], { env })).exitCode).toBe(3)
    expect((await runCli(['config', 'set', 'port', 'x'], { env })).exitCode).toBe(2)
    expect((await runCli(['config', 'set', 'api-key', 'secret'], { env })).exitCode).toBe(2)
    expect((await runCli(['config', 'set', 'api-key'], { env })).exitCode).toBe(2)
  })
})

describe('serve', () => {
  test.each([
    [['--base-model', '/no/such/folder'], '--base-model /no/such/folder: expected a folder or a .gguf file'],
    [['--base-model', '=x'], '--base-model =x: expected'],
    [['--port', '65536'], '--port must be a whole number from 0 to 65535, got "65536"'],
    [['--precision', 'f16'], '--precision must be one of auto, f32, int8, int4'],
  ])('%j is exit 2 before anything starts', async (flags, message) => {
    const { stdout, stderr, exitCode } = await runCli(['serve', ...flags])
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 })
    expect(stderr).toContain(message)
  })
})

describe('verbose', () => {
  test('request lines never hold keys or bodies', async () => {
    const { stderr } = await run(['models', 'list', '-v'], models, { env: { TRAINYARD_API_KEY: 'very-secret-key' } })
    expect(stderr).toMatch(/^GET \/v1\/preview\/models 200 \d+ ms\n$/)
  })
  test('an unexpected failure says that it is a bug and exits 1', async () => {
    const nowMs = () => {
      throw new TypeError('odd')
    }
    const { stderr, exitCode } = await runCli(['models', 'list'], {
      ...scriptedService({ 'GET /v1/preview/models': { body: page([MODEL]) } }),
      clock: { nowMs, monotonicMs: nowMs },
      tty: true,
    })
    expect(exitCode).toBe(1)
    expect(stderr).toContain('this is a bug')
  })
})
