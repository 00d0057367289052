/**
 * LoRA dropout of a job: the random numbers that masks are made of (`numerics/nn/dropout.ts`), by the job's seed and where in the job
 * they are needed, so that a job that goes on elsewhere draws the same ones.
 *
 * Projections with a joined input (q, k and v; gate and up) share its mask, where PEFT draws one for each. Only gradients are computed
 * so: scores, validation and answers leave nothing out.
 */
import { createRng } from '#base/util/rng.js'
import { type DecoderConfig, projectionPath, projectionShape } from '#model/architectures/decoder-config.js'
import { dropoutNames, JOINED } from '#model/architectures/train-kernels.js'
import { type AdapterForm, isAdapted } from '#model/weights/adapter-config.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'

export interface Dropout {
  /** Of inputs of adapters that are left out, above 0 and below 1. */
  readonly share: number
  /**
   * Inputs of a train graph.
   *
   * @param at.step updates made with the optimizer's moments before this one
   * @param at.part micro-batch of the step, from 0
   * @param at.tokens of the micro-batch, padding included: B*T
   */
  feeds(at: { readonly step: number; readonly part: number; readonly tokens: number }): Record<string, HostTensor>
}

/** Inputs that have a mask: their sizes by the name of their site. */
export function dropoutSites(
  config: DecoderConfig,
  form: AdapterForm,
): readonly {
  readonly layer: number
  readonly joined: keyof typeof JOINED
  readonly paths: readonly string[]
  readonly inputSize: number
}[] {
  return Array.from({ length: config.layerCount }, (_, layer) =>
    (Object.keys(JOINED) as (keyof typeof JOINED)[]).flatMap((joined) => {
      const adapted = JOINED[joined].filter((projection) => isAdapted(form, projectionPath(layer, projection)))
      const [first] = adapted
      if (first === undefined) return []
      const paths = adapted.map((projection) => projectionPath(layer, projection))
      return [{ layer, joined, paths, inputSize: projectionShape(config, first)[1] }]
    }),
  ).flat()
}

/** 2^-23: sums of two such fractions are exact in float32. */
const STEP = 2 ** -23

export function createDropout(
  config: DecoderConfig,
  form: AdapterForm,
  { share, seed }: { readonly share: number; readonly seed: string | number },
): Dropout {
  const sites = dropoutSites(config, form)
  return {
    share,
    feeds: ({ step, part, tokens }) => {
      const rng = createRng(`dropout ${seed} ${step} ${part}`)
      const draw = (count: number): HostTensor =>
        float32Tensor(
          Float32Array.from({ length: count }, () => Math.floor(rng.uniform() / STEP) * STEP),
          [count],
        )
      return Object.fromEntries(
        sites.flatMap(({ layer, joined, inputSize }) => {
          const names = dropoutNames(layer, joined)
          return [
            [names.rows, draw(tokens)],
            [names.columns, draw(inputSize)],
          ]
        }),
      )
    },
  }
}
