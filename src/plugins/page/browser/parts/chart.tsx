/**
 * Lines over steps, drawn by uPlot: one or several, the raw values always, a smooth line over them when asked, one cursor over
 * all charts of a page, a part of the axis that is kept in the address. Arrows move along the points; a click, a tap and Enter
 * choose one. Who does not see it hears a sentence and each point; the numbers are in the table that every page with charts has.
 */
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { query, setQuery } from '../data/address.js'
import { describeCurve } from '../data/curves.js'
import { saveBlob } from '../data/download.js'
import { formatNumber } from '../data/format.js'
import { type ChartProps, dataOf, optionsOf } from './plot-options.js'
import { look } from './theme.js'

/** The part of the horizontal axis that is shown, in the address. */
const ZOOM = 'zoom'

type Range = readonly [min: number, max: number]

function zoomInAddress(): Range | null {
  const [min, max] = (query.value.get(ZOOM) ?? '').split('..').map(Number)
  return min !== undefined && max !== undefined && min < max ? [min, max] : null
}

/** Smoothing of single charts, in the address: a weight and a title. */
const SMOOTH = 'sm'
/** What a click on a chart's own smoothing goes through. */
const WEIGHTS = [0, 0.6, 0.9]

/** Null: as the page has it. */
function ownSmoothing(title: string): number | null {
  const own = query.value.getAll(SMOOTH).find((text) => text.slice(text.indexOf(':') + 1) === title)
  const weight = own === undefined ? Number.NaN : Number.parseFloat(own)
  return weight >= 0 && weight < 1 ? weight : null
}

export function Chart(given: ChartProps): JSX.Element {
  const props = { ...given, smoothing: ownSmoothing(given.title) ?? given.smoothing }
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  latest.current = props
  const [at, setAt] = useState<number | null>(null)
  const { height = 170, title, steps, lines, positions } = props
  const isLogarithmic = isOnLogScale(props)
  const zoom = zoomInAddress()
  const shape = JSON.stringify([
    lines.map(({ name, spread }) => [name, spread !== undefined]),
    props.smoothing > 0,
    isLogarithmic,
    props.isTime,
    props.group,
    props.unit,
  ])

  useEffect(() => {
    const element = holder.current
    if (element === null) return
    const onZoom = (range: Range | null): void => {
      const text = range === null ? null : range.map((end) => Number(end.toPrecision(8))).join('..')
      if (query.peek().get(ZOOM) !== text) setQuery({ [ZOOM]: text })
    }
    const onCursor = (index: number | null): void => {
      setAt(index)
      latest.current.onPoint?.(index)
    }
    const options = { isLogarithmic, width: element.clientWidth, height, onCursor, onZoom }
    const made = new uPlot(
      optionsOf(() => latest.current, options),
      dataOf(latest.current),
      element,
    )
    plot.current = made
    showPart(made, zoomInAddress())
    // with a tap the cursor comes after the click
    made.over.addEventListener('click', ({ clientX }) => {
      const index = made.posToIdx(clientX - made.over.getBoundingClientRect().left)
      if (made.select.width === 0) latest.current.onPick?.(index)
    })
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
      plot.current = null
    }
  }, [look.value, height, shape])

  useEffect(() => {
    const made = plot.current
    if (made === null) return
    made.setData(dataOf(latest.current), false)
    showPart(made, zoomInAddress())
  }, [positions, lines, props.smoothing])
  useEffect(() => {
    if (plot.current !== null) showPart(plot.current, zoom)
  }, [zoom?.join()])

  const shown = at ?? lastIndex(lines[0]?.values ?? [])
  const move = (by: number): void => {
    const next = Math.max(0, Math.min(positions.length - 1, (at ?? (by < 0 ? positions.length : -1)) + by))
    const left = plot.current?.valToPos(positions[next] ?? 0, 'x') ?? 0
    plot.current?.setCursor({ left, top: 10 })
    setAt(next)
    props.onPoint?.(next)
  }
  const onKey = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key]
    if (event.key === 'Enter' && at !== null) props.onPick?.(at)
    else if (event.key === 'Escape') setQuery({ [ZOOM]: null })
    else if (by !== undefined) move(by)
    else return
    event.preventDefault()
  }
  const said = lines.map(({ name, values }) => describeCurve(name, steps, values, props.wants)).join(' ')
  const point = lines.map(({ name, values }) => `${name} ${formatNumber(values[shown])}`).join(', ')
  return (
    <figure class="card chart">
      <Head chart={props} at={at} />
      <div
        ref={holder}
        class="plot"
        style={{ minHeight: `${height}px` }}
        role="slider"
        tabIndex={0}
        aria-label={said}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, positions.length - 1)}
        aria-valuenow={Math.max(0, shown)}
        aria-valuetext={`step ${steps[shown] ?? ''}: ${point}`}
        onKeyDown={onKey}
      />
      <Tools chart={props} isLogarithmic={isLogarithmic} onPicture={() => savePicture(plot.current, title)} />
    </figure>
  )
}

/** Title, and the values where the cursor is, else the last of each line. */
function Head({ chart, at }: { readonly chart: ChartProps; readonly at: number | null }): JSX.Element {
  const { title, lines, steps, unit } = chart
  const shownOf = (values: readonly (number | null)[]) => formatNumber(values[at ?? lastIndex(values)])
  return (
    <>
      <figcaption>
        <h3>{title}</h3>
        {lines.length === 1 && (
          <span class="number">
            {at !== null && <span class="soft">{unit === 'gradient step' ? '' : `step ${steps[at] ?? ''} `}</span>}
            {shownOf(lines[0]?.values ?? [])}
          </span>
        )}
      </figcaption>
      {lines.length > 1 && (
        <ul class="plain legend-of-lines small">
          <li class="soft">{at === null ? `last ${unit}` : `${unit} ${formatNumber(steps[at])}`}</li>
          {lines.map(({ name, values }, i) => (
            <li key={name}>
              <span class={`swatch line-${i % 6}`} aria-hidden="true" /> {name}{' '}
              <strong class="number">{shownOf(values)}</strong>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Tools(props: {
  readonly chart: ChartProps
  readonly isLogarithmic: boolean
  readonly onPicture: () => void
}): JSX.Element {
  const { chart } = props
  const { title } = chart
  return (
    <p class="row chart-tools small">
      {zoomInAddress() !== null && (
        <button type="button" class="link" onClick={() => setQuery({ [ZOOM]: null })}>
          all steps
        </button>
      )}
      <span class="push" />
      <button type="button" class="link" aria-pressed={chart.smoothing > 0} onClick={() => smoothMore(chart)}>
        smooth<span class="visually-hidden"> {title}</span>
        {chart.smoothing > 0 && ` ${chart.smoothing}`}
      </button>
      {isPositive(chart) && chart.isLogarithmic !== true && (
        <button type="button" class="link" aria-pressed={props.isLogarithmic} onClick={() => toggleLogarithmic(title)}>
          log<span class="visually-hidden"> scale of {title}</span>
        </button>
      )}
      <button
        type="button"
        class="link"
        onClick={() => saveBlob(new Blob([toCsv(chart)], { type: 'text/csv' }), `${title}.csv`)}
      >
        CSV<span class="visually-hidden"> of {title}</span>
      </button>
      <button type="button" class="link" onClick={props.onPicture}>
        PNG<span class="visually-hidden"> of {title}</span>
      </button>
    </p>
  )
}

/** As the page has it, else as the chart begins, unless the address has the other. */
function isOnLogScale(chart: ChartProps): boolean {
  const isOther = query.value.getAll('lg').includes(chart.title)
  return isPositive(chart) && (chart.isLogarithmic === true || isOther !== (chart.beginsLogarithmic === true))
}

/** A log scale has a place for each of its values. */
function isPositive({ lines }: ChartProps): boolean {
  return lines.every(({ values }) => values.every((value) => value === null || value > 0))
}

/** Null: all of it. */
function showPart(plot: uPlot, range: Range | null): void {
  const [x] = plot.data
  const [first, last] = [x[0], x.at(-1)]
  if (first === undefined || last === undefined) return
  // one point has a place, too
  const [min, max] = range ?? (first === last ? [first - 1, last + 1] : [first, last])
  plot.setScale('x', { min, max })
}

function toggleLogarithmic(title: string): void {
  const known = query.peek().getAll('lg')
  setQuery({ lg: known.includes(title) ? known.filter((name) => name !== title) : [...known, title] })
}

function smoothMore({ title, smoothing }: ChartProps): void {
  const others = query
    .peek()
    .getAll(SMOOTH)
    .filter((text) => text.slice(text.indexOf(':') + 1) !== title)
  const next = WEIGHTS.find((weight) => weight > smoothing) ?? 0
  setQuery({ [SMOOTH]: [...others, `${next}:${title}`] })
}

function lastIndex(values: readonly (number | null)[]): number {
  return values.findLastIndex((value) => value !== null)
}

/** Numbers as they are, a row a step. */
function toCsv({ unit, steps, lines }: ChartProps): string {
  const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`
  const head = [unit, ...lines.map(({ name }) => name)].map(quoted).join(',')
  const rows = steps.map((step, i) => [step, ...lines.map(({ values }) => values[i] ?? '')].join(','))
  return `${[head, ...rows].join('\n')}\n`
}

/** As it is shown, on the colour of the card. */
function savePicture(plot: uPlot | null, title: string): void {
  if (plot === null) return
  const { canvas } = plot.ctx
  const whole = document.createElement('canvas')
  whole.width = canvas.width
  whole.height = canvas.height
  const context = whole.getContext('2d')
  if (context === null) return
  context.fillStyle = getComputedStyle(plot.root.closest('.card') ?? document.body).backgroundColor
  context.fillRect(0, 0, whole.width, whole.height)
  context.drawImage(canvas, 0, 0)
  whole.toBlob((blob) => {
    if (blob !== null) saveBlob(blob, `${title}.png`)
  })
}
