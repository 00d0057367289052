/**
 * Adapters of a vLLM: given to it before a request needs them, taken away when nobody uses them any more. It reads the files of
 * one again whenever it likes, and ends with all of its requests if they are gone, so they stay for as long as a request runs.
 *
 * Each load has a name of its own: an adapter that is dropped and asked for again lies in another folder.
 */
import { mkdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { maxOf } from '#base/util/lists.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import { type AdapterWeights, createAdapter, readAdapter, writeAdapter } from '#model/weights/adapter.js'
import { rankOf, scaleOf } from '#model/weights/adapter-config.js'
import { openWeights } from '#model/weights/base-weights.js'
import type { AdapterFolder } from './adapter-folder.js'

// Rewrites an adapter whose modules differ in rank or scale so that all have one rank and one scale, for programs that know only
// that: vLLM reads no `rank_pattern`. The function it computes stays the same.

/** The same changes with the largest rank in every module: zeros fill A and B, and what differs in scale is in B. */
export function uniformAdapter({ config, a, b }: AdapterWeights): AdapterWeights {
  const { alpha, targets } = config
  const rank = maxOf([...a.keys()].map((path) => rankOf(config, path)))
  const [wideA, wideB] = [new Map<string, Float32Array>(), new Map<string, Float32Array>()]
  for (const [path, values] of a) {
    const own = rankOf(config, path)
    const factor = (scaleOf(config, path) * rank) / alpha
    const down = new Float32Array((values.length / own) * rank)
    down.set(values)
    const narrow = b.get(path) ?? new Float32Array(0)
    const up = new Float32Array((narrow.length / own) * rank)
    narrow.forEach((value, i) => {
      up[Math.floor(i / own) * rank + (i % own)] = value * factor
    })
    wideA.set(path, down)
    wideB.set(path, up)
  }
  return { config: { rank, alpha, targets }, a: wideA, b: wideB }
}

/** An adapter in use: its name in vLLM. */
export interface TakenAdapter {
  readonly name: string
  release(): void
  /** vLLM does not know it any more: the next request gives it anew, unless another one has done so meanwhile. */
  forget(): void
}

export interface VllmAdapters {
  /** @throws {AppError} `adapter_failed`, and as the server has it */
  take(digest: string): Promise<TakenAdapter>
  /** Resolves when no request uses it and vLLM has let it go. */
  drop(digest: string): Promise<void>
  /** That vLLM ended, and all that it held. */
  clear(): void
  readonly held: readonly string[]
}

/** Requests that use a name, whichever load of it they took: its files are the same. */
interface Use {
  users: number
  readonly whenUnused: (() => void)[]
}

/** @param url of the vLLM that runs now */
export function createVllmAdapters(url: () => string, adapters: Pick<AdapterFolder, 'ensure'>): VllmAdapters {
  /** Names by digest. */
  const loaded = new Map<string, Promise<string>>()
  /** The last name of a digest, also when vLLM has lost it while requests may still read its files. */
  const names = new Map<string, string>()
  /** By name; those that are in use. */
  const uses = new Map<string, Use>()

  async function load(digest: string): Promise<string> {
    const { folder } = await adapters.ensure(digest)
    const name = basename(folder)
    names.set(digest, name)
    await loadAdapter(url(), name, await folderFor(folder))
    return name
  }

  function find(digest: string): Promise<string> {
    const before = loaded.get(digest)
    if (before !== undefined) return before
    const loading = load(digest)
    loaded.set(digest, loading)
    loading.catch(() => loaded.get(digest) === loading && loaded.delete(digest))
    return loading
  }

  return {
    take: async (digest) => {
      const loading = find(digest)
      const name = await loading
      const use = uses.get(name) ?? { users: 0, whenUnused: [] }
      uses.set(name, use)
      use.users += 1
      return {
        name,
        release: () => {
          use.users -= 1
          if (use.users > 0) return
          uses.delete(name)
          for (const resolve of use.whenUnused.splice(0)) resolve()
        },
        forget: () => {
          if (loaded.get(digest) === loading) loaded.delete(digest)
        },
      }
    },
    drop: async (digest) => {
      const loading = loaded.get(digest)
      const before = names.get(digest)
      loaded.delete(digest)
      names.delete(digest)
      const name = (await loading?.catch(() => undefined)) ?? before
      if (name === undefined) return
      const use = uses.get(name)
      if (use !== undefined) await new Promise<void>((resolve) => use.whenUnused.push(resolve))
      await post(`${url()}/v1/unload_lora_adapter`, { lora_name: name }).catch(() => undefined)
    },
    clear: () => loaded.clear(),
    get held() {
      return [...loaded.keys()]
    },
  }
}

/** Of the adapter below; the name of a folder never is. */
export const NO_CHANGE = 'no-change'

/**
 * Writes an adapter that changes nothing, which vLLM is given for requests without one. On processors (0.32) their rows would be
 * computed with the adapter that happens to be in the last slot: its products there take "no adapter" for an index, −1.
 *
 * @param modelPath folder of the base model
 * @param folder is made anew, and stays: vLLM may read it whenever it likes
 */
export async function writeNoChange(modelPath: string, folder: string): Promise<void> {
  const source = await openWeights(modelPath)
  try {
    const [module] = adapterModules(decoderConfigOf(source))
    if (module === undefined) throw new TypeError('a decoder without linear layers')
    const targets = [module.path.slice(module.path.lastIndexOf('.') + 1)]
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const nothing = createAdapter([module], { seed: 0, rank: 1, alpha: 1, targets })
    await writeAdapter(folder, nothing, { baseModelName: 'base' })
  } finally {
    await source.close()
  }
}

/** @throws {AppError} `adapter_failed` */
export function loadNoChange(url: string, folder: string): Promise<void> {
  return loadAdapter(url, NO_CHANGE, folder)
}

async function loadAdapter(url: string, name: string, folder: string): Promise<void> {
  const { status, text } = await post(`${url}/v1/load_lora_adapter`, { lora_name: name, lora_path: folder })
  // it has been there all the time
  if (status === 200 || (status === 400 && text.includes('already been loaded'))) return
  throw new AppError('unavailable', 'adapter_failed', `vLLM could not load the adapter: ${text.slice(0, 500)}`, {
    hint: 'is its rank beyond --max-lora-rank?',
  })
}

/** The folder that vLLM reads: it knows one rank for all modules, and would scale the others wrongly without a word. */
async function folderFor(folder: string): Promise<string> {
  const adapter = await readAdapter(folder)
  if (adapter.config.rankPattern === undefined) return folder
  const uniform = join(folder, 'uniform')
  await mkdir(uniform, { recursive: true, mode: 0o700 })
  await writeAdapter(uniform, uniformAdapter(adapter), { baseModelName: 'base' })
  return uniform
}

async function post(url: string, body: object): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}
