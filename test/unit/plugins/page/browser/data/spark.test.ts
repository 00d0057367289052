/** Small curves of a table. */
import { expect, test } from 'vitest'
import { SPARK_HEIGHT, SPARK_WIDTH, sparkPoints } from '../../../../../../src/plugins/page/browser/data/spark.js'

const placesOf = (values: readonly number[]): number[][] =>
  sparkPoints(values)
    .split(' ')
    .map((point) => point.split(',').map(Number))

test('lies inside its box, from edge to edge, higher values higher up', () => {
  const places = placesOf([0.2, 0.9, 0.4])
  for (const [x = -1, y = -1] of places) {
    expect(x >= 0 && x <= SPARK_WIDTH && y >= 0 && y <= SPARK_HEIGHT).toBe(true)
  }
  expect(places.map(([x]) => x)).toEqual([2, SPARK_WIDTH / 2, SPARK_WIDTH - 2])
  expect(places[1]?.[1]).toBe(2)
  expect(places[0]?.[1]).toBe(SPARK_HEIGHT - 2)
})

test('a flat curve and a single value lie in the middle; what is no number is left out', () => {
  expect(placesOf([3, 3]).map(([, y]) => y)).toEqual([SPARK_HEIGHT / 2, SPARK_HEIGHT / 2])
  expect(placesOf([5])).toEqual([[2, SPARK_HEIGHT / 2]])
  expect(placesOf([1, Number.NaN, 2])).toHaveLength(2)
})
