/**
 * Structured outputs at full size: 1,000 random schemas are compiled and sampled, every finished answer is checked by ajv; 200 hostile
 * grammars are compiled. Needs the build.
 *
 *     node test/support/schemas/check-schemas.js          takes half an hour on two cores
 *     node test/support/schemas/check-schemas.js 100      a tenth of it
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { systemClock } from '../../../dist/src/base/util/clock.js'
import { createRng } from '../../../dist/src/base/util/rng.js'
import { compileGrammar } from '../../../dist/src/inference/grammar/grammar.js'
import { createTokenTable } from '../../../dist/src/inference/grammar/token-table.js'
import { sparkDirectory } from '../../../dist/src/model/built-in/spark.js'
import { loadTextModel } from '../../../dist/src/model/text/text-model.js'
import { closingTokens, hostileSpecs, randomSchema, walk } from './random-schemas.js'

const wanted = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 1000)

async function run() {
  const model = await loadTextModel(sparkDirectory())
  const table = createTokenTable(model.tokenizer, model.tokenizer.vocabularySize, model.eosTokenIds)
  const sampler = { ...model, closingIds: closingTokens(model) }
  const rng = createRng(2026n)
  const random = () => rng.uniform()
  const counts = { compiled: 0, refused: 0, answers: 0, unfinished: 0, invalid: 0 }
  const ajv = new Ajv2020({ strict: false })
  addFormats.default(ajv)
  for (let i = 0; i < wanted; i++) {
    const schema = randomSchema(random)
    const spec = { kind: 'json_schema', schema: JSON.stringify(schema), isWhitespaceFree: i % 2 === 0 }
    let grammar
    try {
      grammar = await compileGrammar(spec, table, { clock: systemClock })
    } catch (error) {
      counts.refused++
      if (!['unsupported_schema'].includes(error.code))
        console.log(`  ${error.code}: ${error.message.slice(0, 160)}\n    ${spec.schema.slice(0, 300)}`)
      continue
    }
    counts.compiled++
    const isValid = ajv.compile(schema)
    for (let answer = 0; answer < 3; answer++) {
      const mask = grammar.open()
      const text = walk(mask, sampler, random)
      mask.close()
      if (text === null) counts.unfinished++
      else {
        counts.answers++
        if (!isJson(text) || !isValid(JSON.parse(text))) {
          counts.invalid++
          console.log(
            `  not valid: ${text.slice(0, 300)}\n    ${spec.schema.slice(0, 600)}\n    ${ajv.errorsText(isValid.errors)}`,
          )
        }
      }
    }
    await grammar.dispose()
  }
  const hostile = { taken: 0, refused: 0, other: 0, slowestMs: 0 }
  for (const spec of hostileSpecs(random, Math.ceil(wanted / 5))) {
    const startedMs = performance.now()
    try {
      await (await compileGrammar(spec, table, { clock: systemClock })).dispose()
      hostile.taken++
    } catch (error) {
      if (error.category === 'invalid_request') hostile.refused++
      else {
        hostile.other++
        console.log(`  ${error.code}: ${error.message.slice(0, 200)}\n    ${JSON.stringify(spec).slice(0, 200)}`)
      }
    }
    hostile.slowestMs = Math.max(hostile.slowestMs, performance.now() - startedMs)
  }
  console.log(`${counts.compiled} of ${wanted} random schemas compiled, ${counts.refused} refused by name`)
  console.log(`${counts.answers} finished answers, ${counts.invalid} not valid, ${counts.unfinished} not finished`)
  console.log(
    `hostile: ${hostile.refused} refused, ${hostile.taken} taken within the limits, ${hostile.other} failed otherwise`,
  )
  console.log(
    `the slowest took ${(hostile.slowestMs / 1000).toFixed(1)} s by the clock (2 s of processor time are allowed)`,
  )
  if (counts.invalid + hostile.other > 0) process.exitCode = 1
}

function isJson(text) {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

await run()
