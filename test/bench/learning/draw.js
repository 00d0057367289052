/**
 * Draws `curves.json` as `src/docs/learning.svg`: a panel for each model and task, a line for the mean over seeds, a band from
 * the least to the greatest.
 *
 *     node test/bench/learning/draw.js
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readCurves } from './curves.js'
import { TASKS } from './tasks.js'

const OUT = join(import.meta.dirname, '../../../src/docs/learning.svg')
const PANEL = { width: 300, height: 190, left: 34, right: 10, top: 34, bottom: 26 }
const COLUMNS = 3
const LEGEND_HEIGHT = 34
/** Programs and losses that are compared; colours that stay apart for the colour-blind (Okabe and Ito). */
const LINES = {
  'trainyard cispo': { colour: '#0072b2', dash: '' },
  'pytorch cispo': { colour: '#d55e00', dash: '5 3' },
  'trainyard ppo': { colour: '#009e73', dash: '2 2' },
  'pytorch ppo': { colour: '#cc79a7', dash: '7 2 2 2' },
}

/** A grey that can be read on white and on black: pages are shown on both. */
const FONT = 'font-family="system-ui,sans-serif" fill="#7d8590"'
const TITLE = `${FONT} font-size="13" font-weight="600"`
const TICK = `${FONT} font-size="11"`

const groupBy = (list, keyOf) => {
  const groups = new Map()
  for (const item of list) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}
const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length

function drawPanel([key, curves], index) {
  const [model, task] = key.split(' ')
  const jobs = Math.max(...curves.map(({ curve }) => curve.length)) - 1
  const [plotWidth, plotHeight] = [PANEL.width - PANEL.left - PANEL.right, PANEL.height - PANEL.top - PANEL.bottom]
  const x = (job) => (PANEL.left + (job / jobs) * plotWidth).toFixed(1)
  const y = (value) => (PANEL.top + (1 - value) * plotHeight).toFixed(1)
  const grid = [0, 0.5, 1].map(
    (value) =>
      `<line stroke="#8c959f" stroke-width=".5" x1="${x(0)}" x2="${x(jobs)}" y1="${y(value)}" y2="${y(value)}"/>` +
      `<text ${TICK} x="${PANEL.left - 6}" y="${y(value)}" dy="4" text-anchor="end">${value}</text>`,
  )
  const ticks = [0, jobs].map(
    (job) => `<text ${TICK} x="${x(job)}" y="${PANEL.height - 10}" text-anchor="middle">${job}</text>`,
  )
  const lines = [...groupBy(curves, ({ program, loss }) => `${program} ${loss}`)].map(([name, runs]) => {
    const { colour, dash } = LINES[name]
    const at = (job) => runs.map(({ curve }) => curve[job]).filter((value) => value !== undefined)
    const points = Array.from({ length: jobs + 1 }, (_, job) => job).filter((job) => at(job).length > 0)
    const upper = points.map((job) => `${x(job)},${y(Math.max(...at(job)))}`)
    const lower = points.map((job) => `${x(job)},${y(Math.min(...at(job)))}`)
    const middle = points.map((job) => `${x(job)},${y(mean(at(job)))}`)
    return (
      `<polygon points="${[...upper, ...lower.toReversed()].join(' ')}" fill="${colour}" opacity="0.15"/>` +
      `<polyline points="${middle.join(' ')}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`
    )
  })
  const title = `${TASKS[task].title} · ${model.split('/').at(-1)}`
  const [column, row] = [index % COLUMNS, Math.floor(index / COLUMNS)]
  return (
    `<g transform="translate(${column * PANEL.width} ${row * PANEL.height + LEGEND_HEIGHT})">` +
    `<text ${TITLE} x="${PANEL.left}" y="20">${title}</text>${grid.join('')}${ticks.join('')}${lines.join('')}</g>`
  )
}

function drawLegend(names) {
  return names.map((name, index) => {
    const { colour, dash } = LINES[name]
    const [program, loss] = name.split(' ')
    const label = `${program === 'pytorch' ? 'plain PyTorch' : 'Trainyard'}, ${loss.toUpperCase()}`
    return (
      `<g transform="translate(${PANEL.left + index * 200} 20)">` +
      `<line x1="0" x2="28" y1="-4" y2="-4" stroke="${colour}" stroke-width="3" stroke-dasharray="${dash}"/>` +
      `<text ${TICK} x="34" y="0">${label}</text></g>`
    )
  })
}

const curves = await readCurves()
const panels = [...groupBy(curves, ({ model, task }) => `${model} ${task}`)].sort(([a], [b]) => (a < b ? 1 : -1))
const names = Object.keys(LINES).filter((name) => curves.some(({ program, loss }) => `${program} ${loss}` === name))
const width = COLUMNS * PANEL.width
const height = LEGEND_HEIGHT + Math.ceil(panels.length / COLUMNS) * PANEL.height
await writeFile(
  OUT,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="Held-out reward over training jobs">\n` +
    `${drawLegend(names).join('\n')}\n${panels.map(drawPanel).join('\n')}\n</svg>\n`,
)
console.log(`${OUT}: ${panels.length} panels, ${curves.length} curves`)
