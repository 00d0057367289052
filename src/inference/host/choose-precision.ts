/**
 * The precision a base model is served in where the setting says `auto`: float32 or int8, as measured on this machine.
 *
 * Small models are float32: their steps are mostly overhead. Others are measured once (`precision-probe.ts`), and what was found
 * is kept beside the prepared weights for as long as processor, threads and runtime are the same. A small difference decides
 * nothing: then models up to 200 million parameters are float32, whose log-probabilities are the trainer's own, larger ones int8.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { memoryBytes } from '#base/machine/memory.js'
import { systemIds } from '#base/util/ids.js'
import { moveFile } from '#base/util/move-file.js'
import { hasFastIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { measurePrecisions } from '#inference/engine/runner/precision-probe.js'
import { type DecoderConfig, parameterCount } from '#model/architectures/decoder-config.js'
import { type Precision, prepareBaseModel } from '#model/architectures/prepare.js'
import { isAccelerated, type Runtime } from '#numerics/runtime/runtime.js'
import type { LoadCommand } from './protocol.js'

/** A precision and where it comes from. */
export interface PrecisionChoice {
  readonly precision: Precision
  /** `setting`, `size`: too small or too large to be measured, `measured`, `device`: all that it computes in. */
  readonly reason: 'setting' | 'size' | 'measured' | 'device'
  /** How many times as fast int8 products are as float32 ones here, one row and eight; null if not measured. */
  readonly int8Speedup: number | null
}

/** Models up to this size are float32 unmeasured. */
const SMALL_PARAMETERS = 50e6
/** Models up to this size are float32 when the measurement does not decide. */
const FLOAT32_PARAMETERS = 200e6
/** How much faster the other precision must be. */
const CLEARLY_FASTER = 1.3
/** Float32 weights take their own size and a packed copy; they may take this share of the machine's memory. */
const MEMORY_SHARE = 0.25
/** Results of another way of measuring are not read. */
const VERSION = 1

/** The choice for models that are not measured, or null. */
export function precisionBySize(config: DecoderConfig, availableBytes = memoryBytes()): PrecisionChoice | null {
  const parameters = parameterCount(config)
  if (parameters <= SMALL_PARAMETERS) return { precision: 'f32', reason: 'size', int8Speedup: null }
  const float32Bytes = 2 * parameters * Float32Array.BYTES_PER_ELEMENT
  if (float32Bytes > MEMORY_SHARE * availableBytes) return { precision: 'int8', reason: 'size', int8Speedup: null }
  return null
}

/** The choice that follows from a measurement. */
export function precisionByMeasure(config: DecoderConfig, int8Speedup: number): PrecisionChoice {
  const usual = parameterCount(config) <= FLOAT32_PARAMETERS ? 'f32' : 'int8'
  const gain = usual === 'f32' ? int8Speedup : 1 / int8Speedup
  const other = usual === 'f32' ? 'int8' : 'f32'
  return { precision: gain >= CLEARLY_FASTER ? other : usual, reason: 'measured', int8Speedup }
}

/**
 * What a base model is served in. `auto` may measure, which takes some seconds once.
 *
 * @throws {WeightsError} if the source cannot be read or does not fit its configuration
 */
export async function choosePrecision(
  command: Pick<LoadCommand, 'precision' | 'sourcePath' | 'preparedDir' | 'threads'>,
  options: { readonly config: DecoderConfig; readonly runtime: Runtime },
): Promise<PrecisionChoice> {
  const { config, runtime } = options
  if (command.precision !== 'auto') return { precision: command.precision, reason: 'setting', int8Speedup: null }
  if (isAccelerated(runtime)) return { precision: 'f32', reason: 'device', int8Speedup: null }
  const bySize = precisionBySize(config)
  if (bySize !== null) return bySize
  const { directory } = await prepareBaseModel(command.sourcePath, command.preparedDir, ['f32'])
  return precisionByMeasure(config, await measuredSpeedup(directory, { config, runtime, threads: command.threads }))
}

/**
 * What was measured for a model on this machine, measured now if it never was.
 *
 * @param directory where its prepared weights are
 */
export async function measuredSpeedup(
  directory: string,
  options: { readonly config: DecoderConfig; readonly runtime: Runtime; readonly threads: number | null },
): Promise<number> {
  const { config, runtime, threads } = options
  const path = join(directory, 'precision.json')
  const machine = [cpus()[0]?.model ?? '', cpus().length, threads, runtime.name].join(' | ')
  const known = await readMeasurement(path, machine)
  if (known !== null) return known
  const int8Kind = (await hasFastIntegerProducts(runtime, threads)) ? 'integer' : 'blocks'
  const int8Speedup = await measurePrecisions(config, { runtime, threads, int8Kind })
  const temporary = `${path}.${systemIds.uuid()}.tmp`
  await writeFile(temporary, JSON.stringify({ version: VERSION, machine, int8Speedup }))
  await moveFile(temporary, path)
  return int8Speedup
}

async function readMeasurement(path: string, machine: string): Promise<number | null> {
  try {
    const known: unknown = JSON.parse(await readFile(path, 'utf8'))
    if (typeof known !== 'object' || known === null) return null
    const { version, machine: measuredOn, int8Speedup } = known as Record<string, unknown>
    const isValid = version === VERSION && measuredOn === machine
    return isValid && typeof int8Speedup === 'number' && int8Speedup > 0 ? int8Speedup : null
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
