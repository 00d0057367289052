import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { engineNodeReportSchema } from '#contract/processes/engine-node.js'
import { createKnownNodes } from '#plugins/engine-nodes/known-nodes.js'

const OWNER = { entity: 'local', project: null }
const PLACE = { address: null, isOperators: true }
const DIGEST = 'a'.repeat(64)
let told: string[] = []
const nodes = createKnownNodes({
  clock: systemClock,
  leaseMs: 600_000,
  onChange: (baseModel, all) => told.push(`${baseModel}: ${all.map(({ id }) => id).join()}`),
})
afterEach(() => nodes.stop())

const report = (id: string, baseModel: string) =>
  engineNodeReportSchema.parse({
    ...{ id, name: id, url: 'http://far:1', token: 't'.repeat(32), engine: 'onnx', versions: {}, device: 'cpu' },
    base_model: { name: baseModel, digest: DIGEST },
    ...{ context_length: 64, slots: 1, running: 0, waiting: 0, adapters: [] },
  })

describe('engine nodes', () => {
  it('may fetch an adapter whose request waited for the first of them', () => {
    const adapter = { digest: DIGEST, checkpoint: 'c', files: {} }
    nodes.offer({ adapter, owner: OWNER })
    expect(nodes.offered(DIGEST, OWNER)).toEqual(adapter)
  })

  it('at the same address with another base model leave the one of before', () => {
    nodes.note({ report: report('node-one', 'first'), owner: OWNER, place: PLACE })
    told = []
    nodes.note({ report: report('node-two', 'second'), owner: OWNER, place: PLACE })
    expect(told.toSorted()).toEqual(['first: ', 'second: node-two'])
  })
})
