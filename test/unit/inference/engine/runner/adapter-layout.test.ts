/**
 * An adapter laid out in pieces is the one laid out at once, and others have their turn between its layers.
 */
import { expect, test } from 'vitest'
import { layoutAdapter, layoutAdapterInPieces } from '#inference/engine/runner/adapter-layout.js'
import { type DecoderGolden, formulaAdapter, readGolden } from '../../../../support/model/decoder-goldens.js'

test('layers are laid out one by one', async () => {
  const { config } = readGolden<DecoderGolden>('decoder-qwen2.json')
  const weights = formulaAdapter(config, 3, 6)
  let pauses = 0
  const layout = await layoutAdapterInPieces(config, weights, async () => {
    pauses++
  })
  expect(pauses).toBe(config.layerCount)
  expect(layout).toEqual(layoutAdapter(config, weights))
  expect(layout.sizeBytes).toBeGreaterThan(0)
})
