/**
 * Thins a series of numbers for drawing: of each part of the axis it keeps the first, the last, the lowest and the
 * highest point, so that spikes stay. Knows no metrics.
 */

/** Points kept of one bucket. */
const PER_BUCKET = 4

/**
 * Which points of a series to draw.
 *
 * @param axis place of each point, ascending; of equal length with `values`
 * @param values null: no point there
 * @param most points that are kept, at least 4; all are when there are no more
 * @returns ascending positions, without those of nulls
 */
export function thinSeries(
  axis: readonly number[],
  values: readonly (number | null)[],
  most: number,
): readonly number[] {
  const points = values.flatMap((value, i) => (value === null ? [] : [{ i, value }]))
  const first = axis[points[0]?.i ?? 0] ?? 0
  const width = (axis[points.at(-1)?.i ?? 0] ?? 0) - first
  if (points.length <= most) return points.map(({ i }) => i)
  const buckets = Math.floor(most / PER_BUCKET)
  const bucketOf = (i: number): number =>
    // an axis without width has one place: by position then
    Math.min(buckets - 1, Math.floor((width > 0 ? ((axis[i] ?? 0) - first) / width : i / values.length) * buckets))
  const kept = new Set<number>()
  let start = 0
  while (start < points.length) {
    const bucket = bucketOf(points[start]?.i ?? 0)
    let end = start + 1
    while (end < points.length && bucketOf(points[end]?.i ?? 0) === bucket) end += 1
    const inside = points.slice(start, end)
    const lowest = inside.reduce((a, b) => (b.value < a.value ? b : a))
    const highest = inside.reduce((a, b) => (b.value > a.value ? b : a))
    for (const point of [inside[0], lowest, highest, inside.at(-1)]) if (point !== undefined) kept.add(point.i)
    start = end
  }
  return [...kept].sort((a, b) => a - b)
}
