/**
 * schemathesis, unchanged, reads our description of the API and tries a started server with what it allows and what it does not:
 * no fault of the server, and no status, media type or answer that the description does not have.
 *
 * The description is given the ids of things that exist, so that requests reach more than 404.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/base/util/json.js'
import { runClient } from '../support/clients/run-client.js'
import { startFakeHub } from '../support/service/fake-hub.js'
import { startService } from '../support/service/service-process.js'

const SCHEMATHESIS = path.resolve(import.meta.dirname, '../../.cache/schemathesis-venv/bin/schemathesis')
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
]

/** Random requests of each operation, after those that cover what its schema allows and forbids; nights have time for more. */
const EXAMPLES = process.env['SCHEMATHESIS_EXAMPLES'] ?? '1'

/** A content part of a type that nobody knows is 501, as vLLM answers it; the description must still have it. */
const SETTINGS = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501]\n'

type Service = Awaited<ReturnType<typeof startService>>

/** One of everything, by the names that paths and bodies have for it. */
async function createOneOfEach({ api }: Service): Promise<Record<string, string>> {
  const model = await api.createModel('described', 'trainyard/spark')
  const file = await api.uploadRows([
    {
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'b' },
      ],
    },
  ])
  const job = await api.call('POST', '/v1/preview/sft-training-jobs', { model_id: model.id, training_data_url: file })
  await api.waitForJob(job.id)
  const tuned = await api.call('POST', '/v1/fine_tuning/jobs', { model: 'trainyard/spark', training_file: file })
  const webhook = await api.call('POST', '/v1/preview/webhooks', { url: 'http://127.0.0.1:9/' })
  const key = await api.call('POST', '/v1/preview/keys', { name: 'described', scope: 'read' })
  const answer = await api.call('POST', '/v1/responses', {
    model: 'trainyard/spark',
    input: 'hi',
    max_output_tokens: 4,
  })
  await api.call('POST', `/v1/preview/models/${model.id}/log`, {
    trajectory_groups: [
      {
        trajectories: [{ messages_and_choices: [{ role: 'assistant', content: 'b' }], reward: 1 }],
      },
    ],
    split: 'val',
  })
  return {
    model_id: model.id,
    training_job_id: job.id,
    group: '0',
    trajectory: '0',
    fine_tuning_job_id: tuned.id,
    file_id: file,
    training_file: file,
    training_data_url: file,
    webhook_id: webhook.id,
    key_id: key.id,
    response_id: answer.id,
    step: '1',
    name: 'adapter_config.json',
    page: 'api',
    id: 'trainyard/spark',
    model: 'trainyard/spark',
    base_model: 'trainyard/spark',
  }
}

/** Text that `name` stands for may also be what exists. */
function offer(schema: JsonValue | undefined, name: string, known: Readonly<Record<string, string>>): JsonValue {
  const value = known[name]
  return value === undefined ? (schema ?? {}) : { anyOf: [{ const: value }, schema ?? {}] }
}

function withKnownFields(value: JsonValue, known: Readonly<Record<string, string>>): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => withKnownFields(item, known))
  if (!isJsonObject(value)) return value
  const entries = Object.entries(value).map(([key, item]): [string, JsonValue] => {
    if (key !== 'properties' || !isJsonObject(item)) return [key, withKnownFields(item, known)]
    const properties = Object.entries(item).map(([name, schema]): [string, JsonValue] => {
      const isText = isJsonObject(schema) && schema['type'] === 'string' && schema['enum'] === undefined
      return [name, isText ? offer(schema, name, known) : withKnownFields(schema as JsonValue, known)]
    })
    return [key, Object.fromEntries(properties)]
  })
  return Object.fromEntries(entries)
}

/** A body that may be written in several ways, in the one that it can make. */
function inJson(body: JsonObject): JsonObject {
  const { 'application/x-protobuf': _, ...content } = body['content'] as JsonObject
  return { ...body, content }
}

/** What exists is offered in paths and in bodies; not where it would be deleted, the others need it. */
function withKnown(document: JsonObject, known: Readonly<Record<string, string>>): JsonObject {
  const paths = Object.entries(document['paths'] as Record<string, Record<string, JsonObject>>).map(([at, methods]) => {
    const rows = Object.entries(methods).map(([method, operation]): [string, JsonValue] => {
      if (method === 'delete') return [method, operation]
      const parameters = (operation['parameters'] ?? []) as readonly JsonObject[]
      return [
        method,
        {
          ...operation,
          parameters: parameters.map((each) => ({
            ...each,
            schema: offer(each['schema'], String(each['name']), known),
          })),
          ...(operation['requestBody'] === undefined
            ? {}
            : { requestBody: withKnownFields(inJson(operation['requestBody'] as JsonObject), known) }),
        },
      ]
    })
    return [at, Object.fromEntries(rows)]
  })
  return { ...document, paths: Object.fromEntries(paths) }
}

test.skipIf(!existsSync(SCHEMATHESIS))(
  'schemathesis finds no fault and nothing undocumented (skipped without .cache/schemathesis-venv, see .ci/run)',
  { timeout: 1_800_000 },
  async () => {
    const directory = await mkdtemp(path.join(tmpdir(), 'schemathesis-'))
    const hub = await startFakeHub()
    // a small context: answers of any allowed length end soon
    const service = await startService({
      args: ['--max-context-length', '96', '--webhook-host', '127.0.0.1:9'],
      env: { HF_ENDPOINT: hub.url },
    })
    try {
      const known = await createOneOfEach(service)
      const response = await fetch(`${service.url}/openapi.json`)
      const description = path.join(directory, 'openapi.json')
      await writeFile(path.join(directory, 'schemathesis.toml'), SETTINGS)
      await writeFile(description, JSON.stringify(withKnown((await response.json()) as JsonObject, known)))

      // one thread each: several in one process meet a fault of CPython 3.11's parser
      const run = (filter: string): Promise<string> => {
        const tag = [filter, 'Chat and text']
        const address = ['-u', service.url, '-H', `Authorization: Bearer ${service.key}`, '--request-timeout', '120']
        const amount = ['--phases', 'coverage,fuzzing', '--max-examples', EXAMPLES, '--seed', '1', '--no-shrink']
        const manner = ['--checks', CHECKS.join(','), '--continue-on-failure', '--generation-database', 'none']
        // how quickly it finds examples, on a busy machine above all, says nothing of the server
        manner.push('--suppress-health-check', 'all')
        const argv = ['run', description, ...tag, ...address, ...amount, ...manner, '--no-color', '--warnings', 'off']
        return runClient(SCHEMATHESIS, argv, { cwd: directory, timeoutMs: 1_750_000 })
      }
      const reports = await Promise.all([run('--include-tag'), run('--exclude-tag')])
      for (const report of reports) {
        expect(report.slice(-12_000)).toContain('No issues found')
        const [selected, all] = /Selected: (\d+)\/(\d+)/.exec(report)?.slice(1).map(Number) ?? []
        expect(selected).toBeGreaterThan(10)
        expect(all).toBeGreaterThan(70)
        expect(report).toContain(`Tested: ${selected}`)
      }
    } finally {
      await service.stop()
      hub.close()
      await rm(directory, { recursive: true, force: true, maxRetries: 20 })
    }
  },
)
