/** The line of a small curve in a table. Pure. */
export const SPARK_WIDTH = 72
export const SPARK_HEIGHT = 18
/** So that the line's ends and peaks are not cut off. */
const EDGE = 2

/** Points of a polyline, equally far apart; a flat curve lies in the middle. Values that are no numbers are left out. */
export function sparkPoints(values: readonly number[]): string {
  const finite = values.filter(Number.isFinite)
  const low = finite.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY)
  const span = finite.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY) - low
  const step = finite.length < 2 ? 0 : (SPARK_WIDTH - 2 * EDGE) / (finite.length - 1)
  return finite
    .map((value, index) => {
      const height = span === 0 ? 0.5 : (value - low) / span
      const y = SPARK_HEIGHT - EDGE - height * (SPARK_HEIGHT - 2 * EDGE)
      return `${(EDGE + index * step).toFixed(1)},${y.toFixed(1)}`
    })
    .join(' ')
}
