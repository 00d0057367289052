/**
 * Exports written to disk, and an adapter that changes what a model says: for tests of what other programs make of them.
 */
import { createHash } from 'node:crypto'
import { mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createRng } from '#base/util/rng.js'
import type { StoredCheckpoint } from '#formats/checkpoint-manifest.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { type AdapterWeights, createAdapter, encodeAdapter } from '#model/weights/adapter.js'
import type { AdapterForm } from '#model/weights/adapter-config.js'
import { openWeights } from '#model/weights/base-weights.js'
import { planExport } from '#plugins/export/plan-export.js'
import type { ExportRequest } from '#plugins/export/requests.js'

/** An adapter whose B is not zero: it changes the model noticeably and does not break it. Rank 4 unless said otherwise. */
export async function noisyAdapter(
  sourcePath: string,
  form: AdapterForm = { rank: 4, alpha: 8 },
  size = 0.05,
): Promise<AdapterWeights> {
  const source = await openWeights(sourcePath)
  const modules = adapterModules(decoderConfigOf(source))
  await source.close()
  const adapter = createAdapter(modules, { ...form, seed: 'export' })
  const rng = createRng('export fixture')
  for (const b of adapter.b.values()) for (let i = 0; i < b.length; i++) b[i] = (rng.uniform() - 0.5) * size
  return adapter
}

/** The adapter as a stored checkpoint below `directory`. */
export async function storeAdapter(adapter: AdapterWeights, directory: string): Promise<StoredCheckpoint> {
  await mkdir(directory, { recursive: true })
  const files: Record<string, { path: string; sha256: string }> = {}
  for (const [name, bytes] of encodeAdapter(adapter, { baseModelName: 'base' })) {
    const path = join(directory, name)
    await writeFile(path, bytes)
    files[name] = { path, sha256: createHash('sha256').update(bytes).digest('hex') }
  }
  return { checkpoint: 'step 1 of model "m"', files }
}

/** Writes an export's files into `directory`; the announced sizes are checked. */
export async function writeExport(
  directory: string,
  request: Pick<ExportRequest, 'format' | 'sourcePath'> & Partial<ExportRequest>,
): Promise<readonly string[]> {
  const defaults = {
    type: 'export',
    storage: null,
    baseModel: 'org/base',
    modelName: 'm step 1',
    fileStem: 'm-step1',
    adapter: null,
  } as const
  const plan = await planExport({ ...defaults, file: null, ...request })
  await mkdir(directory, { recursive: true })
  for (const file of plan.files) {
    const handle = await open(join(directory, file.name), 'w')
    let sizeBytes = 0
    for await (const bytes of file.bytes()) {
      await handle.write(bytes)
      sizeBytes += bytes.length
    }
    await handle.close()
    if (sizeBytes !== file.sizeBytes) throw new Error(`${file.name}: announced ${file.sizeBytes}, wrote ${sizeBytes}`)
  }
  await plan.close()
  return plan.files.map(({ name }) => name)
}
