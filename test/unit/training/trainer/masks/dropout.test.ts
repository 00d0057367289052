/** Random numbers of dropout's masks, and what the masks leave out. */
import { expect, it } from 'vitest'
import { createDropout } from '#training/trainer/masks/dropout.js'
import { SMALL_CONFIG } from '../../../../support/model/training-fixture.js'

const FORM = { rank: 2, alpha: 4, targets: ['q_proj', 'v_proj', 'down_proj'] }
const create = (share: number, seed: string) => createDropout(SMALL_CONFIG, FORM, { share, seed })
const valuesOf = (feeds: ReturnType<ReturnType<typeof create>['feeds']>, name: string) =>
  feeds[name]?.data as Float32Array

it('follow from seed, step and part, and from nothing else', () => {
  const at = { step: 4, part: 1, tokens: 6 }
  const feeds = create(0.5, 'a').feeds(at)
  expect(create(0.1, 'a').feeds(at)).toEqual(feeds)
  const others = [
    create(0.5, 'b').feeds(at),
    create(0.5, 'a').feeds({ ...at, step: 5 }),
    create(0.5, 'a').feeds({ ...at, part: 0 }),
  ]
  for (const other of others) expect(other).not.toEqual(feeds)
})

it('are made for inputs of adapted projections, one of each token and one of each input', () => {
  const feeds = create(0.5, 'a').feeds({ step: 0, part: 0, tokens: 6 })
  const sites = Array.from({ length: SMALL_CONFIG.layerCount }, (_, layer) => [
    `dropout.${layer}.qkv`,
    `dropout.${layer}.down`,
  ]).flat()
  expect(Object.keys(feeds).sort()).toEqual(sites.flatMap((site) => [`${site}.columns`, `${site}.rows`]).sort())
  expect(valuesOf(feeds, 'dropout.0.qkv.rows').length).toBe(6)
  expect(valuesOf(feeds, 'dropout.0.down.columns').length).toBe(SMALL_CONFIG.mlpSize)
})

it('leave out the share, of tokens and inputs alike, pairs of them independently', () => {
  const share = 0.2
  const feeds = create(share, 'share').feeds({ step: 0, part: 0, tokens: 4000 })
  const [rows, columns] = [valuesOf(feeds, 'dropout.0.qkv.rows'), valuesOf(feeds, 'dropout.0.qkv.columns')]
  const isLeftOut = (u: number, v: number) => (u + v) % 1 < share
  const shareOf = (holds: (u: number) => boolean) => rows.reduce((sum, u) => sum + Number(holds(u)), 0) / rows.length
  const [first = 0, second = 0] = columns
  // 4000 draws: three standard deviations are 0.019 and 0.0093
  expect(Math.abs(shareOf((u) => isLeftOut(u, first)) - share)).toBeLessThan(0.019)
  const both = Array.from(rows, (u, i) => [u, rows[(i + 1) % rows.length] as number] as const)
  const pairs = both.filter(([u, w]) => isLeftOut(u, second) && isLeftOut(w, second)).length / both.length
  expect(Math.abs(pairs - share ** 2)).toBeLessThan(0.0093)
})
