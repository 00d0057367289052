/**
 * Keeps of the compiler's declarations those that the package's entry points lead to; the rest is two thirds of them, and nobody's: `node
 * src/declarations.js`, behind `tsc`.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../dist/src')
const ENTRIES = ['index', 'rl', 'plugin']
const NAMED = /(?:from|import\(|import)\s*['"]([.#][^'"]+)\.js['"]/g

/** @type {Set<string>} */
const kept = new Set()
const open = ENTRIES.map((name) => join(ROOT, `${name}.d.ts`))
for (let file = open.pop(); file !== undefined; file = open.pop()) {
  if (kept.has(file)) continue
  if (!existsSync(file)) {
    // the compiler writes again only what changed
    throw new Error(`the declarations of ${relative(ROOT, file)} are missing: remove dist, and build again`)
  }
  kept.add(file)
  for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(NAMED)) {
    open.push(name.startsWith('#') ? join(ROOT, `${name.slice(1)}.d.ts`) : `${resolve(dirname(file), name)}.d.ts`)
  }
}
for (const entry of readdirSync(ROOT, { recursive: true, encoding: 'utf8' })) {
  const file = join(ROOT, entry)
  if (entry.endsWith('.d.ts') && !kept.has(file)) rmSync(file)
}
