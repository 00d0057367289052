/**
 * Everything the hosted service's client sends through the wandb client, both unchanged: training data up, checkpoints down,
 * forks, metrics. Neither may speak to anybody but the server, and an S3 server on this machine.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../support/clients/run-client.js'
import { hasLocalS3, startLocalS3 } from '../support/local-s3.js'
import { watchSockets } from '../support/outgoing-sockets.js'
import { startService } from '../support/service/service-process.js'

const PYTHON = path.resolve(import.meta.dirname, '../../.cache/venv/bin/python')

const TIMEOUT_MS = 1_000_000

type Service = Awaited<ReturnType<typeof startService>>

/** SHA-256 by file name. */
type Digests = Readonly<Record<string, string>>

/** What `art_s3.py` saw: step, answer and files of each fork. */
interface SeenOfS3 {
  readonly before: string
  readonly stored: Digests
  readonly served: Readonly<Record<string, Digests>>
  readonly fork: readonly [number, string, Digests]
  readonly fork_of_step: readonly [number, string, Digests]
  readonly none: string
}

/** Runs a client against a server while its connections are watched. @returns what it printed last, parsed */
async function runClient<Seen = Record<string, unknown>>(
  service: Service,
  script: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Seen> {
  const sockets = watchSockets()
  const file = path.join(import.meta.dirname, 'clients', script)
  const [program = PYTHON, ...args] = [...sockets.wrapper, PYTHON, file, service.url, service.key, 'trainyard/spark']
  try {
    return await seenByClient<Seen>(program, args, {
      env: environment,
      onStart: (pid) => sockets.watch(pid),
      timeoutMs: TIMEOUT_MS - 50_000,
    })
  } finally {
    expect(sockets.stop(), 'addresses outside this machine').toEqual([])
  }
}

test.skipIf(!existsSync(PYTHON))(
  'openpipe-art with wandb: train_sft, pull, fork, metrics (skipped without .cache/venv, see .ci/run)',
  { timeout: TIMEOUT_MS },
  async () => {
    const service = await startService()
    try {
      const seen = await runClient(service, 'art_sft.py')
      expect(seen).toMatchObject({
        step: 1,
        after: 'Trainyard',
        pulled: ['adapter_config.json', 'adapter_model.safetensors'],
        fork_step: 1,
        fork_after: 'Trainyard',
        fork_next_step: 2,
        summary: 0.75,
        provenance: ['serverless-sft'],
      })
      expect(seen['before']).not.toBe('Trainyard')
      expect(seen['history']).toContain(0.75)

      const { data: models } = await service.api.call('GET', '/v1/preview/models?name=student')
      const { data: runs } = await service.api.call('GET', `/v1/preview/models/${models[0].id}/runs`)
      const run = runs.find(({ name }: { name: string }) => name === 'student')
      expect(run).toMatchObject({ display_name: 'student', state: 'finished' })
      const history = await service.api.call('GET', `/v1/preview/models/${models[0].id}/runs/${run.id}/history`)
      expect(history.data.at(-1).metrics['val/accuracy']).toBe(0.75)
    } finally {
      await service.stop()
    }
  },
)

test.skipIf(!existsSync(PYTHON))(
  "openpipe-art's other calls: every option of train, steps, log, pull and fork of a step, deletion, exceptions (skipped without .cache/venv, see .ci/run)",
  { timeout: TIMEOUT_MS },
  async () => {
    const service = await startService()
    try {
      const files = ['adapter_config.json', 'adapter_model.safetensors']
      expect(await runClient(service, 'art_calls.py')).toEqual({
        artifacts: ['local/e2e/rest:step1', 'local/e2e/rest:step2'],
        events: ['training_started', 'gradient_step', 'training_ended'],
        steps: [1, 2, 3],
        old_step_answers: 2,
        litellm: 'hosted_vllm/wandb-artifact:///local/e2e/rest:step2',
        summary: [1.5, 2, 'kept'],
        pulled: [
          ['0001', files],
          ['0003', files],
        ],
        fork_step: 2,
        deleted: 1,
        pull_of_deleted: 'CommError',
        refused: [
          ['UnprocessableEntityError', 422],
          ['ConflictError', 409],
          ['NotFoundError', 404],
          // an empty step is one of the hosted service's too
          [],
          ['BadRequestError', 400],
          ['AuthenticationError', 401],
        ],
        gone: ['NotFoundError', 404],
      })
    } finally {
      await service.stop()
    }
  },
)

test.skipIf(!existsSync(PYTHON) || !hasLocalS3())(
  'openpipe-art: checkpoints go to S3 as they are, and models are forked from there (skipped without .cache/venv and .cache/s3-venv)',
  { timeout: TIMEOUT_MS },
  async () => {
    const service = await startService()
    const s3 = await startLocalS3()
    try {
      const seen = await runClient<SeenOfS3>(service, 'art_s3.py', s3.environment)
      const [first, second] = [1, 2].map(
        (step) => seen.served[`team/a/e2e/models/source/checkpoints/000${step}`] as Digests,
      )
      expect(Object.keys(first ?? {}).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors'])
      expect(first).not.toEqual(second)
      expect(seen.stored).toEqual(
        Object.fromEntries(
          Object.entries(seen.served).flatMap(([folder, files]) =>
            Object.entries(files).map(([name, digest]) => [`${folder}/${name}`, digest]),
          ),
        ),
      )
      expect(seen.before).not.toBe('Trainyard')
      expect(seen.fork).toEqual([2, 'Trainyard', second])
      expect(seen.fork_of_step).toEqual([1, 'Trainyard', first])
      expect(seen.none).toContain('No suitable checkpoint found in S3')
    } finally {
      await s3.stop()
      await service.stop()
    }
  },
)
