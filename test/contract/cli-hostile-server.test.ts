/**
 * What every command makes of a server that answers anything: pages, other shapes, texts full of commands to the terminal. It says
 * in a sentence what it expected and was given; nothing of it is a bug, a stack, or a control character on a screen.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { lineOf, removeInputs, writeInputs } from '../support/complete-lines.js'
import { type RunOptions, type RunResult, runCli } from '../support/service/run-cli.js'
import { checkpoint, JOB, MODEL, page, type RecordedRequest } from '../support/service/scripted-service.js'

beforeAll(writeInputs)
afterAll(removeInputs)

/** Those that ask no server: a server has nothing to say there. */
const withoutServer = new Set([
  'init',
  'data convert',
  'grader check',
  'check openai',
  'skills add',
  'env check',
  'env list',
  'serve',
  // begins with a server of its own
  'gateway',
  'backup',
  'move',
  'devices',
  'restore',
  'completion',
  'config list',
  'config get',
  'config set',
])
for (const name of ['config unset', 'config path']) withoutServer.add(name)
/** Those that report what a server is not, instead of failing on it at once. */
const reporting = new Set(['version', 'system-check', 'whoami', 'open'])
const commands = commandTable.map((entry) => entry.path.join(' ')).filter((name) => !withoutServer.has(name))

/** A window's title, a cleared screen, a bell, a C1 command, a line taken back, a direction override. */
const ATTACK = '\u001b]0;owned\u0007\u001b[2J\u0007\u009b31mred\u001b[1;31m\r\nforged\u202e'
const json = (body: unknown) => JSON.stringify(body)
const oddBodies: Readonly<Record<string, string>> = {
  'a page of HTML': '<!doctype html><html><body>It works!</body></html>',
  nothing: '',
  'half a document': '{"object":"list","data":[',
  null: 'null',
  'a text': json(ATTACK),
  'a number': '42',
  'an empty list': '[]',
  'a list of nulls': '[null]',
  'an empty object': '{}',
  'a page without items': json({ object: 'list', data: null, has_more: true }),
  'a page of nulls': json(page([]).data.concat(null as never)).replace(/^(.*)$/, '{"data":$1,"has_more":false}'),
  'a page of empty objects': json({ object: 'list', data: [{}], has_more: false }),
  'items of other types': json({ data: [{ ...each(MODEL, 5), ...each(JOB, {}) }], has_more: 'yes' }),
  'one thing of other types': json({ ...each(MODEL, []), ...each(JOB, 5), choices: {}, files: {}, status: 7 }),
}

function each(thing: object, value: unknown): object {
  return Object.fromEntries(Object.keys(thing).map((key) => [key, value]))
}

/** What finds the thing a command names, so that the rest of its answer is read. */
const FOUND_BY = new Set(['id', 'name', 'model_id', 'status', 'kind', 'type', 'object', 'project', 'scope', 'state'])

/** The same answer with the attack in every text, and in every name of a map. */
function poison(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return FOUND_BY.has(key) ? value : `${value}${ATTACK}`
  if (Array.isArray(value)) return value.map((item) => poison(item, key))
  if (typeof value !== 'object' || value === null) return value
  const isMap = ['metrics', 'config', 'resolved_config', 'data'].includes(key)
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [isMap ? `${name}${ATTACK}` : name, poison(item, name)]),
  )
}

const job = {
  ...JOB,
  status: 'failed',
  error_code: 'odd',
  error_message: 'odd',
  warnings: ['odd'],
  training_end: 'odd',
}
const event = { id: 'e-1', type: 'training_failed', data: { error_message: 'odd', 'loss/train': 1 }, created_at: 'odd' }
const key = {
  ...each(MODEL, 'odd'),
  id: 'k-1',
  name: 'ci',
  key_prefix: 'ty_',
  scope: 'admin',
  key: 'odd',
  is_current: false,
}
const webhook = { id: 'wh-1', url: 'odd', events: ['odd'], project: null, created_at: 'odd', secret: 'odd' }
const delivery = {
  id: 'd-1',
  message_id: 'odd',
  type: 'odd',
  status: 'failed',
  attempts: 1,
  error: 'odd',
  created_at: 'odd',
}
const baseModel = {
  id: 'org/name',
  name: 'org/name',
  status: 'failed',
  source: 'hub',
  error: 'odd',
  added_at: 'odd',
  precision: 'odd',
}
const check = { success: false, duration_ms: 1, errors: ['odd'] }
const counters = { requests: 1, prompt_tokens: 1, cached_tokens: 1, completion_tokens: 1, training_seconds: 1 }
const report = {
  object: 'storage_report',
  ok: false,
  database: { state: 'older', message: 'odd' },
  blobs: 1,
  bytes: 1,
  missing: [{ sha256: 'odd', named_by: ['odd'] }],
  damaged: [{ sha256: 'odd', size_bytes: 1, actual_sha256: 'odd', problem: 'odd', named_by: ['odd'] }],
  orphans: [{ sha256: 'odd', size_bytes: 1, modified_at: 1, is_kept: true }],
}
const choice = {
  index: 0,
  message: { role: 'assistant', content: 'odd', tool_calls: [] },
  finish_reason: 'stop',
  token_ids: [1],
}

/** Every text an attack, yet whole answers. */
function answerTo({ method, path }: RecordedRequest): Response {
  const stream = (name: string, body: unknown) =>
    new Response(`event: ${name}\ndata: ${json(poison(body))}\n\ndata: [DONE]\n\n`, {
      headers: { 'content-type': 'text/event-stream' },
    })
  const session = {
    object: 'training_session',
    id: 'odd',
    entity: 'odd',
    project: 'odd',
    base_model: 'odd',
    model_id: null,
    status: 'odd',
    error: null,
    lora_rank: 1,
    requests: 1,
    waiting_requests: 1,
    optimizer_steps: 1,
    created_at: 'odd',
    last_request_at: 'odd',
  }
  const whole: readonly (readonly [RegExp, unknown])[] = [
    [
      /\/checkpoints\/\d+\/files$/,
      { model_id: MODEL.id, step: 1, files: [{ name: 'odd', size_bytes: 1, sha256: null }] },
    ],
    [
      /\/checkpoints$/,
      method === 'DELETE' ? { deleted_count: 1, not_found_steps: [] } : page([checkpoint(1, { odd: 1 })]),
    ],
    [
      /\/metrics$/,
      {
        steps: [1],
        times: ['odd'],
        tokens: [null],
        series: { odd: [1] },
        keys: [{ key: 'odd', source: 'odd', split: 'odd', count: 1 }],
      },
    ],
    [
      /\/log\/compare$/,
      {
        prompts: 1,
        wins: 0,
        ties: 0,
        losses: 1,
        rewards: [1, 0],
        difference: -1,
        interval: null,
        pairs: [
          { messages: [{ role: 'odd', content: 'odd' }], rewards: [1, 0], answers: [[{ text: 'odd', reward: 1 }], []] },
        ],
      },
    ],
    [
      /\/log$/,
      method === 'GET'
        ? page([{ id: 'odd', split: 'odd', step: 1, metrics: { odd: 1 } }])
        : { model_id: MODEL.id, split: 'odd', step: 1, groups: 1, trajectories: 1, metrics: { odd: 1 } },
    ],
    [/preview\/models$/, method === 'POST' ? MODEL : page([MODEL])],
    [/preview\/models\//, method === 'DELETE' ? { model_id: MODEL.id, deleted_checkpoints: 1 } : MODEL],
    [/base-models\/details$/, page([baseModel])],
    [/base-models$/, method === 'POST' ? baseModel : ['org/name', 'odd']],
    [/base-models\//, method === 'DELETE' ? { id: 'odd', deleted: true } : baseModel],
    [/training-jobs\/[^/]+\/events$/, page([event])],
    [
      /preview\/events$/,
      page([{ id: 'odd', type: 'odd', created_at: 'odd', project: 'odd', model_id: 'odd', data: { odd: 'odd' } }]),
    ],
    [
      /training-options$/,
      { data: [{ kind: 'sft', options: [{ name: 'odd', summary: 'odd', default: 'odd', suggested: 'odd' }] }] },
    ],
    [/training-jobs$/, method === 'POST' ? job : page([job])],
    [/training-jobs\//, job],
    [/training-sessions$/, page([session])],
    [/training-sessions\//, session],
    [/keys$/, method === 'POST' ? key : page([key])],
    [/deliveries$/, page([delivery])],
    [/redeliver$|webhooks\/[^/]+\/test$/, delivery],
    [/sessions\/codes$/, { code: 'odd', url: 'odd', expires_at: 'odd' }],
    [/webhooks$/, method === 'POST' ? webhook : page([webhook])],
    [
      /usage$/,
      { from: 'odd', to: 'odd', data: [{ ...counters, day: 'odd', project: 'odd', model: 'odd' }], total: counters },
    ],
    [/v1\/models$/, { data: [{ id: 'org/name', root: 'odd' }] }],
    [/health$/, { status: 'ok', version: 'odd' }],
    [
      /system-check$/,
      {
        api: true,
        database: false,
        cpu_queue: check,
        gpu_queue: check,
        slow: 'odd',
        checks: [{ ...check, name: 'odd' }],
      },
    ],
    [/whoami$/, { entity: 'odd', project: 'odd', scope: 'odd', key_id: 'odd', key_prefix: 'odd', version: 'odd' }],
    [/files$/, { id: 'file-odd' }],
    [/chat\/completions$/, { choices: [choice], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }],
  ]
  if (path.endsWith('/verify')) return stream('storage_report', report)
  const found = whole.find(([pattern]) => pattern.test(path))
  return Response.json(poison(found?.[1] ?? {}))
}

const modes: readonly (readonly [readonly string[], RunOptions])[] = [
  [[], {}],
  [[], { tty: true, env: { NO_COLOR: '1' } }],
  [['--json'], {}],
  [['--json', '-v'], { tty: true, env: { NO_COLOR: '1' } }],
]

/** Runs a command in every mode against one way of answering. */
async function runAll(name: string, answer: (request: RecordedRequest) => Response) {
  const runs: { readonly result: RunResult; readonly mode: string }[] = []
  for (const [flags, options] of modes) {
    const hostile = async (url: string, init: RequestInit) => {
      init.signal?.throwIfAborted()
      const { pathname, searchParams } = new URL(url)
      const headers = new Headers(init.headers)
      return answer({ method: init.method ?? 'GET', path: pathname, query: searchParams, headers, body: null })
    }
    const result = await runCli([...lineOf(name), ...flags], {
      ...options,
      fetch: hostile,
      env: { TRAINYARD_API_KEY: 'k', ...options.env },
    })
    runs.push({ result, mode: `${flags.join(' ')} ${options.tty === true ? 'terminal' : 'pipe'}` })
  }
  return runs
}

function assertHarmless({ stdout, stderr }: RunResult, isTerminal: boolean, where: string): void {
  for (const written of [stdout, stderr]) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a region of lines is drawn with
    const shown = isTerminal ? written.replace(/\r?\u001b\[\d*[AJ]/g, '') : written
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(shown, where).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/)
    expect(written, where).not.toMatch(/this is a bug|\bundefined\b|\[object Object\]/)
  }
}

describe('a server that answers anything', () => {
  describe.each(commands.map((name) => [name]))('%s', (name) => {
    test.each(Object.keys(oddBodies))('%s is told in a sentence', async (kind) => {
      const isPage = kind === 'a page of HTML'
      const body = oddBodies[kind] ?? ''
      const type = isPage ? 'text/html' : 'application/json'
      for (const { result, mode } of await runAll(
        name,
        () => new Response(body, { headers: { 'content-type': type } }),
      )) {
        const where = `${mode}: ${result.stdout}${result.stderr}`
        assertHarmless(result, mode.endsWith('terminal'), where)
        expect([0, 1, 2, 3], where).toContain(result.exitCode)
        if (!mode.includes('-v')) expect(result.stderr, where).not.toMatch(/\n\s+at /)
        if (reporting.has(name) || !['a page of HTML', 'nothing', 'half a document', 'null'].includes(kind)) continue
        expect(result.exitCode, where).toBe(1)
        expect(result.stderr.replaceAll(/\s+/g, ' '), where).toMatch(/127\.0\.0\.1:8642.*expected .*Trainyard server/)
      }
    })
    test('texts are texts', async () => {
      for (const { result, mode } of await runAll(name, answerTo)) {
        const where = `${mode}: ${json(result)}`
        // the answer itself is kept as the model wrote it, where no terminal shows it
        if (name === 'chat' && mode.trim() === 'pipe') continue
        assertHarmless(result, mode.endsWith('terminal'), where)
      }
    })
    test.each([400, 401, 404, 409, 500])('so are those of a refusal with %s', async (status) => {
      const bodies = [
        { error: { message: `no ${ATTACK}`, code: ATTACK, hint: ATTACK, param: ATTACK, request_id: ATTACK } },
        { error: { message: {}, code: [] }, detail: [{ loc: [ATTACK, {}], msg: ATTACK }] },
        { detail: [null], error: 7 },
      ]
      for (const body of bodies) {
        for (const { result, mode } of await runAll(name, () => Response.json(body, { status }))) {
          assertHarmless(result, mode.endsWith('terminal'), `${mode}: ${json(result)}`)
        }
      }
    })
  })

  test('a row without an end is told of before the memory is full', async () => {
    const part = Buffer.alloc(8 * 1024 ** 2, 'a')
    const body = new ReadableStream({ pull: (controller) => controller.enqueue(part) })
    const { stdout, stderr, exitCode } = await runCli([...lineOf('jobs data')], {
      env: { TRAINYARD_API_KEY: 'k' },
      fetch: async () => new Response(body, { headers: { 'content-type': 'application/jsonl' } }),
    })
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 1 })
    expect(stderr).toContain('answered a line of more than 536870888 characters, expected rows as a Trainyard server')
  })
})
