/**
 * Imports point one way only. The table is `layers.json`; its text is house style section 3.1 plus the layers of the two
 * child processes (`engine-host`, `worker`) and their parent side (`processes`).
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { layerOf, readSourceTree } from './source-tree.js'

interface Rules {
  readonly layers: Readonly<Record<string, readonly string[]>>
  readonly exceptions: readonly {
    readonly from: string
    readonly to: string
    readonly only?: boolean
    readonly reason: string
  }[]
  readonly owners: Readonly<Record<string, readonly string[]>>
}

const rules = JSON.parse(readFileSync(path.join(import.meta.dirname, 'layers.json'), 'utf8')) as Rules
const files = readSourceTree()

describe('imports', () => {
  test('the tree was read', () => {
    expect(files.length).toBeGreaterThan(20)
    expect(files.some((file) => file.imports.some((entry) => entry.target?.startsWith('src/')))).toBe(true)
  })

  test('every layer stands in the table', () => {
    const unknown = [...new Set(files.map((file) => layerOf(file.path)))].filter(
      (layer) => rules.layers[layer] === undefined,
    )
    expect(unknown).toEqual([])
  })

  test('the table has no cycle', () => {
    const state = new Map<string, 'open' | 'done'>()
    const visit = (layer: string, trail: readonly string[]): void => {
      if (state.get(layer) === 'done') return
      expect(state.get(layer), `cycle: ${[...trail, layer].join(' → ')}`).not.toBe('open')
      state.set(layer, 'open')
      for (const below of rules.layers[layer] ?? []) visit(below, [...trail, layer])
      state.set(layer, 'done')
    }
    for (const layer of Object.keys(rules.layers)) visit(layer, [])
  })

  test('a layer imports only what the table allows', () => {
    const violations: string[] = []
    for (const file of files) {
      const layer = layerOf(file.path)
      for (const { target, specifier } of file.imports) {
        if (target === null) continue
        const targetLayer = layerOf(target)
        if (targetLayer === layer) continue
        const named = rules.exceptions.filter((entry) => file.path.startsWith(entry.from))
        if (named.some((entry) => target === entry.to)) continue
        const isRestricted = named.some((entry) => entry.only === true && layerOf(entry.to) === targetLayer)
        if (isRestricted || !(rules.layers[layer] ?? []).includes(targetLayer)) {
          violations.push(
            `${file.path} imports ${specifier}: layer "${layer}" may import only ${(rules.layers[layer] ?? []).join(', ')}`,
          )
        }
      }
    }
    expect(violations).toEqual([])
  })

  test('files of one layer do not import each other in a circle', () => {
    const graph = new Map(
      files.map((file) => [
        file.path,
        file.imports.flatMap((entry) => (entry.isDynamic || entry.target === null ? [] : [entry.target])),
      ]),
    )
    const cycles: string[] = []
    const done = new Set<string>()
    const visit = (file: string, trail: readonly string[]): void => {
      if (done.has(file)) return
      const start = trail.indexOf(file)
      if (start >= 0) {
        cycles.push([...trail.slice(start), file].join(' → '))
        return
      }
      for (const target of graph.get(file) ?? []) visit(target, [...trail, file])
      done.add(file)
    }
    for (const file of graph.keys()) visit(file, [])
    expect(cycles).toEqual([])
  })

  test('a third-party package has one owner', () => {
    const violations: string[] = []
    for (const file of files) {
      for (const { specifier } of file.imports) {
        const name = Object.keys(rules.owners).find((owned) => specifier === owned || specifier.startsWith(`${owned}/`))
        if (name === undefined) continue
        if (!(rules.owners[name] ?? []).some((owner) => file.path.startsWith(owner))) {
          violations.push(
            `${file.path} imports ${specifier}, which belongs to ${(rules.owners[name] ?? []).join(', ')}`,
          )
        }
      }
    }
    expect(violations).toEqual([])
  })

  test('no command but serve and system-check can reach the server or the numeric core', () => {
    const byPath = new Map(files.map((file) => [file.path, file]))
    const allowed = new Set(['commands/serve.ts', 'commands/system-check.ts'])
    const reached: string[] = []
    for (const start of files.filter((file) => file.path.startsWith('commands/') && !allowed.has(file.path))) {
      const seen = new Set<string>()
      const stack = [start.path]
      for (let current = stack.pop(); current !== undefined; current = stack.pop()) {
        if (seen.has(current) || allowed.has(current)) continue
        seen.add(current)
        if (current === 'src/service.ts' || current === 'src/runtime/ort-runtime.ts')
          reached.push(`${start.path} reaches ${current}`)
        for (const { target } of byPath.get(current)?.imports ?? []) if (target !== null) stack.push(target)
      }
    }
    expect(reached).toEqual([])
  })
})
