/**
 * How a model's makers sample it, by the `generation_config.json` of its folder. What ends an answer is read elsewhere.
 */
import { join } from 'node:path'
import { readTextFile } from '#model/weights/byte-file.js'

/** Fields of a chat request: `temperature`, `top_p`, `top_k`. */
export type OwnSampling = Readonly<Record<string, number>>

const MAX_BYTES = 1_000_000
const BOUNDS: Readonly<Record<string, (value: number) => boolean>> = {
  temperature: (value) => value > 0 && value <= 2,
  top_p: (value) => value > 0 && value <= 1,
  top_k: (value) => Number.isInteger(value) && value >= 1,
}

/** @returns null without the file, and where it says nothing that is usable, or that nothing is sampled (`do_sample` false) */
export async function readOwnSampling(folder: string): Promise<OwnSampling | null> {
  let config: Readonly<Record<string, unknown>> | null
  try {
    config = JSON.parse(await readTextFile(join(folder, 'generation_config.json'), MAX_BYTES))
  } catch {
    return null
  }
  if (typeof config !== 'object' || config === null || config['do_sample'] === false) return null
  const found = Object.entries(BOUNDS).flatMap(([name, isUsable]) => {
    const value = config[name]
    return typeof value === 'number' && isUsable(value) ? [[name, value] as const] : []
  })
  return found.length === 0 ? null : Object.fromEntries(found)
}
