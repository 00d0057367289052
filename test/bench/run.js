/**
 * `npm run bench`: runs every bench alone, one after the other, and prints one table. Ratios compare within one run.
 *
 *     npm run bench              all
 *     npm run bench -- train     those whose file name contains the word
 *     npm run bench -- serve --against auto --rounds 2     options go to the benches
 *
 * A bench file exports `title` and an async `run(options)` that returns rows `{ name, value, unit, ratio?, target? }`, or a string
 * that says why it cannot run here; a long one hands its rows to `print`, the second argument, as they come.
 */
import { readdirSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const wanted = []
const options = {}
for (const words = process.argv.slice(2); words.length > 0; ) {
  const word = words.shift()
  if (word.startsWith('--')) options[word.slice(2)] = words.shift()
  else wanted.push(word)
}
const files = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.bench.js'))
  .filter((name) => wanted.length === 0 || wanted.some((word) => name.includes(word)))
  .sort()
console.log(`${os.cpus().length} cores, ${os.cpus()[0]?.model.trim()}, Node ${process.versions.node}`)
for (const name of files) {
  const bench = await import(path.join(import.meta.dirname, name))
  console.log(`\n${bench.title} (${name})`)
  const rows = await bench.run(options, print)
  if (typeof rows === 'string') {
    console.log(`  not run: ${rows}`)
    continue
  }
  rows.forEach(print)
}

function print(row) {
  const value = Number.isInteger(row.value) ? String(row.value) : row.value.toPrecision(4)
  const ratio = row.ratio === undefined ? '' : `   ratio ${row.ratio.toFixed(2)}`
  const target = row.target === undefined ? '' : `   (wanted ${row.target})`
  console.log(`  ${row.name.padEnd(58)} ${value.padStart(10)} ${row.unit}${ratio}${target}`)
}
