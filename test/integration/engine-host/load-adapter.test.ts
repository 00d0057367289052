/**
 * Adapters are read in place or in a thread, by their size: the result and the errors are the same.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadAdapter } from '#inference/host/adapters/load-adapter.js'
import type { AdapterRef } from '#inference/host/protocol.js'
import { createAdapter, encodeAdapter } from '#model/weights/adapter.js'

const PLACES = [
  ['in place', Number.POSITIVE_INFINITY],
  ['in a thread', 0],
] as const

let directory: string
let stored: AdapterRef
const modules = ['q_proj', 'v_proj'].map((name) => ({
  path: `model.layers.0.self_attn.${name}`,
  outputSize: 6,
  inputSize: 10,
}))
const adapter = createAdapter(modules, { rank: 3, alpha: 6, seed: 1 })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'load-adapter-'))
  const files: Record<string, { path: string; sha256: string }> = {}
  for (const [name, bytes] of encodeAdapter(adapter, { baseModelName: 'tiny' })) {
    const path = join(directory, name)
    await writeFile(path, bytes)
    files[name] = { path, sha256: createHash('sha256').update(bytes).digest('hex') }
  }
  stored = { digest: 'd', checkpoint: 'step 3 of model "m"', files }
})
afterAll(async () => {
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

function withFile(name: string, file: { readonly path?: string; readonly sha256?: string }): AdapterRef {
  const known = stored.files[name]
  if (known === undefined) throw new Error(`there is no file ${name}`)
  return { ...stored, files: { ...stored.files, [name]: { ...known, ...file } } }
}

describe.each(PLACES)('an adapter read %s', (_, smallBytes) => {
  it('is what was stored', async () => {
    expect(await loadAdapter(stored, modules, smallBytes)).toEqual(adapter)
  })

  it('is refused by name when a file is damaged, missing or no adapter', async () => {
    const config = stored.files['adapter_config.json']
    if (config === undefined) throw new Error('there is no configuration')
    const cases = [
      [withFile('adapter_model.safetensors', { sha256: '0'.repeat(64) }), 'differs from its digest'],
      [withFile('adapter_model.safetensors', { path: join(directory, 'nowhere') }), 'cannot be read'],
      [withFile('adapter_model.safetensors', config), 'header'],
    ] as const
    for (const [ref, problem] of cases) {
      const message = expect.stringMatching(new RegExp(`step 3 of model "m" is damaged.*${problem}`))
      await expect(loadAdapter(ref, modules, smallBytes)).rejects.toMatchObject({
        category: 'internal',
        code: 'checkpoint_corrupt',
        message,
        details: { checkpoint: 'step 3 of model "m"' },
      })
    }
  })

  it('is refused when the base model has other modules: it would answer as the base model', async () => {
    const others = modules.map((module) => ({ ...module, path: module.path.replace('layers.0', 'layers.1') }))
    await expect(loadAdapter(stored, others, smallBytes)).rejects.toMatchObject({
      code: 'checkpoint_corrupt',
      message: expect.stringMatching(/model\.layers\.0\.self_attn\.q_proj/),
    })
  })
})
