/**
 * The API as a table: one row per request, its status, and what the answer must and must not contain.
 *
 * Rows run in order on one service with one model `m` (id in `{model}`); the engine and the worker are stand-ins.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createTestService,
  sampleGroup,
  type TestRequest,
  type TestService,
} from '../../support/service/create-test-service.js'

interface Scenario {
  readonly name: string
  readonly request: readonly [method: string, path: string, json?: unknown, more?: TestRequest]
  readonly status: number
  readonly contains?: readonly (string | RegExp)[]
  readonly excludes?: readonly string[]
}

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService()
  model = await service.createModel('m')
  // the system check below waits for a running engine, and not as long as a busy machine may take to start it
  expect((await service.json(CHAT, { json: hi() })).status).toBe(200)
})
afterAll(() => service.dispose())

const MODEL = { project: 'tests', name: 'm', base_model: 'trainyard/tiny-random' }
const CHAT = '/v1/chat/completions'
const hi = (more: object = {}) => ({ messages: [{ role: 'user', content: 'hi' }], ...more })
const rl = (more: object = {}) => ({ model_id: '{model}', trajectory_groups: [sampleGroup()], ...more })
const trajectory = (change: object) => ({ ...(sampleGroup([1])['trajectories'] as object[])[0], ...change })
const nested = (depth: number) => `{"messages":${'['.repeat(depth)}${']'.repeat(depth)}}`

function run(scenarios: readonly Scenario[]): void {
  it.each(scenarios)('$name', async ({ request, status, contains = [], excludes = [] }) => {
    const [method, path, json, more = {}] = request
    const fill = (text: string) => text.replaceAll('{model}', model)
    const body = json === undefined ? undefined : fill(typeof json === 'string' ? json : JSON.stringify(json))
    const response = await service.fetch(fill(path), { method, ...(body === undefined ? {} : { json: body }), ...more })
    const text = await response.text()
    expect(response.status, text).toBe(status)
    expect(response.headers.get('x-request-id')).toBeTruthy()
    for (const part of contains) {
      if (typeof part === 'string') expect(text).toContain(fill(part))
      else expect(text).toMatch(part)
    }
    for (const part of [...excludes, service.apiKey, service.dataDir, '    at ']) expect(text).not.toContain(part)
  })
}

describe('models', () => {
  run([
    {
      name: 'health needs no key',
      request: ['GET', '/v1/health', undefined, { headers: { authorization: '' } }],
      status: 200,
      contains: ['"ok"'],
    },
    {
      name: 'base models are an array of strings',
      request: ['GET', '/v1/preview/base-models', undefined, { headers: { authorization: '' } }],
      status: 200,
      contains: [/^\["trainyard\/tiny-random"\]$/],
    },
    {
      name: 'system check runs every check',
      request: ['GET', '/v1/system-check', undefined, { headers: { authorization: '' } }],
      status: 200,
      contains: ['"api":true', '"database":true', '"cpu_queue":{"success":true'],
    },
    {
      name: 'whoami names the entity, not the key',
      request: ['GET', '/v1/whoami'],
      status: 200,
      contains: ['"entity":"local"', '"key_prefix":"ty_'],
    },
    {
      name: 'a second model of the name conflicts',
      request: ['POST', '/v1/preview/models', MODEL],
      status: 409,
      contains: ['model_already_exists', '"detail":"model \\"m\\"'],
    },
    {
      name: 'return_existing returns it, "true" as text too',
      request: ['POST', '/v1/preview/models', { ...MODEL, return_existing: 'true', entity: null, unknown: 1 }],
      status: 200,
      contains: ['"id":"{model}"', '"run_id":"'],
    },
    {
      name: 'an unknown base model lists the known ones',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: 'x', base_model: 'nope' }],
      status: 422,
      contains: ['"loc":["body","base_model"]', 'trainyard/tiny-random'],
    },
    {
      name: 'a missing field has the published shape',
      request: ['POST', '/v1/preview/models', { name: 'x' }],
      status: 422,
      contains: ['{"loc":["body","project"],"msg":"Field required","type":"missing"}'],
    },
    {
      name: 'a wrong type is named',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: 5 }],
      status: 422,
      contains: ['"loc":["body","name"]', 'string_type'],
    },
    {
      name: 'a name with a separator is refused',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: 'a/b' }],
      status: 422,
      contains: ['invalid_name'],
    },
    {
      name: 'a name with a direction override is refused',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: 'a\u202eb' }],
      status: 422,
      contains: ['invalid_name'],
    },
    {
      name: 'a name with a control character is refused',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: 'a\u0000b' }],
      status: 422,
      contains: ['invalid_name'],
    },
    {
      name: 'dots are a name like any other',
      request: ['POST', '/v1/preview/models', { ...MODEL, name: '..' }],
      status: 200,
      contains: ['"name":".."'],
    },
    { name: 'names differ by case', request: ['POST', '/v1/preview/models', { ...MODEL, name: 'M' }], status: 200 },
    {
      name: 'a foreign entity is forbidden',
      request: ['POST', '/v1/preview/models', { ...MODEL, entity: 'others' }],
      status: 403,
      contains: ['forbidden'],
    },
    {
      name: 'a list of a foreign entity is forbidden',
      request: ['GET', '/v1/preview/models?entity=others'],
      status: 403,
    },
    {
      name: 'models are listed by name',
      request: ['GET', '/v1/preview/models?name=m'],
      status: 200,
      contains: ['"id":"{model}"', '"has_more":false', '"object":"list"'],
    },
    {
      name: 'one model',
      request: ['GET', '/v1/preview/models/{model}'],
      status: 200,
      contains: ['"step":0', '"created_at":"20'],
    },
    {
      name: 'an unknown model',
      request: ['GET', '/v1/preview/models/nope'],
      status: 404,
      contains: ['"detail":"model \\"nope\\" was not found"', 'model_not_found'],
    },
    { name: 'a path that is an encoded path', request: ['GET', '/v1/preview/models/..%2f..%2fetc'], status: 404 },
    {
      name: 'deleting an unknown model',
      request: ['DELETE', '/v1/preview/models/00000000-0000-0000-0000-000000000000'],
      status: 404,
    },
    { name: 'an unknown route', request: ['GET', '/v1/nope'], status: 404, contains: ['"detail":"Not Found"'] },
    {
      name: 'the address itself says what this is',
      request: ['GET', '/'],
      status: 200,
      contains: ['"name":"trainyard"', 'POST /v1/chat/completions'],
      excludes: ['/internal/'],
    },
    ...[
      ['POST', '/completions', 'POST /v1/completions'],
      ['POST', '/responses', 'POST /v1/responses'],
      ['POST', '/fine_tuning/jobs', '/v1/fine_tuning/jobs'],
      ['POST', '/chat/completions', 'POST /v1/chat/completions'],
      ['GET', '/load', 'GET /metrics'],
      ['POST', '/v1/load_lora_adapter', 'models, which have adapters of their own'],
      ['POST', '/v1/v1/chat/completions', 'the path with one /v1'],
      ['POST', '/messages', 'POST /v1/messages'],
      ['POST', '/v1/messages/batches', 'POST /v1/messages'],
      ['POST', '/v1/threads', 'POST /v1/responses'],
      ['POST', '/v1/responses/resp_1/cancel', 'a closed connection'],
    ].map(
      ([method, path, instead]): Scenario => ({
        name: `${path} says what is here instead`,
        request: [method ?? '', path ?? ''],
        status: 404,
        contains: [`is not served here; use ${instead}`],
      }),
    ),
    ...[
      '/v1/embeddings',
      '/v1/images/generations',
      '/v1/vector_stores',
      '/v1/chat/completions/chatcmpl-1',
      '/api/v1/training_runs/a:train:0/checkpoints/weights/one/publish',
      '/api/v1/sessions/a/trace_export',
      '/api/v1/billing/usage/events',
      '/api/v1/auth/token',
    ].map(
      (path): Scenario => ({
        name: `${path} is said to be none here`,
        request: ['GET', path],
        status: 404,
        contains: [`GET ${path} does not exist here: `],
      }),
    ),
    {
      name: 'another method names those of the path',
      request: ['PUT', '/v1/models'],
      status: 405,
      contains: ['"hint":"this path takes GET"'],
    },
    {
      name: 'one served model',
      request: ['GET', '/v1/models/trainyard/tiny-random'],
      status: 200,
      contains: ['"id":"trainyard/tiny-random"', '"object":"model"'],
    },
    {
      name: 'one served model that is not there',
      request: ['GET', '/v1/models/nope'],
      status: 404,
      contains: ['The model `nope` does not exist.'],
    },
    {
      name: 'a wrong method',
      request: ['PUT', '/v1/preview/models', {}],
      status: 405,
      contains: ['"detail":"Method Not Allowed"'],
    },
  ])
})

describe('lists and checkpoints', () => {
  run([
    {
      name: 'no checkpoint before training',
      request: ['GET', '/v1/preview/models/{model}/checkpoints?limit=1&order=desc'],
      status: 200,
      contains: ['{"object":"list","data":[],"first_id":"","last_id":"","has_more":false}'],
    },
    {
      name: 'limit 0',
      request: ['GET', '/v1/preview/models/{model}/checkpoints?limit=0'],
      status: 422,
      contains: [
        '"loc":["query","limit"]',
        '"message":"limit: input should be greater than or equal to 1, got \\"0\\""',
      ],
    },
    { name: 'limit 101', request: ['GET', '/v1/preview/models?limit=101'], status: 422, contains: ['less_than_equal'] },
    {
      name: 'limit is no number',
      request: ['GET', '/v1/preview/models?limit=many'],
      status: 422,
      contains: ['int_parsing'],
    },
    { name: 'limit twice', request: ['GET', '/v1/preview/models?limit=1&limit=2'], status: 422 },
    {
      name: 'unknown order',
      request: ['GET', '/v1/preview/models/{model}/checkpoints?order=up'],
      status: 422,
      contains: ['literal_error'],
    },
    {
      name: 'unknown cursor of checkpoints',
      request: ['GET', '/v1/preview/models/{model}/checkpoints?after=nope'],
      status: 422,
      contains: ['invalid_cursor', '"loc":["query","after"]'],
    },
    {
      name: 'unknown cursor of models',
      request: ['GET', '/v1/preview/models?after=nope'],
      status: 422,
      contains: ['invalid_cursor'],
    },
    {
      name: 'deleting steps that are not there',
      request: ['DELETE', '/v1/preview/models/{model}/checkpoints', { steps: [1, '2'] }],
      status: 200,
      contains: ['{"deleted_count":0,"not_found_steps":[1,2],"in_use_steps":[]}'],
    },
    {
      name: 'deleting without steps',
      request: ['DELETE', '/v1/preview/models/{model}/checkpoints', {}],
      status: 422,
      contains: ['"missing"'],
    },
    {
      name: 'steps of a wrong type',
      request: ['DELETE', '/v1/preview/models/{model}/checkpoints', { steps: [1.5, null] }],
      status: 422,
      contains: ['int_from_float', 'int_type', '"loc":["body","steps",1]'],
    },
    {
      name: 'files of a missing checkpoint',
      request: ['GET', '/v1/preview/models/{model}/checkpoints/1/files'],
      status: 404,
      contains: ['checkpoint_not_found'],
    },
    {
      name: 'a file with a path for a name',
      request: ['GET', '/v1/preview/models/{model}/checkpoints/latest/files/..%2f..%2fapi-key'],
      status: 404,
    },
  ])
})

describe('trajectories', () => {
  run([
    {
      name: 'log computes metrics',
      request: [
        'POST',
        '/v1/preview/models/{model}/log',
        { model_id: '{model}', split: 'val', trajectory_groups: [sampleGroup([1, 0, 1])] },
      ],
      status: 200,
      contains: [
        '"val/reward":0.66',
        '"val/turns":2',
        '"val/data/step_num_trajectories":3',
        '"val/is_right":0.66',
        '"groups":1',
        '"trajectories":3',
      ],
    },
    {
      name: 'log without a split',
      request: ['POST', '/v1/preview/models/{model}/log', { trajectory_groups: [] }],
      status: 422,
      contains: ['"loc":["body","split"]', 'missing'],
    },
    {
      name: 'a reward that is text',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        rl({ trajectory_groups: [sampleGroup(), { trajectories: [trajectory({ reward: 'high' })] }] }),
      ],
      status: 422,
      contains: [
        'trajectory_groups[1].trajectories[0].reward',
        '"loc":["body","trajectory_groups",1,"trajectories",0,"reward"]',
      ],
    },
    {
      name: 'a positive logprob',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        rl({
          trajectory_groups: [
            {
              trajectories: [
                trajectory({
                  messages_and_choices: [
                    {
                      message: { role: 'assistant', content: 'x' },
                      finish_reason: 'stop',
                      index: 0,
                      logprobs: { content: [{ token: 'token_id:1', logprob: 0.5, bytes: null, top_logprobs: [] }] },
                    },
                  ],
                }),
              ],
            },
          ],
        }),
      ],
      status: 422,
      contains: ['logprobs'],
    },
    {
      name: 'a policy version from the future',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        rl({ trajectory_groups: [{ trajectories: [trajectory({ final_policy_version: 7 })] }] }),
      ],
      status: 422,
      contains: ['trajectory_groups[0].trajectories[0].final_policy_version'],
    },
    {
      name: 'a message without a role',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        rl({
          trajectory_groups: [{ trajectories: [trajectory({ messages_and_choices: [{ role: '', content: 'x' }] })] }],
        }),
      ],
      status: 422,
      contains: ['trajectory_groups[0].trajectories[0].messages_and_choices[0] must be a message with a role'],
    },
    {
      name: 'a content part that is no object',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        rl({
          trajectory_groups: [
            { trajectories: [trajectory({ messages_and_choices: [{ role: 'user', content: [7] }] })] },
          ],
        }),
      ],
      status: 422,
      contains: ['trajectory_groups[0].trajectories[0].messages_and_choices[0].content[0] must be an object'],
    },
    {
      name: 'a group that is no object',
      request: ['POST', '/v1/preview/training-jobs', rl({ trajectory_groups: [7] })],
      status: 422,
      contains: ['trajectory_groups[0]'],
    },
    {
      name: 'groups that are no list',
      request: ['POST', '/v1/preview/training-jobs', rl({ trajectory_groups: {} })],
      status: 422,
      contains: ['list_type'],
    },
    {
      name: 'an unknown model',
      request: ['POST', '/v1/preview/training-jobs', rl({ model_id: '00000000-0000-0000-0000-000000000000' })],
      status: 404,
      contains: ['model_not_found'],
    },
    {
      name: 'a model id that is no UUID',
      request: ['POST', '/v1/preview/training-jobs', rl({ model_id: 'm' })],
      status: 422,
      contains: ['uuid_parsing'],
    },
    {
      name: 'a hyperparameter out of range',
      request: ['POST', '/v1/preview/training-jobs', rl({ experimental_config: { learning_rate: -1 } })],
      status: 422,
      contains: ['experimental_config.learning_rate', '"loc":["body","experimental_config","learning_rate"]'],
    },
    {
      name: 'NaN is no JSON',
      request: [
        'POST',
        '/v1/preview/training-jobs',
        `{"model_id":"{model}","trajectory_groups":[{"trajectories":[{"reward":NaN}]}]}`,
      ],
      status: 422,
      contains: ['json_invalid'],
    },
    {
      name: 'an unknown job',
      request: ['GET', '/v1/preview/training-jobs/nope'],
      status: 404,
      contains: ['training_job_not_found'],
    },
    { name: 'events of an unknown job', request: ['GET', '/v1/preview/training-jobs/nope/events'], status: 404 },
    {
      name: 'an event stream of an unknown job',
      request: [
        'GET',
        '/v1/preview/training-jobs/nope/events',
        undefined,
        { headers: { accept: 'text/event-stream' } },
      ],
      status: 404,
    },
    { name: 'cancelling an unknown job', request: ['POST', '/v1/preview/training-jobs/nope/cancel'], status: 404 },
    {
      name: 'an unknown job status in a query',
      request: ['GET', '/v1/preview/training-jobs?status=pending'],
      status: 422,
      contains: ['literal_error'],
    },
  ])
})

describe('bodies', () => {
  run([
    {
      name: 'malformed JSON on a preview route',
      request: ['POST', '/v1/preview/models', '{"project":'],
      status: 422,
      contains: ['json_invalid', '"detail":['],
    },
    {
      name: 'malformed JSON on chat',
      request: ['POST', CHAT, '{"messages":'],
      status: 400,
      contains: ['json_invalid', '"error":{', '"detail":[', '"code":400'],
    },
    { name: 'a body that is no object', request: ['POST', CHAT, '42'], status: 400, contains: ['dict_type'] },
    { name: 'null as a body', request: ['POST', CHAT, 'null'], status: 400 },
    { name: 'an empty body', request: ['POST', CHAT, ''], status: 400, contains: ['json_invalid'] },
    {
      name: 'duplicate keys',
      request: ['POST', CHAT, '{"messages":[],"messages":[]}'],
      status: 400,
      contains: ['twice'],
    },
    {
      name: 'a prototype key',
      request: ['POST', CHAT, '{"messages":[],"__proto__":{"x":1}}'],
      status: 400,
      contains: ['__proto__'],
    },
    { name: 'deep nesting', request: ['POST', CHAT, nested(5000)], status: 400, contains: ['nesting is deeper'] },
    {
      name: 'invalid UTF-8',
      request: [
        'POST',
        CHAT,
        undefined,
        { body: Buffer.from('7b226d6f64656c223a22c328227d', 'hex'), headers: { 'content-type': 'application/json' } },
      ],
      status: 400,
      contains: ['UTF-8'],
    },
    {
      name: 'another content type on chat',
      request: ['POST', CHAT, '{}', { headers: { 'content-type': 'text/plain' } }],
      status: 400,
      contains: ["Unsupported Media Type: Only 'application/json' is allowed"],
    },
    {
      name: 'another content type on a preview route',
      request: ['POST', '/v1/preview/models', '{}', { headers: { 'content-type': 'text/plain' } }],
      status: 415,
    },
    {
      name: 'a charset is fine',
      request: ['POST', CHAT, hi(), { headers: { 'content-type': 'Application/JSON; Charset=UTF-8' } }],
      status: 200,
    },
    {
      name: 'a compressed body',
      request: ['POST', CHAT, '{}', { headers: { 'content-encoding': 'gzip' } }],
      status: 400,
      contains: ['Content-Encoding'],
    },
    {
      name: 'a body beyond the limit of its route',
      request: ['POST', '/v1/preview/models', `{"name":"${'x'.repeat(9 * 1024 ** 2)}"}`],
      status: 413,
      contains: ['request_too_large'],
    },
    {
      name: 'a foreign origin',
      request: ['GET', '/v1/health', undefined, { headers: { origin: 'https://evil.example' } }],
      status: 403,
      contains: ['forbidden_origin'],
    },
    {
      name: 'an opaque origin',
      request: ['GET', '/v1/health', undefined, { headers: { origin: 'null' } }],
      status: 403,
    },
    {
      name: 'another port of our own host',
      request: ['GET', '/v1/health', undefined, { headers: { origin: 'http://localhost:3000' } }],
      status: 403,
      contains: ['forbidden_origin'],
    },
  ])
})

describe('chat requests', () => {
  const refuse = (name: string, more: object, ...contains: (string | RegExp)[]): Scenario => ({
    name,
    request: ['POST', CHAT, hi(more)],
    status: 400,
    contains: ['"error":{', '"code":400', ...contains],
  })
  run([
    {
      name: 'texts stand for scalars',
      request: ['POST', CHAT, hi({ logprobs: 'true', max_tokens: '3', temperature: '0', seed: '5', n: 1.0 })],
      status: 200,
      contains: ['"completion_tokens":3', '"logprobs":{"content":['],
    },
    {
      name: 'nulls mean absent',
      request: [
        'POST',
        CHAT,
        hi({
          temperature: null,
          stop: null,
          n: null,
          stream: null,
          tools: null,
          stream_options: null,
          logit_bias: null,
          response_format: null,
          model: null,
        }),
      ],
      status: 200,
    },
    { name: 'unknown fields are ignored', request: ['POST', CHAT, hi({ frobnicate: { x: 1 } })], status: 200 },
    { name: 'the trailing slash', request: ['POST', `${CHAT}/`, hi()], status: 200 },
    {
      name: 'seeds of 64 bits',
      request: ['POST', CHAT, '{"messages":[{"role":"user","content":"hi"}],"seed":9223372036854775807}'],
      status: 200,
    },
    {
      name: 'a seed beyond 64 bits, within the published bound',
      request: ['POST', CHAT, '{"messages":[{"role":"user","content":"hi"}],"seed":9223372036854775808}'],
      status: 200,
    },
    {
      name: 'a seed beyond the published bound',
      request: ['POST', CHAT, '{"messages":[{"role":"user","content":"hi"}],"seed":9223372036854776001}'],
      status: 400,
      contains: ['less_than_equal', '9223372036854776000'],
    },
    {
      name: 'truncation beyond 2^53',
      request: [
        'POST',
        CHAT,
        '{"messages":[{"role":"user","content":"hi"}],"truncate_prompt_tokens":9223372036854775807}',
      ],
      status: 400,
      contains: ['cannot be greater than max_model_len - max_completion_tokens = 2048'],
    },
    {
      name: 'an unknown model',
      request: ['POST', CHAT, hi({ model: 'nope' })],
      status: 404,
      contains: [
        '{"error":{"message":"The model `nope` does not exist.","type":"NotFoundError","param":"model","code":404}',
      ],
    },
    {
      name: 'tools with tool_choice none are rendered',
      request: [
        'POST',
        CHAT,
        hi({
          tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
          tool_choice: 'none',
        }),
      ],
      status: 200,
    },
    {
      name: 'an unknown part type',
      request: ['POST', CHAT, { messages: [{ role: 'user', content: [{ type: 'hologram' }] }] }],
      status: 501,
      contains: ['Unknown part type: hologram', 'NotImplementedError'],
    },
    {
      name: 'text parts',
      request: ['POST', CHAT, { messages: [{ role: 'user', content: ['a', { type: 'text', text: 'b' }] }] }],
      status: 200,
    },
    {
      name: 'messages missing',
      request: ['POST', CHAT, {}],
      status: 400,
      contains: ['missing', '"loc":["body","messages"]'],
    },
    { name: 'messages empty', request: ['POST', CHAT, { messages: [] }], status: 400 },
    {
      name: 'a message without a role',
      request: ['POST', CHAT, { messages: [{ content: 'x' }] }],
      status: 400,
      contains: ['"loc":["body","messages",0,"role"]'],
    },
    {
      name: 'media',
      request: [
        'POST',
        CHAT,
        { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://10.0.0.1/' } }] }] },
      ],
      status: 400,
      contains: ['text only'],
    },
    {
      name: 'tool arguments that are no JSON, as models write them',
      request: [
        'POST',
        CHAT,
        { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: '{' } }] }] },
      ],
      status: 200,
    },
    refuse('negative temperature', { temperature: -1 }, 'temperature must be non-negative, got -1.'),
    refuse('top_p 0', { top_p: 0 }, 'top_p must be in (0, 1], got 0.'),
    refuse('top_k -2', { top_k: -2 }, 'top_k must be 0 (disable), or at least 1, got -2.'),
    refuse('min_p 2', { min_p: 2 }, 'min_p must be in [0, 1], got 2.'),
    refuse('n 0', { n: 0 }, 'n must be at least 1, got 0.'),
    refuse('n absurd', { n: 1e9 }, 'n must be at most 128'),
    refuse('greedy n 2', { n: 2, temperature: 0 }, 'n must be 1 when using greedy sampling, got 2.'),
    refuse('max_tokens 0', { max_tokens: 0 }, 'max_tokens must be at least 1, got 0.'),
    refuse('max_tokens 5.5', { max_tokens: 5.5 }, 'int_from_float'),
    refuse(
      'min_tokens above max',
      { min_tokens: 5, max_tokens: 2 },
      'min_tokens must be less than or equal to max_tokens=2, got 5.',
    ),
    refuse('an empty stop string', { stop: ['a', ''] }, 'stop cannot contain an empty string.'),
    refuse('too many stop strings', { stop: Array(300).fill('x') }, 'at most 256'),
    refuse(
      'top_logprobs 21',
      { logprobs: true, top_logprobs: 21 },
      'Requested sample logprobs of 21, which is greater than max allowed: 20',
    ),
    refuse('top_logprobs alone', { top_logprobs: 2 }, 'when using `top_logprobs`, `logprobs` must be set to true.'),
    refuse('top_logprobs -2', { logprobs: true, top_logprobs: -2 }, '`top_logprobs` must be a positive value or -1.'),
    refuse(
      'stream options without stream',
      { stream_options: { include_usage: true } },
      'Stream options can only be defined when `stream=True`.',
    ),
    refuse('both template flags', { continue_final_message: true, add_generation_prompt: true }, 'Cannot set both'),
    refuse('a chat template', { chat_template: '{{ x }}' }, '--trust-request-chat-template is not set'),
    refuse(
      'a chat template in kwargs',
      { chat_template_kwargs: { chat_template: 'x' } },
      '--trust-request-chat-template is not set',
    ),
    refuse('kwargs that shadow ours', { chat_template_kwargs: { messages: [] } }, 'must not set'),
    refuse('an empty cache salt', { cache_salt: '' }, "Parameter 'cache_salt' must be a non-empty string"),
    refuse('a priority', { priority: 1 }, 'Got priority 1 but Priority scheduling is not enabled.'),
    refuse(
      'logit bias on a word',
      { logit_bias: { x: 1, y: 2, 3: 1 } },
      "cannot be converted to integer token IDs: ['x', 'y']",
    ),
    refuse('penalty out of range', { presence_penalty: 3 }, 'presence_penalty must be in [-2, 2], got 3.'),
    refuse('tool_choice without tools', { tool_choice: 'auto' }, 'When using `tool_choice`, `tools` must be set.'),
    refuse('reasoning effort', { reasoning_effort: 'extreme' }, 'literal_error'),
    refuse(
      'a beam search that is too wide',
      { use_beam_search: true, n: 17 },
      'n must be at most 16 with use_beam_search',
    ),
    refuse('a beam search that draws', { use_beam_search: true, top_p: 0.5 }, 'top_p cannot be combined'),
    refuse('a beam search that looks for text', { use_beam_search: true, stop: 'x' }, 'stop cannot be combined'),
    refuse(
      'a beam search held to a schema',
      { use_beam_search: true, response_format: { type: 'json_object' } },
      'cannot be combined with structured outputs',
    ),
    refuse(
      'an empty bad word',
      { bad_words: ['a', ''] },
      "bad_words cannot contain an empty string. Got bad_words=['a', '']",
    ),
    refuse('prompt_logprobs -2', { prompt_logprobs: -2 }, '`prompt_logprobs` must be a positive value or -1.'),
    refuse(
      'prompt_logprobs -1',
      { prompt_logprobs: -1 },
      'Requested prompt logprobs of -1, which is greater than max allowed: 20',
    ),
    refuse(
      'prompt_logprobs 21',
      { prompt_logprobs: 21 },
      'Requested prompt logprobs of 21, which is greater than max allowed: 20',
    ),
    refuse(
      'streamed prompt_logprobs',
      { prompt_logprobs: 1, stream: true },
      '`prompt_logprobs` are not available when `stream=True`.',
    ),
    refuse(
      'a negative pattern',
      { repetition_detection: { max_pattern_size: -1 } },
      'max_pattern_size, min_pattern_size must be >=0',
    ),
    refuse(
      'a longest pattern below the shortest',
      { repetition_detection: { max_pattern_size: 1, min_pattern_size: 2, min_count: 2 } },
      'with min_pattern_size <= max_pattern_size',
    ),
    refuse(
      'a repetition that is none',
      { repetition_detection: { max_pattern_size: 3, min_count: 1 } },
      'min_count must be >= 2',
    ),
    refuse("the same in vLLM's older fields", { max_repetition_pattern_size: 3 }, 'min_count must be >= 2'),
    refuse('engine_xargs with an object', { engine_xargs: { a: {} } }, 'engine_xargs'),
    refuse(
      'engine_xargs with a wrong value',
      { engine_xargs: { xtc_probability: 'often' } },
      'engine_xargs.xtc_probability',
    ),
    refuse('DRY out of range', { dry_multiplier: -1 }, 'dry_multiplier must be non-negative, got -1.'),
    refuse('XTC out of range', { xtc_probability: 2 }, 'xtc_probability must be in [0, 1], got 2.'),
    refuse('a bias that is no pair', { logit_bias: [['a']] }, 'logit_bias[0] must be a pair'),
    refuse('an overflow', { max_tokens: 5000 }, 'maximum context length is 2048 tokens'),
    {
      name: 'errors of a stream are plain 4xx',
      request: ['POST', CHAT, hi({ stream: true, max_tokens: 5000 })],
      status: 400,
      contains: ['maximum context length is 2048'],
      excludes: ['data:'],
    },
  ])
})
