/**
 * An adapter on this machine in PEFT's layout: a folder, or one of the two files in it.
 */
import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Client } from '#sdk/client/client.js'
import { UsageError } from '../command/errors.js'

const CONFIG_FILE = 'adapter_config.json'
const WEIGHTS_FILE = 'adapter_model.safetensors'

/**
 * Uploads both files.
 *
 * @param path the folder, or either file
 * @returns what `from_adapter` of a new model takes
 * @throws {UsageError} `invalid_option` for a path that is no such folder
 */
export async function uploadAdapter(
  path: string,
  { client, signal }: { readonly client: Client; readonly signal: AbortSignal },
): Promise<{ readonly adapter_config: string; readonly adapter_model: string }> {
  const isFolder = (await stat(path).catch(() => null))?.isDirectory() === true
  if (!isFolder && ![CONFIG_FILE, WEIGHTS_FILE].includes(basename(path))) throw noAdapter(path)
  const folder = isFolder ? path : dirname(path)
  const upload = async (name: string): Promise<string> => {
    const facts = await stat(join(folder, name)).catch(() => null)
    if (facts?.isFile() !== true) throw noAdapter(path, `${name} is missing`)
    const blob = await openAsBlob(join(folder, name))
    const file = await client.files.upload(blob, name, { signal, purpose: 'user_data' })
    return file.id
  }
  return { adapter_config: await upload(CONFIG_FILE), adapter_model: await upload(WEIGHTS_FILE) }
}

function noAdapter(path: string, problem = 'it does not exist or is another file'): UsageError {
  return new UsageError('invalid_option', `--from-adapter "${path}" is not an adapter in the PEFT layout: ${problem}`, {
    param: '--from-adapter',
    hint: `give a folder with ${CONFIG_FILE} and ${WEIGHTS_FILE}, as save_pretrained writes it`,
  })
}
