/**
 * Adapters in the layout of the step graph: the projections of each joined one side by side along the rank axis.
 *
 * z = x · Aᵀ (A is [W, in], rows: per projection of the site, R ranks), then y = base + z · B ([W, out], scaled;
 * columns of qkv in the grouped order of the prepared weights). Adapters of different rank or with fewer targets are simply
 * narrower. What does not divide into pieces of one size (`ADAPTER_PIECE`) ends in rows of zeros.
 */

import { maxOf } from '#base/util/lists.js'
import type { JoinedProjection } from '#model/architectures/decoder.js'
import {
  type DecoderConfig,
  type Projection,
  projectionPath,
  projectionShape,
} from '#model/architectures/decoder-config.js'
import { groupedRow } from '#model/architectures/prepared-tensors.js'
import { ADAPTER_PIECE } from '#model/architectures/step-graph.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { rankOf, scaleOf } from '#model/weights/adapter-config.js'

/** The places adapters attach to, and the projections joined there. */
export const ADAPTER_SITES: Readonly<Record<JoinedProjection, readonly Projection[]>> = {
  qkv: ['q_proj', 'k_proj', 'v_proj'],
  o: ['o_proj'],
  gate_up: ['gate_proj', 'up_proj'],
  down: ['down_proj'],
}

export const JOINED_PROJECTIONS = ['qkv', 'o', 'gate_up', 'down'] as const

/** A and B of one site of one layer. */
export interface SiteWeights {
  /** [W, in] */
  readonly a: Float32Array
  /** [W, out], scaled */
  readonly b: Float32Array
  /** W */
  readonly width: number
  readonly inputSize: number
  readonly outputSize: number
}

/** A and B of a layer's sites. */
type LayerWeights = Readonly<Record<JoinedProjection, SiteWeights>>

/** One adapter for the step graph. */
export interface AdapterLayout {
  /** Per layer and site. */
  readonly layers: readonly LayerWeights[]
  /** W of each site, the same in all layers: a multiple of its `pieceCount`. */
  readonly widths: Readonly<Record<JoinedProjection, number>>
  readonly sizeBytes: number
}

/** Lays out one adapter. */
export function layoutAdapter(config: DecoderConfig, weights: AdapterWeights): AdapterLayout {
  return layoutOf(Array.from({ length: config.layerCount }, (_, layer) => layoutLayer(config, weights, layer)))
}

/**
 * The same, a layer at a time.
 *
 * @param pause awaited after each layer: running choices have their steps meanwhile
 */
export async function layoutAdapterInPieces(
  config: DecoderConfig,
  weights: AdapterWeights,
  pause: () => Promise<void>,
): Promise<AdapterLayout> {
  const layers: LayerWeights[] = []
  for (let layer = 0; layer < config.layerCount; layer++) {
    layers.push(layoutLayer(config, weights, layer))
    await pause()
  }
  return layoutOf(layers)
}

function layoutLayer(config: DecoderConfig, weights: AdapterWeights, layer: number): LayerWeights {
  const build = (site: JoinedProjection): SiteWeights => {
    // A site keeps its full width when only some of its projections are adapted, so that layers agree.
    const projections = ADAPTER_SITES[site].filter((projection) => isTargeted(config, weights, projection))
    const inputSize = inputSizeOf(config, site)
    const outputSize = outputSizeOf(config, site)
    const ranks = projections.map((projection) => widestRank(config, weights, projection))
    const width = wholePieces(ranks.reduce((sum, rank) => sum + rank, 0))
    const a = new Float32Array(width * inputSize)
    const b = new Float32Array(width * outputSize)
    let first = 0
    projections.forEach((projection, index) => {
      const from = first
      first += ranks[index] as number
      const path = projectionPath(layer, projection)
      const sourceA = weights.a.get(path)
      const sourceB = weights.b.get(path)
      if (sourceA === undefined || sourceB === undefined) return
      // narrower than in other layers: rows of zeros follow
      const rank = rankOf(weights.config, path)
      const scale = scaleOf(weights.config, path)
      a.set(sourceA, from * inputSize)
      const [rows] = projectionShape(config, projection)
      for (let row = 0; row < rows; row++) {
        const column = siteRow(config, projection, row)
        for (let r = 0; r < rank; r++) {
          b[(from + r) * outputSize + column] = (sourceB[row * rank + r] as number) * scale
        }
      }
    })
    return { a, b, width, inputSize, outputSize }
  }
  return { qkv: build('qkv'), o: build('o'), gate_up: build('gate_up'), down: build('down') }
}

function layoutOf(layers: readonly LayerWeights[]): AdapterLayout {
  const widthOf = (site: JoinedProjection): number => layers[0]?.[site].width ?? 0
  const widths = { qkv: widthOf('qkv'), o: widthOf('o'), gate_up: widthOf('gate_up'), down: widthOf('down') }
  const sizeOf = ({ a, b }: SiteWeights): number => a.byteLength + b.byteLength
  const sizes = layers.flatMap((sites) => JOINED_PROJECTIONS.map((site) => sizeOf(sites[site])))
  return { layers, widths, sizeBytes: sizes.reduce((sum, size) => sum + size, 0) }
}

export function siteOf(layout: AdapterLayout, layer: number, site: JoinedProjection): SiteWeights {
  const sites = layout.layers[layer]
  if (sites === undefined) throw new Error(`adapter has no layer ${layer}`)
  return sites[site]
}

/** Pieces that a site's A of W rows is cut into: as few as may be. */
export function pieceCount(width: number): number {
  return Math.max(1, Math.ceil(width / ADAPTER_PIECE))
}

/** The width with as many rows of zeros as make its pieces one size: 24 → 24 (two of 12), 21 → 22. */
function wholePieces(width: number): number {
  const pieces = pieceCount(width)
  return pieces * Math.ceil(width / pieces)
}

/** The largest rank of a projection's adapters in any layer. */
function widestRank(config: DecoderConfig, { config: form, a }: AdapterWeights, projection: Projection): number {
  const paths = Array.from({ length: config.layerCount }, (_, layer) => projectionPath(layer, projection))
  return maxOf(
    paths.filter((path) => a.has(path)).map((path) => rankOf(form, path)),
    0,
  )
}

function isTargeted(config: DecoderConfig, weights: AdapterWeights, projection: Projection): boolean {
  for (let layer = 0; layer < config.layerCount; layer++) {
    if (weights.a.has(projectionPath(layer, projection))) return true
  }
  return false
}

/** Where a projection's output row lies in its site's joined output. */
function siteRow(config: DecoderConfig, projection: Projection, row: number): number {
  const { headCount, kvHeadCount, headSize, mlpSize } = config
  switch (projection) {
    case 'q_proj':
      return groupedRow(config, row)
    case 'k_proj':
      return groupedRow(config, headCount * headSize + row)
    case 'v_proj':
      return groupedRow(config, (headCount + kvHeadCount) * headSize + row)
    case 'up_proj':
      return mlpSize + row
    case 'gate_proj':
    case 'o_proj':
    case 'down_proj':
      return row
  }
}

/** Size of a site's input. */
export function inputSizeOf(config: DecoderConfig, site: JoinedProjection): number {
  const [first] = ADAPTER_SITES[site]
  return first === undefined ? 0 : projectionShape(config, first)[1]
}

/** Size of a site's joined output. */
export function outputSizeOf(config: DecoderConfig, site: JoinedProjection): number {
  return ADAPTER_SITES[site].reduce((sum, projection) => sum + projectionShape(config, projection)[0], 0)
}
