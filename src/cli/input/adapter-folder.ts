/**
 * An adapter on this machine in the layout of PEFT or mlx-lm: a folder, or one of the two files in it.
 */
import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Client } from '#sdk/client/client.js'
import { UsageError } from '../terminal/errors.js'

const CONFIG_FILE = 'adapter_config.json'
const WEIGHTS_FILE = 'adapter_model.safetensors'
/** mlx-lm's. */
const MLX_WEIGHTS_FILE = 'adapters.safetensors'
const PICKLE_FILE = 'adapter_model.bin'

const FILES: readonly string[] = [CONFIG_FILE, WEIGHTS_FILE, MLX_WEIGHTS_FILE, PICKLE_FILE]

/** Whether a path is an adapter and no model: a folder with any of its files, or one of them. */
export async function isAdapter(path: string): Promise<boolean> {
  if (await isFile(path)) return FILES.includes(basename(path))
  if (await isFile(join(path, 'config.json'))) return false
  return (await Promise.all(FILES.map((name) => isFile(join(path, name))))).includes(true)
}

/**
 * Where an adapter's two files lie.
 *
 * @param path the folder, or either file
 * @param param what the path was given as
 * @throws {UsageError} `invalid_option` for a path that is no such folder, and for a pickle
 */
export async function locateAdapter(
  path: string,
  param: string,
): Promise<{ readonly folder: string; readonly weights: string }> {
  const isFolder = (await stat(path).catch(() => null))?.isDirectory() === true
  const refuse = (problem?: string, hint?: string): UsageError => noAdapter(param, path, problem, hint)
  if (!isFolder && !((await isFile(path)) && FILES.includes(basename(path)))) throw refuse()
  const folder = isFolder ? path : dirname(path)
  const weights = (await isFile(join(folder, WEIGHTS_FILE))) ? WEIGHTS_FILE : MLX_WEIGHTS_FILE
  if (!(await isFile(join(folder, weights)))) {
    if (!(await isFile(join(folder, PICKLE_FILE)))) throw refuse(`${WEIGHTS_FILE} is missing`)
    throw refuse(
      `${PICKLE_FILE} is a pickle, which can run code when it is loaded`,
      'save it again with PEFT: save_pretrained(..., safe_serialization=True)',
    )
  }
  if (!(await isFile(join(folder, CONFIG_FILE)))) throw refuse(`${CONFIG_FILE} is missing`)
  return { folder, weights }
}

/**
 * Uploads both files.
 *
 * @returns what `from_adapter` of a new model takes
 * @throws {UsageError} as `locateAdapter`
 */
export async function uploadAdapter(
  path: string,
  options: { readonly client: Client; readonly signal: AbortSignal; readonly param: string },
): Promise<{ readonly adapter_config: string; readonly adapter_model: string }> {
  const { client, signal } = options
  const { folder, weights } = await locateAdapter(path, options.param)
  const upload = async (name: string): Promise<string> => {
    const blob = await openAsBlob(join(folder, name))
    const file = await client.files.upload(blob, name, { signal, purpose: 'user_data' })
    return file.id
  }
  return { adapter_config: await upload(CONFIG_FILE), adapter_model: await upload(weights) }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() === true
}

function noAdapter(param: string, path: string, problem = 'it does not exist or is another file', hint?: string) {
  const message = `${param} "${path}" is not an adapter in the layout of PEFT or mlx-lm: ${problem}`
  return new UsageError('invalid_option', message, {
    param,
    hint: hint ?? `give a folder with ${CONFIG_FILE} and ${WEIGHTS_FILE}, as save_pretrained writes it`,
  })
}
