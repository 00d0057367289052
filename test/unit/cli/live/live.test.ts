/**
 * The picture of a job that is followed: bars, little charts, lines that fit any width, and a region that erases what it drew.
 */
import { Chalk } from 'chalk'
import { describe, expect, test } from 'vitest'
import { renderBar, renderSparkline } from '#cli/live/bar.js'
import { createJobView } from '#cli/live/job-view.js'
import { createRegion } from '#cli/live/region.js'
import { displayWidth } from '#cli/terminal/table.js'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'

const event = (type: TrainingEvent['type'], data: TrainingEvent['data'] = {}, atMs = 0): TrainingEvent => ({
  id: 'e',
  type,
  data,
  created_at: new Date(Date.UTC(2026, 0, 1) + atMs).toISOString(),
})

test('bars and charts', () => {
  expect([renderBar(0.5, 4), renderBar(2, 3), renderBar(Number.NaN, 3), renderBar(0.5, 4, false)]).toEqual([
    '██░░',
    '███',
    '░░░',
    '##..',
  ])
  expect(renderSparkline([0, 1, 2, 3, 4, 5, 6, 7], 8)).toBe('▁▂▃▄▅▆▇█')
  expect(renderSparkline([9, 9, 0, 10], 2)).toBe('▁█')
  expect(renderSparkline([3, 3, 3], 5)).toBe('▅▅▅')
  expect(renderSparkline([1, Number.NaN, 2], 5)).toBe('▁ █')
  expect(renderSparkline([], 5)).toBe('')
  expect(renderSparkline([0, 1], 5, false)).toBe('_@')
})

describe('a job', () => {
  test('waits, shows progress, speed and time left, then the charts', () => {
    let now = 0
    const view = createJobView({ nowMs: () => now, rewardsBefore: [0.1, 0.2], isUnicode: true })
    now = 3000
    expect(view.lines(80)).toEqual(['  waiting for a worker  0:03', '  reward ▁█ 0.2'])
    view.add(event('training_started', { num_sequences: 4 }, now))
    expect(view.lines(80)[0]).toBe('  ░░░░░░░░░░░░░░░░░░░░  0/4  0:00')
    now = 5000
    const step = { reward: 0.4, loss: 0.5, kl_div: 0.01, tokens_per_second: 1234.5 }
    view.add(event('gradient_step', step, now))
    expect(view.lines(80)).toEqual([
      '  █████░░░░░░░░░░░░░░░  1/4  0:02  1,235 tokens/s  0:06 left',
      '  reward ▁▃█ 0.4   loss ▅ 0.5   KL ▅ 0.01',
    ])
    for (let i = 0; i < 3; i += 1) view.add(event('gradient_step', { ...step, loss: i }, now))
    expect(view.lines(80)[0]).toContain('4/4')
    expect(view.lines(80)[0]).toContain('saving')
    // the reward of one job is one number
    expect(view.lines(80)[1]).toContain('reward ▁▃█ 0.4')
  })
  test('that somebody looks at late shows its own time, and what is left by it', () => {
    let now = 77
    const view = createJobView({ nowMs: () => now, rewardsBefore: [], isUnicode: true })
    view.add(event('training_started', { num_sequences: 4 }))
    for (let i = 1; i < 4; i += 1) view.add(event('gradient_step', { loss: 1 }, i * 20_000))
    expect(view.lines(80)[0]).toBe('  ███████████████░░░░░  3/4  1:00  0:20 left')
    now += 10_000
    expect(view.lines(80)[0]).toContain('1:10')
  })
  test('charts the loss of validation rows and the margin of preferences', () => {
    const view = createJobView({ nowMs: () => 0, rewardsBefore: [], isUnicode: true })
    view.add(event('training_started', { num_sequences: 2, num_pairs: 4 }))
    view.add(event('gradient_step', { loss: 0.5, 'rewards/margins': 0.1 }))
    view.add(event('gradient_step', { loss: 0.25, 'rewards/margins': 0.2, 'val/loss': 0.75 }))
    expect(view.lines(80)[1]).toBe('  loss █▁ 0.25   val loss ▅ 0.75   margin ▁█ 0.2')
  })
  test('fits 80 and 140 columns however long it runs; an SFT job has no reward', () => {
    const view = createJobView({ nowMs: () => 0, rewardsBefore: [], isUnicode: true })
    view.add(event('training_started', { num_sequences: 100 }))
    for (let i = 0; i < 100; i += 1) view.add(event('gradient_step', { loss: Math.sin(i) / 1000, kl_div: i / 1e7 }))
    for (const width of [80, 140]) {
      const lines = view.lines(width)
      expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(width)
      expect(lines[1]).not.toContain('reward')
    }
  })
})

describe('a region', () => {
  const terminal = () => {
    const written: string[] = []
    const sink = {
      isTerminal: true,
      width: 20,
      chalk: new Chalk({ level: 0 }),
      isUnicode: true,
      write: (text: string) => void written.push(text),
    }
    return { sink, written }
  }
  test('erases its lines before it draws again and before others print', () => {
    const { sink, written } = terminal()
    const region = createRegion(sink)
    region.draw(['one', 'two'])
    region.draw(['three'])
    region.above(() => sink.write('row\n'))
    region.clear()
    expect(written.join('|')).toBe('one\ntwo|\r\u001b[1A\u001b[Jthree|\r\u001b[J|row\n|three|\r\u001b[J')
  })
  test('cuts lines to the width, and counts rows that a narrower window wrapped', () => {
    const { sink, written } = terminal()
    const region = createRegion(sink)
    region.draw(['x'.repeat(30)])
    expect(written[0]).toHaveLength(19)
    sink.width = 10
    region.clear()
    expect(written[1]).toBe('\r\u001b[1A\u001b[J')
  })
})
