/**
 * Curves as text: where points land, and that nothing breaks at the edges.
 */
import { expect, test } from 'vitest'
import { renderChart } from '../../../../src/cli/terminal/chart.js'

const options = { width: 80, isUnicode: true, rows: 3 }

test('chart: points stand at their value and step, joined by a line', () => {
  const points = [
    { step: 0, value: 0 },
    { step: 1, value: 0.5 },
    { step: 2, value: 1 },
  ]
  expect(renderChart(points, options)).toBe(
    ['  1.00 ┤      ··●', '  0.50 ┤  ··●·', '  0.00 ┼●·────────', '        0   1   2'].join('\n'),
  )
})

test('chart: ASCII where the terminal knows no more', () => {
  const points = [
    { step: 0, value: 1 },
    { step: 1, value: 0 },
  ]
  const text = renderChart(points, { ...options, isUnicode: false })
  expect(text).toMatch(/^[\x20-\x7e\n]*$/)
  expect(text.split('\n')).toHaveLength(4)
})

test('chart: nothing to draw is an empty text, one point is one dot', () => {
  expect(renderChart([], options)).toBe('')
  expect(renderChart([{ step: 3, value: 0.5 }], options).match(/●/g)).toHaveLength(1)
})

test('chart: no line is wider than the terminal, however many steps there are', () => {
  const points = Array.from({ length: 500 }, (_, step) => ({ step, value: step / 500 }))
  for (const line of renderChart(points, { ...options, width: 60 }).split('\n')) {
    expect(line.length).toBeLessThanOrEqual(60)
  }
})

test('chart: values outside of 0 to 1 are drawn at the edge', () => {
  const points = [
    { step: 0, value: -3 },
    { step: 1, value: 7 },
  ]
  const lines = renderChart(points, options).split('\n')
  expect(lines[0]).toContain('●')
  expect(lines[2]).toContain('●')
})

test('chart: another range has its own values beside the rows, as many decimals as tell them apart', () => {
  const points = [
    { step: 1, value: -2 },
    { step: 2, value: 2 },
  ]
  expect(renderChart(points, { ...options, range: [-2, 2] })).toBe(
    ['   2.00 ┤   ·●', '   0.00 ┤ ··', '  -2.00 ┼●─────', '         1   2'].join('\n'),
  )
  expect(renderChart(points, { ...options, range: [0, 0.004] })).toContain('0.0020 ')
  expect(renderChart([{ step: 1, value: 5 }], { ...options, range: [5, 5] })).toContain('5.00 ')
})
