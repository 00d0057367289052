/**
 * Losses and gradients as the unmodified Tinker client gets them, against PyTorch with PEFT in float64: three losses and a custom one, two models.
 *
 * Tolerance: 1e-4, of a loss relative to it, of a gradient to the largest number of its tensor.
 */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { seenByClient } from '../../support/clients/run-client.js'
import { startService } from '../../support/service/service-process.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const TORCH = path.join(ROOT, '.cache/torch-pypi-venv')
const TINKER = path.join(ROOT, '.cache/tinker-venv')
const SPARK = path.join(ROOT, 'src/assets/spark')

/** Where a virtual environment has its packages. */
const packagesOf = (venv: string): string => {
  const [version = ''] = readdirSync(path.join(venv, 'lib')).filter((name) => name.startsWith('python3'))
  return path.join(venv, 'lib', version, 'site-packages')
}

test.skipIf(!existsSync(TORCH) || !existsSync(TINKER))(
  'losses and gradients are PyTorch’s (skipped without .cache/tinker-venv and .cache/torch-pypi-venv, see .ci/run)',
  async () => {
    const models = ['trainyard/spark', 'trainyard/tiny-random']
    const service = await startService({ args: models.flatMap((name) => ['--base-model', name]) })
    try {
      const folders = [SPARK, path.join(service.dataDir, 'base-models')]
      const script = path.join(import.meta.dirname, '../clients/tinker_torch.py')
      for (const [i, model] of models.entries()) {
        const args = [script, service.url, service.key, model, folders[i] ?? '']
        type Differences = Record<string, { loss: number; gradient: number }>
        const said = await seenByClient<Differences>(path.join(TORCH, 'bin/python'), args, {
          timeoutMs: 280_000,
          env: { TINKER_TELEMETRY: '0', PYTHONPATH: `${packagesOf(TINKER)}:${packagesOf(TORCH)}` },
          mayAbortAtExit: true,
        })
        expect(Object.keys(said)).toEqual(['cross_entropy', 'importance_sampling', 'ppo', 'custom'])
        for (const [loss, { loss: value, gradient }] of Object.entries(said)) {
          expect(value, `${model}, ${loss}, value`).toBeLessThan(1e-4)
          expect(gradient, `${model}, ${loss}, gradient`).toBeLessThan(1e-4)
        }
      }
    } finally {
      await service.stop()
    }
  },
)
