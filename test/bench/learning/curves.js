/**
 * `curves.json`: one entry per program, model, task, loss, rate and seed.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const PATH = join(import.meta.dirname, 'curves.json')
const keyOf = ({ program, model, task, loss, rate, seed }) => [model, task, loss, rate, program, seed].join(' ')

export async function readCurves() {
  return JSON.parse(await readFile(PATH, 'utf8').catch(() => '[]'))
}

/** Adds a curve, or replaces the one of the same run. */
export async function storeCurve(curve) {
  const others = (await readCurves()).filter((other) => keyOf(other) !== keyOf(curve))
  const all = [...others, { ...curve, curve: curve.curve.map((value) => Number(value.toFixed(4))) }]
  all.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  await writeFile(PATH, `[\n${all.map((entry) => `  ${JSON.stringify(entry)}`).join(',\n')}\n]\n`)
}
