/**
 * The `tinker` command of the Tinker client: runs and what was saved of them, listed, shown, given a time to live, fetched and deleted.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { runClient } from '../../support/clients/run-client.js'
import { startService } from '../../support/service/service-process.js'
import { openTinker, plainRows } from '../../support/tinker/tinker-client.js'

const COMMAND = path.resolve(import.meta.dirname, '../../../.cache/tinker-venv/bin/tinker')

test.skipIf(!existsSync(COMMAND))(
  'the tinker command lists, shows, fetches and deletes (skipped without .cache/tinker-venv, see .ci/run)',
  async () => {
    const service = await startService({ args: ['--base-model', 'trainyard/tiny-random'] })
    const folder = await mkdtemp(path.join(tmpdir(), 'trainyard-tinker-cli-'))
    const env = {
      TINKER_TELEMETRY: '0',
      TINKER_BASE_URL: service.url,
      TINKER_API_KEY: `tml-${service.key}`,
    }
    const told = (words: readonly string[], mayAbortAtExit: boolean): Promise<string> =>
      runClient(COMMAND, ['--format', 'json', ...words], { env, timeoutMs: 300_000, mayAbortAtExit })
    // an abort at its end is no success either, and its error holds what was printed before
    const refusal = (...words: string[]): Promise<string> => told(words, false)
    const tinker = async <T>(...words: string[]): Promise<T> => {
      const stdout = await told(words, true)
      return (stdout.trim() === '' ? null : JSON.parse(stdout)) as T
    }
    try {
      const client = await openTinker({ url: service.url, apiKey: service.key })
      const run = await client.createRun({ rank: 4 })
      await run.send({ loss: 'cross_entropy', data: plainRows([[1, 20, 30, 40]]) })
      await run.post('optim_step', { adam_params: { learning_rate: 0.01 } })
      await client.result(await run.post('save_weights', { path: 'state' }))
      await client.result(await run.post('save_weights_for_sampler', { path: 'policy' }))
      const state = `tinker://${run.id}/weights/state`

      const { runs } = await tinker<{ runs: { training_run_id: string; base_model: string }[] }>('run', 'list')
      expect(runs).toMatchObject([{ training_run_id: run.id, base_model: 'trainyard/tiny-random' }])
      expect(await tinker('run', 'info', run.id)).toMatchObject({ lora_rank: 4, corrupted: false })
      const list = async () => {
        const { checkpoints } = await tinker<{ checkpoints: { checkpoint_id: string; expires_at: string | null }[] }>(
          'checkpoint',
          'list',
          '--run-id',
          run.id,
        )
        return checkpoints
      }
      const ids = async () => (await list()).map((each) => each.checkpoint_id).sort()
      expect(await ids()).toEqual(['sampler_weights/policy', 'weights/state'])
      await tinker('checkpoint', 'set-ttl', state, '--ttl', '7200')
      expect((await list()).find((each) => each.checkpoint_id === 'weights/state')?.expires_at).not.toBeNull()
      await tinker('checkpoint', 'set-ttl', state, '--remove')
      expect((await list()).find((each) => each.checkpoint_id === 'weights/state')?.expires_at).toBeNull()

      await tinker('checkpoint', 'download', state, '--output', folder)
      const files = await readdir(folder, { recursive: true })
      const weights = files.find((name) => name.endsWith('adapter_model.safetensors')) ?? ''
      expect(files.some((name) => name.endsWith('adapter_config.json'))).toBe(true)
      const { tensors } = decodeSafetensors(await readFile(path.join(folder, weights)), weights)
      expect(tensors.size).toBeGreaterThan(0)
      // what it was exported to is gone
      expect(await ids()).toEqual(['sampler_weights/policy', 'weights/state'])

      await expect(refusal('checkpoint', 'publish', state)).rejects.toThrow(
        /nothing that is saved is public; `tinker checkpoint download` fetches it/,
      )
      await expect(refusal('session', 'export-trace', run.id.split(':')[0] ?? '')).rejects.toThrow(
        /requests of a session are not kept as a trace; `tinker run info`/,
      )
      await tinker('checkpoint', 'delete', '--yes', state)
      expect(await ids()).toEqual(['sampler_weights/policy'])
      const { models } = await tinker<{ models: { model_name: string }[] }>('model', 'list')
      expect(models).toMatchObject([{ model_name: 'trainyard/tiny-random' }])
    } finally {
      await service.stop()
      await rm(folder, { recursive: true, force: true })
    }
  },
)
