/**
 * Folders that stand beside each other, at every depth, do not import each other in a circle; types count. What the tables of
 * `layers.json` let through by name (`exceptions`) does not count.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { readSourceTree, type SourceFile } from './source-tree.js'

interface Rules {
  readonly exceptions: readonly { readonly from: readonly string[]; readonly to: readonly string[] }[]
}

/** Folders that a folder imports from, and one import that shows it. */
type Graph = Map<string, Map<string, string>>

const rules = JSON.parse(readFileSync(path.join(import.meta.dirname, 'layers.json'), 'utf8')) as Rules

function isException(file: string, target: string): boolean {
  return rules.exceptions.some(
    ({ from, to }) => from.some((start) => file.startsWith(start)) && to.some((start) => target.startsWith(start)),
  )
}

/** Where two paths part, if both go on into a folder there. */
function siblings(file: string, target: string): readonly [string, string] | null {
  const [a, b] = [path.posix.dirname(file).split('/'), path.posix.dirname(target).split('/')]
  const at = a.findIndex((name, depth) => name !== b[depth])
  if (at < 0 || at >= b.length) return null
  return [a.slice(0, at + 1).join('/'), b.slice(0, at + 1).join('/')]
}

function graphOf(files: readonly SourceFile[]): Graph {
  const graph: Graph = new Map()
  for (const { path: file, imports } of files) {
    for (const { target } of imports) {
      const pair = target === null || isException(file, target) ? null : siblings(file, target)
      if (pair === null) continue
      const [from, to] = pair
      const targets = graph.get(from) ?? new Map<string, string>()
      graph.set(from, targets)
      if (!targets.has(to)) targets.set(to, `${file} imports ${target}`)
    }
  }
  return graph
}

/** Folders that can be reached from one over its siblings. */
function reachedFrom(graph: Graph, folder: string): ReadonlySet<string> {
  const seen = new Set<string>()
  const stack = [folder]
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    for (const to of graph.get(next)?.keys() ?? []) {
      if (seen.has(to)) continue
      seen.add(to)
      stack.push(to)
    }
  }
  return seen
}

/** Imports that lie on a circle, with the folders at their ends. */
function circular(graph: Graph): readonly { readonly from: string; readonly to: string; readonly example: string }[] {
  const found: { from: string; to: string; example: string }[] = []
  for (const [from, targets] of graph) {
    for (const [to, example] of targets) if (reachedFrom(graph, to).has(from)) found.push({ from, to, example })
  }
  return found
}

describe('folders beside each other', () => {
  test('do not import each other in a circle', () => {
    const found = circular(graphOf(readSourceTree()))
    expect(found.map(({ from, to, example }) => `${from} → ${to}: ${example}`)).toEqual([])
  })

  test('are found where there is a circle, whatever is between', () => {
    const file = (name: string, target: string): SourceFile => ({
      path: name,
      text: '',
      code: '',
      lineCount: 0,
      imports: [{ specifier: '', isDynamic: false, isTypeOnly: true, target }],
    })
    const circle = [
      file('src/x/a/deep/one.ts', 'src/x/b/two.ts'),
      file('src/x/b/two.ts', 'src/x/c/three.ts'),
      file('src/x/c/three.ts', 'src/x/a/four.ts'),
    ]
    expect(circular(graphOf(circle)).map(({ from, to }) => `${from} → ${to}`)).toEqual([
      'src/x/a → src/x/b',
      'src/x/b → src/x/c',
      'src/x/c → src/x/a',
    ])
    // a file beside folders is above all of them, and below none
    expect(circular(graphOf([...circle.slice(0, 2), file('src/x/c/three.ts', 'src/x/five.ts')]))).toEqual([])
  })
})
