/**
 * `curves.json`: one entry per program, model, task, number of examples shown before the first job, method, rate and seed.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const PATH = join(import.meta.dirname, 'curves.json')
/** Lists of an entry that are curves. */
export const CURVES = ['curve', 'trained', 'accuracy', 'margin', 'training']
const keyOf = ({ program, model, task, examples = 0, method, rate, seed }) =>
  [model, task, ...(examples > 0 ? [`examples-${examples}`] : []), method, rate, program, seed].join(' ')

export async function readCurves() {
  return JSON.parse(await readFile(PATH, 'utf8').catch(() => '[]'))
}

/** Adds a curve, or replaces the one of the same run. */
export async function storeCurve(curve) {
  const others = (await readCurves()).filter((other) => keyOf(other) !== keyOf(curve))
  const rounded = CURVES.filter((name) => curve[name] !== undefined).map((name) => [
    name,
    curve[name].map((value) => Number(value.toFixed(4))),
  ])
  const all = [...others, { ...curve, ...Object.fromEntries(rounded) }]
  all.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  await writeFile(PATH, `[\n${all.map((entry) => `  ${JSON.stringify(entry)}`).join(',\n')}\n]\n`)
}

if (process.argv[1] === import.meta.filename) {
  for (const file of process.argv.slice(2)) {
    const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.startsWith('{'))
    for (const line of lines) await storeCurve(JSON.parse(line))
    console.log(`${file}: ${lines.length} curves`)
  }
}
