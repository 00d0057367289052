/** Which node a request goes to, and which requests a node may see. */
import { describe, expect, it } from 'vitest'
import { type EngineNode, maySee, orderNodes } from '#inference/remote/engine-node.js'

function node(id: string, more: Partial<EngineNode> = {}): EngineNode {
  return {
    id,
    name: id,
    url: `http://${id}`,
    token: 't',
    address: null,
    isOperators: true,
    engine: 'onnx',
    owner: { entity: 'local', project: null },
    contextLength: 512,
    slots: 4,
    waiting: 0,
    isLeaving: false,
    reports: 1,
    ...more,
  }
}

const nodes = ['a', 'b', 'c', 'd'].map((id) => node(id))
const idle = (_: EngineNode): number => 0
const first = (prompt: readonly number[], adapterDigest: string | null = null, all = nodes, waiting = idle) =>
  orderNodes(all, { promptTokenIds: prompt, adapterDigest }, waiting)[0]?.id

describe('the order of nodes', () => {
  it('is the same for requests that share adapter and beginning, and spreads the others', () => {
    const long = Array.from({ length: 256 }, (_, i) => i)
    const places = new Set(Array.from({ length: 20 }, (_, i) => first([...long, i])))
    expect(places.size).toBe(1)
    expect(new Set(Array.from({ length: 60 }, (_, i) => first([i]))).size).toBe(4)
    expect(new Set(Array.from({ length: 60 }, (_, i) => first(long, `adapter ${i}`))).size).toBe(4)
  })

  it('moves only the requests of a node that goes', () => {
    const prompts = Array.from({ length: 200 }, (_, i) => [i])
    const before = prompts.map((prompt) => first(prompt))
    const left = nodes.filter(({ id }) => id !== 'c')
    const after = prompts.map((prompt) => first(prompt, null, left))
    before.forEach((place, i) => {
      if (place !== 'c') expect(after[i]).toBe(place)
    })
    expect(after).not.toContain('c')
  })

  it('leaves a node where more than a quarter above the mean waits, and takes the one with least', () => {
    const prompt = Array.from({ length: 9 }, (_, i) => [i]).find((each) => first(each) === 'a') ?? []
    const at = (waiting: Readonly<Record<string, number>>) =>
      first(prompt, null, nodes, ({ id }: EngineNode) => waiting[id] ?? 0)
    expect(at({ a: 5, b: 4, c: 4, d: 4 })).toBe('a')
    expect(at({ a: 6, b: 4, c: 4, d: 4 })).not.toBe('a')
    expect(at({ a: 9, b: 1, c: 9, d: 9 })).toBe('b')
  })
})

it('a node sees requests of its own entity, and of its own project where it has one', () => {
  const whole = node('whole')
  const bound = node('bound', { owner: { entity: 'local', project: 'p' } })
  expect(maySee(whole, { entity: 'local', project: 'p' })).toBe(true)
  expect(maySee(whole, { entity: 'other', project: null })).toBe(false)
  expect(maySee(whole, undefined)).toBe(false)
  expect(maySee(bound, { entity: 'local', project: 'p' })).toBe(true)
  expect(maySee(bound, { entity: 'local', project: 'q' })).toBe(false)
  expect(maySee(bound, { entity: 'local', project: null })).toBe(false)
})
