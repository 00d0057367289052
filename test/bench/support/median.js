/** The middle one of the values in order, the upper of two. */
export function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1]
}
