/**
 * A curve of a few values beside its last one: what a row of a table says of how something went.
 */
import type { JSX } from 'preact'
import type { MetricSummary } from '#contract/wire/models.js'
import { formatNumber } from '../data/format.js'
import { SPARK_HEIGHT, SPARK_WIDTH, sparkPoints } from '../data/spark.js'

export function Sparkline({
  name,
  summary,
}: {
  readonly name: string
  readonly summary: MetricSummary | undefined
}): JSX.Element {
  if (summary === undefined) return <span class="soft">–</span>
  const { last, last_step: lastStep, best, best_step: bestStep, spark } = summary
  const sentence = `${name}: ${formatNumber(last)} at step ${lastStep}, best ${formatNumber(best)} at step ${bestStep}`
  return (
    <span class="spark" title={sentence}>
      <span class="value">{formatNumber(last)}</span>
      {spark.length > 1 && (
        <svg
          role="img"
          aria-label={sentence}
          width={SPARK_WIDTH}
          height={SPARK_HEIGHT}
          viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
        >
          <polyline points={sparkPoints(spark)} />
        </svg>
      )}
    </span>
  )
}
