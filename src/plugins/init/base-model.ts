/**
 * The base model of a new task: the built-in one, a folder or GGUF file of this machine, one that the chosen server serves, or
 * one of a hub. What does not exist is refused before anything is written.
 */
import { open, readdir, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import type { Environment } from '#base/environment.js'
import { closest } from '#base/util/suggest.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Client } from '#sdk/client/client.js'

export const BUILT_IN = 'trainyard/spark'
const HUB = 'https://huggingface.co'

export interface BaseModelChoice {
  readonly name: string
  /** Where it lies on this machine; null for the built-in one and those of a hub. */
  readonly path: string | null
  readonly isHub: boolean
  /** Address of the server that serves it, where the task is run then; absent: the task starts its own. */
  readonly server?: string
}

interface Asked {
  readonly environment: Environment
  readonly signal: AbortSignal
  readonly connect: () => Promise<Client>
}

/** A server that is not there, or takes no key of ours, serves nothing here; nobody waits long for it. */
const SERVER_MS = 5000

/** Names that the chosen server serves. */
async function servedBy({
  connect,
  signal,
}: Asked): Promise<{ readonly url: string; readonly names: readonly string[] }> {
  try {
    const client = await connect()
    const names = await client.baseModels.list({ signal: AbortSignal.any([signal, AbortSignal.timeout(SERVER_MS)]) })
    return { url: client.baseUrl, names }
  } catch {
    signal.throwIfAborted()
    return { url: '', names: [] }
  }
}

const WEIGHTS =
  'its weights are expected as .safetensors files beside config.json; a .gguf file is given by its own path'

async function firstBytes(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(32), 0, 32, 0)
    return buffer.toString('latin1', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** @throws {UsageError} `base_model_not_found` */
export async function findBaseModel(text: string, asked: Asked): Promise<BaseModelChoice> {
  const { environment, signal } = asked
  if (text === BUILT_IN) return { name: text, path: null, isHub: false }
  let served: readonly string[] = []
  const refuse = (problem: string, hint: string): never => {
    const suggestion = closest(text, [BUILT_IN, ...served])
    throw new UsageError('base_model_not_found', `${text} ${problem}`, { param: '--base-model', hint, suggestion })
  }
  const kinds = `a base model is ${BUILT_IN}, a folder with config.json, a .gguf file, one that the chosen server serves, or organisation/name of a hub`
  const path = resolve(text)
  const facts = await stat(path).catch(() => null)
  if (facts?.isDirectory() === true) {
    const inside = await readdir(path)
    if (!inside.includes('config.json')) return refuse('is a folder without config.json', kinds)
    if (!inside.some((name) => name.endsWith('.safetensors'))) return refuse('is a folder without weights', WEIGHTS)
    return { name: basename(path), path, isHub: false }
  }
  if (facts !== null) {
    const begins = await firstBytes(path)
    if (begins.startsWith('version https://git-lfs')) return refuse('is a Git LFS pointer', 'run git lfs pull there')
    if (begins.slice(0, 4) !== 'GGUF') return refuse('is a file that is no GGUF', kinds)
    return { name: basename(path).replace(/\.gguf$/i, ''), path, isHub: false }
  }
  const { url, names } = await servedBy(asked)
  if (names.includes(text)) return { name: text, path: null, isHub: false, server: url }
  served = names
  if (!/^[\w-][\w.-]*\/[\w.-]+$/.test(text) || /\.gguf$/i.test(text)) return refuse('does not exist', kinds)
  if (closest(text, [BUILT_IN]) !== undefined || text.startsWith('trainyard/'))
    return refuse('is no built-in model', kinds)
  const endpoint = (environment['HF_ENDPOINT'] ?? HUB).replace(/\/+$/, '')
  const token = environment['HF_TOKEN']
  const answer = await fetch(`${endpoint}/api/models/${text}`, {
    method: 'HEAD',
    signal,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  }).catch((cause: unknown) => {
    signal.throwIfAborted()
    const why = cause instanceof Error ? cause.message : 'unknown reason'
    return refuse(`cannot be looked up at ${endpoint} (${why})`, 'download it, and give its folder')
  })
  if (!answer.ok) return refuse(`is not at ${endpoint} (${answer.status})`, kinds)
  return { name: text, path: null, isHub: true }
}
