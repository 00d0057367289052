/**
 * An adapter from elsewhere as one of ours: checked against the base model and written in one form.
 *
 * That form adapts every projection with one rank and one scale, because training does: where the given adapter has none, or less
 * rank, A is fresh and B zero, which changes nothing, and scales of their own are folded into B. Values become float32. What is
 * no change of low rank is refused, with the command that merges it (`merge-adapter.ts`).
 */
import { writeFile } from 'node:fs/promises'
import { WeightsError } from '#base/errors/errors.js'
import { maxOf } from '#base/util/lists.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import {
  type AdapterModule,
  type AdapterWeights,
  checkAdapterFits,
  checkAdapterValues,
  createAdapter,
  encodeAdapter,
} from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import type { ImportedAdapter } from '#service/operations/models/exporter.js'
import type { GivenAdapter, LowRankChange } from './given-adapter.js'
import { readGivenFiles } from './given-files.js'
import type { ImportRequest } from './requests.js'
import { compareSaved } from './saved-tensors.js'

/**
 * Reads the adapter, checks it and writes both files to `request.targets`.
 *
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`, `non_finite_weights`, each naming the tensor or setting
 */
export async function importAdapter(request: ImportRequest): Promise<ImportedAdapter> {
  const given = await readGivenFiles(request)
  const source = await openWeights(request.sourcePath)
  const modules = adapterModules(decoderConfigOf(source))
  const { changed, notes } = await compareSaved(given, source)
  await source.close()
  assertLowRank(given, [...changed.keys()], request.baseModel)
  const whole = toOneForm(given.changes, modules)
  checkAdapterValues(whole)
  const files = encodeAdapter(whole, { baseModelName: request.baseModel })
  for (const [name, path] of Object.entries(request.targets)) {
    await writeFile(path, files.get(name) ?? new Uint8Array(0))
  }
  return {
    rank: whole.config.rank,
    alpha: whole.config.alpha,
    addedModules: modules.length - given.changes.size,
    namedBaseModel: given.settings.namedBaseModel,
    notes: [...given.notes, ...notes],
  }
}

/** @throws {WeightsError} `unsupported_adapter` for what no LoRA of projections can say, with the command that merges it */
function assertLowRank({ settings, changes }: GivenAdapter, changed: readonly string[], baseModel: string): void {
  const [tensor] = changed
  const outside = [...changes.keys()].find((path) => path === 'model.embed_tokens' || path === 'lm_head')
  const what = settings.isDora
    ? "is a DoRA (use_dora), which scales every row of the base model's weights"
    : tensor !== undefined
      ? `changes the whole tensor "${tensor}" (modules_to_save)`
      : outside === undefined
        ? null
        : `adapts "${outside}"`
  if (what === null) return
  throw new WeightsError(
    'unsupported_adapter',
    `adapter ${what}, expected a LoRA of projections, which jobs can go on from`,
    {
      hint: `merge it exactly into a base model of its own, which is served, exported and trained from with a new LoRA: trainyard base-models add <folder of the adapter> --base-model ${baseModel} --name <name>`,
    },
  )
}

/** The same changes with one rank and one scale, on every projection. */
function toOneForm(changes: ReadonlyMap<string, LowRankChange>, modules: readonly AdapterModule[]): AdapterWeights {
  const all = [...changes.values()]
  const rank = maxOf(all.map((change) => change.rank))
  const scale = commonest(all.map((change) => change.scale).filter((each) => each !== 0)) ?? 1
  // 8 / 3 · 3 is 8 again
  const alpha = Number((scale * rank).toPrecision(15))
  const fresh = createAdapter(modules, { rank, alpha, seed: 'import' })
  for (const [path, change] of changes) {
    const config = { rank: change.rank, alpha, targets: [] }
    checkAdapterFits({ config, a: new Map([[path, change.a]]), b: new Map([[path, change.b]]) }, modules)
    // rows of A beyond the module's own rank stay fresh: their columns of B are zero
    fresh.a.get(path)?.set(change.a)
    const b = fresh.b.get(path)
    if (b !== undefined) widen(change, scale, b)
  }
  return fresh
}

/** B [out, r] into zeros [out, R], with the module's own scale in it. */
function widen({ rank, scale: own, b }: LowRankChange, scale: number, wide: Float32Array): void {
  const rows = b.length / rank
  const wideRank = wide.length / rows
  const factor = own / scale
  for (let row = 0; row < rows; row++) {
    for (let r = 0; r < rank; r++) wide[row * wideRank + r] = (b[row * rank + r] as number) * factor
  }
}

function commonest(values: readonly number[]): number | null {
  const counts = new Map<number, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  const [first] = [...counts].sort(([, one], [, other]) => other - one)
  return first?.[0] ?? null
}
