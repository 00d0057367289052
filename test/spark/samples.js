/**
 * Prints random rows of every ability, for reading: `node test/spark/samples.js [count=5] [ability …]`.
 */
import { createRng } from '#base/util/rng.js'
import { ABILITIES } from './abilities/index.js'

const count = Number(process.argv[2] ?? 5)
const names = process.argv.slice(3)
for (const ability of ABILITIES.filter(({ name }) => names.length === 0 || names.includes(name))) {
  console.log(`\n== ${ability.name}: ${ability.summary}`)
  const rng = createRng(`samples ${ability.name}`)
  for (let index = 0; index < count; index++) {
    const row = ability.generate(rng, 'train')
    console.log(`- (${row.task}) ${(row.tools ?? []).map((tool) => tool.function.name).join(' ')}`)
    for (const { role, content, tool_calls: calls } of row.messages) {
      console.log(
        `    ${role}: ${content}${calls === undefined ? '' : JSON.stringify(calls.map((call) => call.function))}`,
      )
    }
  }
}
