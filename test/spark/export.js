/**
 * Makes the built-in model of a trained one: `node test/spark/export.js [--from .cache/spark/latest] [--to src/assets/spark]`.
 *
 * Checks what it wrote as the server will at its start. The model card is written by hand.
 */
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { sparkDirectory, verifySpark } from '#model/built-in/spark.js'
import { SPARK_CACHE } from './paths.js'
import { exportModel } from './text-model/export-model.js'

const { values } = parseArgs({
  options: {
    from: { type: 'string', default: join(SPARK_CACHE, 'latest') },
    to: { type: 'string', default: sparkDirectory() },
  },
})
const to = resolve(values.to)
const { parameters, sizeBytes, largestError, digests } = await exportModel(resolve(values.from), to)
await verifySpark(to)
console.log(
  `${parameters} parameters, ${(sizeBytes / 1e6).toFixed(1)} MB, rounded by at most ${largestError.toExponential(1)} → ${to}`,
)
console.table(digests)
