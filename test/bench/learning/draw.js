/**
 * Draws `curves.json` as `src/docs/internals/learning.svg`: a panel for each model, task, start, rate and kind of training, a line for the mean over seeds,
 * a band from the least to the greatest.
 *
 *     node test/bench/learning/draw.js
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readCurves } from './curves.js'
import { TASKS } from './tasks.js'

const OUT = join(import.meta.dirname, '../../../src/docs/internals/learning.svg')
const PANEL = { width: 300, height: 190, left: 34, right: 10, top: 34, bottom: 26 }
const COLUMNS = 3
const LEGEND_HEIGHT = 34
/** Programs that are compared; colours that stay apart for the colour-blind (Okabe and Ito). */
const COLOURS = { trainyard: '#0072b2', pytorch: '#d55e00', trl: '#d55e00' }
const DASHED = '5 3'
/** Panels of a task: a title, and its lines as method, curve of an entry, dashes. */
const KINDS = [
  {
    title: (task) => task,
    lines: [
      ['cispo', 'curve', ''],
      ['ppo', 'curve', DASHED],
    ],
  },
  {
    title: (task) => `${task}: examples`,
    lines: [
      ['sft', 'curve', ''],
      ['sft', 'trained', DASHED],
    ],
  },
  { title: (task) => `${task}: DPO, accuracy`, lines: [['dpo', 'accuracy', '']] },
  { title: (task) => `${task}: DPO, margin`, lines: [['dpo', 'margin', '']] },
]
const LEGEND = [
  [COLOURS.trainyard, '', 'Trainyard'],
  [COLOURS.pytorch, '', 'plain PyTorch, or TRL'],
  ['#7d8590', '', 'CISPO; held out'],
  ['#7d8590', DASHED, 'PPO; trained on'],
]

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

/** A title has room for some forty letters; the built-in model goes without saying. */
const shortName = (model) => model.split('/').at(-1).replace('-Instruct', '')

/** The panels there are curves for: their title, and each line with the runs it is the mean of. */
function panelsOf(curves) {
  const keyOf = ({ model, task, examples = 0 }) => `${model} ${task} ${examples}`
  const byTask = [...groupBy(curves, keyOf)].sort(([a], [b]) => (a < b ? 1 : -1))
  return KINDS.flatMap(({ title, lines }) =>
    byTask.flatMap(([key, entries]) => {
      const [model, task, examples] = key.split(' ')
      // A line is the mean of runs that differ in nothing but the seed.
      const ofKind = entries.filter((entry) => lines.some(([method]) => method === entry.method))
      const byRate = [...groupBy(ofKind, ({ rate }) => rate)]
      return byRate.flatMap(([rate, list]) => {
        const drawn = linesOf(lines, list)
        const start = examples === '0' ? [] : [`after ${examples} right answers`]
        if (byRate.length > 1) start.push(`rate ${rate.toExponential()}`)
        const name = `${title(TASKS[task].title)}${model === 'trainyard/spark' ? '' : `, ${shortName(model)}`}`
        return drawn.length === 0 ? [] : [{ title: name, start: start.join(', '), lines: drawn }]
      })
    }),
  )
}

/** The lines of a panel that there are runs for. */
function linesOf(lines, entries) {
  return lines.flatMap(([method, curve, dash]) => {
    const runs = entries.filter((entry) => entry.method === method && entry[curve] !== undefined)
    return [...groupBy(runs, ({ program }) => program)].map(([program, list]) => ({
      ...{ colour: COLOURS[program], dash, runs: list.map((entry) => entry[curve]) },
    }))
  })
}

function drawPanel({ title, start, lines }, index) {
  const all = lines.flatMap(({ runs }) => runs)
  const jobs = Math.max(...all.map((curve) => curve.length)) - 1
  const top = Math.max(1, Math.ceil(Math.max(...all.flat())))
  const [plotWidth, plotHeight] = [PANEL.width - PANEL.left - PANEL.right, PANEL.height - PANEL.top - PANEL.bottom]
  const x = (job) => (PANEL.left + (job / jobs) * plotWidth).toFixed(1)
  const y = (value) => (PANEL.top + (1 - value / top) * plotHeight).toFixed(1)
  const grid = [0, top / 2, top].map(
    (value) =>
      `<line stroke="#8c959f" stroke-width=".5" x1="${x(0)}" x2="${x(jobs)}" y1="${y(value)}" y2="${y(value)}"/>` +
      `<text ${TICK} x="${PANEL.left - 6}" y="${y(value)}" dy="4" text-anchor="end">${value}</text>`,
  )
  const ticks = [0, jobs].map(
    (job) => `<text ${TICK} x="${x(job)}" y="${PANEL.height - 10}" text-anchor="middle">${job}</text>`,
  )
  const drawn = lines.map(({ colour, dash, runs }) => {
    const at = (job) => runs.map((curve) => curve[job]).filter((value) => value !== undefined)
    const points = Array.from({ length: jobs + 1 }, (_, job) => job).filter((job) => at(job).length > 0)
    const upper = points.map((job) => `${x(job)},${y(Math.max(...at(job)))}`)
    const lower = points.map((job) => `${x(job)},${y(Math.min(...at(job)))}`)
    const middle = points.map((job) => `${x(job)},${y(mean(at(job)))}`)
    return (
      `<polygon points="${[...upper, ...lower.toReversed()].join(' ')}" fill="${colour}" opacity="0.15"/>` +
      `<polyline points="${middle.join(' ')}" fill="none" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`
    )
  })
  const under = start === '' ? '' : `<text ${TICK} x="${PANEL.left}" y="31">${start}</text>`
  const [column, row] = [index % COLUMNS, Math.floor(index / COLUMNS)]
  return (
    `<g transform="translate(${column * PANEL.width} ${row * PANEL.height + LEGEND_HEIGHT})">` +
    `<text ${TITLE} x="${PANEL.left}" y="20">${title}</text>${under}${grid.join('')}${ticks.join('')}${drawn.join('')}</g>`
  )
}

const drawLegend = () =>
  LEGEND.map(
    ([colour, dash, label], index) =>
      `<g transform="translate(${PANEL.left + index * 200} 20)">` +
      `<line x1="0" x2="28" y1="-4" y2="-4" stroke="${colour}" stroke-width="3" stroke-dasharray="${dash}"/>` +
      `<text ${TICK} x="34" y="0">${label}</text></g>`,
  )

const curves = await readCurves()
const panels = panelsOf(curves)
const width = COLUMNS * PANEL.width
const height = LEGEND_HEIGHT + Math.ceil(panels.length / COLUMNS) * PANEL.height
await writeFile(
  OUT,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="Reward, accuracy and margin over training jobs">\n` +
    `${drawLegend().join('\n')}\n${panels.map(drawPanel).join('\n')}\n</svg>\n`,
)
console.log(`${OUT}: ${panels.length} panels, ${curves.length} curves`)
