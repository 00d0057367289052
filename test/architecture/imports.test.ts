/**
 * Imports point one way only. The tables are in `layers.json`: `rooms` says which room (or folder of a room) another room may
 * import, `inside` orders the folders of a room, `exceptions` names the doors with their reasons: at most nine.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { innerOf, readSourceTree, roomOf } from './source-tree.js'

type Table = Readonly<Record<string, readonly string[]>>

interface Rules {
  readonly rooms: Table
  readonly inside: Readonly<Record<string, Table>>
  readonly exceptions: readonly {
    readonly from: readonly string[]
    readonly to: readonly string[]
    readonly reason: string
  }[]
  readonly owners: Table
}

const rules = JSON.parse(readFileSync(path.join(import.meta.dirname, 'layers.json'), 'utf8')) as Rules
const files = readSourceTree()

/** Kysely's ways to say SQL; the word before the template is `sql` or `sql<type>`. */
const SQL =
  /\.(?:selectFrom|insertInto|replaceInto|updateTable|deleteFrom|mergeInto)\(|\bsql(?:<[^>`]*>)?`|\bsql\.raw\(/

const startsWithOne = (name: string, prefixes: readonly string[]): boolean =>
  prefixes.some((prefix) => name.startsWith(prefix))

function expectNoCycle(table: Table): void {
  const state = new Map<string, 'open' | 'done'>()
  const visit = (name: string, trail: readonly string[]): void => {
    if (state.get(name) === 'done') return
    expect(state.get(name), `cycle: ${[...trail, name].join(' → ')}`).not.toBe('open')
    state.set(name, 'open')
    for (const below of table[name] ?? []) visit(below.split('/')[0] ?? below, [...trail, name])
    state.set(name, 'done')
  }
  for (const name of Object.keys(table)) visit(name, [])
}

describe('imports', () => {
  test('the tree was read', () => {
    expect(files.length).toBeGreaterThan(20)
    expect(files.some((file) => file.imports.some((entry) => entry.target?.startsWith('src/')))).toBe(true)
  })

  test('every room stands in the table, and every folder of an ordered room', () => {
    const unknown = files.flatMap(({ path: file }) => {
      const room = roomOf(file)
      if (rules.rooms[room] === undefined) return [room]
      const inside = rules.inside[room]
      return inside === undefined || inside[innerOf(file)] !== undefined ? [] : [`${room}/${innerOf(file)}`]
    })
    expect([...new Set(unknown)]).toEqual([])
  })

  test('the tables have no cycle', () => {
    expectNoCycle(rules.rooms)
    for (const table of Object.values(rules.inside)) expectNoCycle(table)
  })

  test('a file imports only what the tables allow', () => {
    const violations: string[] = []
    for (const file of files) {
      const room = roomOf(file.path)
      for (const { target, specifier } of file.imports) {
        if (target === null) continue
        if (rules.exceptions.some(({ from, to }) => startsWithOne(file.path, from) && startsWithOne(target, to)))
          continue
        const isSameRoom = roomOf(target) === room
        const table = isSameRoom ? rules.inside[room] : rules.rooms
        const [from, to] = isSameRoom ? [innerOf(file.path), innerOf(target)] : [room, roomOf(target)]
        if (table === undefined || from === to) continue
        if ((table[from] ?? []).some((allowed) => allowed === to || target.startsWith(`src/${allowed}/`))) continue
        violations.push(
          `${file.path} imports ${specifier}: "${from}" may import only ${(table[from] ?? []).join(', ')}`,
        )
      }
    }
    expect(violations).toEqual([])
  })

  test('of the contract the page has types, and plain words: it loads no schemas', () => {
    const loaded = files
      .filter((file) => roomOf(file.path) === 'browser')
      .flatMap((file) =>
        file.imports
          .filter(
            ({ target, isTypeOnly }) =>
              target !== null && roomOf(target) !== 'browser' && !isTypeOnly && !target.endsWith('-words.ts'),
          )
          .map(({ specifier }) => `${file.path} imports ${specifier}`),
      )
    expect(loaded).toEqual([])
  })

  test('exceptions are few, and every part of each is still needed', () => {
    const stale = rules.exceptions.flatMap(({ from, to }) => {
      const isUsed = (source: readonly string[], target: readonly string[]): boolean =>
        files.some(
          (file) =>
            startsWithOne(file.path, source) &&
            file.imports.some((entry) => entry.target !== null && startsWithOne(entry.target, target)),
        )
      return [...from.filter((source) => !isUsed([source], to)), ...to.filter((target) => !isUsed(from, [target]))]
    })
    expect(stale).toEqual([])
    expect(rules.exceptions.length).toBeLessThanOrEqual(9)
  })

  test('files do not import each other in a circle', () => {
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

  test('every owned package is imported by each of its owners', () => {
    const idle = Object.entries(rules.owners).flatMap(([name, owners]) =>
      owners
        .filter(
          (owner) =>
            !files.some(
              (file) =>
                file.path.startsWith(owner) &&
                file.imports.some(({ specifier }) => specifier === name || specifier.startsWith(`${name}/`)),
            ),
        )
        .map((owner) => `${name}: ${owner}`),
    )
    expect(idle).toEqual([])
  })

  test('SQL is written only in storage', () => {
    const outside = files
      .filter((file) => !/^src\/(service|plugins\/[^/]+)\/(storage|migrations)\//.test(file.path))
      .flatMap((file) => (SQL.exec(file.code) ?? []).map((found) => `${file.path}: ${found}`))
    expect(outside).toEqual([])
    expect(files.some((file) => file.path.startsWith('src/service/storage/') && SQL.test(file.code))).toBe(true)
  })

  test('transactions begin in one place', () => {
    // the first is how the second does it where several servers share the database
    const homes = ['src/plugins/postgres/storage/shared-transactions.ts', 'src/service/storage/in-transaction.ts']
    const found = files.filter((file) => /\.(transaction|startTransaction)\(\)/.test(file.code)).map(({ path }) => path)
    expect(found.sort()).toEqual(homes)
    const users = files.filter((file) =>
      file.imports.some(({ specifier }) => specifier.includes('shared-transactions')),
    )
    expect(users.map(({ path }) => path)).toEqual(['src/plugins/postgres/storage/open-postgres.ts'])
  })

  test('processes are started in one place, and only what a user runs by us inherits everything', () => {
    const home = 'src/base/processes/start-process.ts'
    const starting = files.filter(({ imports }) =>
      imports.some(({ specifier, isTypeOnly }) => /^(node:)?(child_process|cluster)$/.test(specifier) && !isTypeOnly),
    )
    expect(starting.map(({ path: file }) => file)).toEqual([home])
    const unfiltered = files.filter(({ path: file, code }) => file !== home && /needs: 'everything'/.test(code))
    expect(unfiltered.map(({ path: file }) => file).sort()).toEqual([
      'src/cli/local/user-program.ts',
      'src/plugins/demo/server-process.ts',
      // what it was given was chosen for it, and it starts vLLM alone
      'src/plugins/engine-nodes/node/group-leader.ts',
      // what is seen was chosen for it: PATH, HOME, LANG and what was named
      'src/plugins/environments/child.ts',
      // pip and uv, which the user runs by us with --install
      'src/plugins/environments/python-packages.ts',
      // as the first
      'src/plugins/environments/sources/agent.ts',
    ])
  })

  test('the scheduler and the runner of an engine know each other by the interface between them alone', () => {
    const engine = 'src/inference/engine'
    const [above, below] = [[`${engine}/scheduling/`, `${engine}/sampling/`], [`${engine}/runner/`]]
    const crossings = files.flatMap(({ path: file, imports }) => {
      const foreign = startsWithOne(file, above) ? below : startsWithOne(file, below) ? above : []
      return imports.flatMap(({ target }) =>
        target !== null && startsWithOne(target, foreign) ? [`${file}: ${target}`] : [],
      )
    })
    expect(crossings).toEqual([])
    expect(files.some(({ path: file }) => startsWithOne(file, below))).toBe(true)
  })

  test('no command but serve, worker and system-check can reach the server or the numeric core', () => {
    const reached = reachedFromCommands({ isTypeCounted: true })
    expect(reached.has('src/service/create-service.ts')).toBe(false)
    expect(reached.has('src/numerics/runtime/ort-runtime.ts')).toBe(false)
  })

  test('no command loads the schema library: it would cost every command a third of a second', () => {
    const byPath = new Map(files.map((file) => [file.path, file]))
    const loading = [...reachedFromCommands({ isTypeCounted: false })].filter((path) =>
      byPath.get(path)?.imports.some(({ specifier, isTypeOnly }) => specifier === 'zod' && !isTypeOnly),
    )
    expect(loading).toEqual([])
  })
})

/** Files that the commands load, but for those that run for hours or look at the machine. */
function reachedFromCommands(options: { readonly isTypeCounted: boolean }): ReadonlySet<string> {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const allowed = new Set(['commands/serve.ts', 'commands/worker.ts', 'commands/system-check.ts'])
  const seen = new Set<string>()
  const stack = files.map((file) => file.path).filter((path) => path.startsWith('commands/') && !allowed.has(path))
  for (let current = stack.pop(); current !== undefined; current = stack.pop()) {
    if (seen.has(current) || allowed.has(current)) continue
    seen.add(current)
    for (const { target, isTypeOnly } of byPath.get(current)?.imports ?? []) {
      // of what a plugin has, commands ask for its tables
      if (/^src\/plugins\/[^/]+\/plugin\.ts$/.test(current) && target?.includes('/storage/') !== true) continue
      if (target !== null && (options.isTypeCounted || !isTypeOnly)) stack.push(target)
    }
  }
  return seen
}
