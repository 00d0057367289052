/**
 * Sends what jobs measure to the trackers of `--report`, beside the service.
 *
 * Rows of the database are the only truth: a look every two seconds finds models that train, and sends what a tracker has not
 * got yet. A tracker that is away loses nothing, it is asked again with growing pauses; after a restart a model's run is
 * filled anew (`tracker.ts`).
 */
import type { PluginStart } from '#service/plugin.js'
import { listMetrics } from '#service/storage/model-metrics.js'
import type { metricsExportSettings } from './settings.js'
import { type ActiveModel, listActiveModels, listSteps } from './storage/measured.js'
import { openTracker, type Point, type Run, type Tracker } from './trackers/tracker.js'

const POLL_MS = 2000
/** What ended before the start is sent when it is not older, as another start may have ended in between. */
const FIRST_LOOK_MS = 86_400_000
/** What ended is looked at for so long: measurements of a step may be logged behind its job. */
const LATER_LOOK_MS = 15 * 60_000
const MOST_PAUSE_MS = 60_000
/** Gradient steps that are read at once. */
const STEPS = 500

/** What a tracker has of a model. */
interface Sent {
  readonly run: Run
  gradientSteps: number
  /** By step, then source: what was recorded, as text. */
  readonly steps: Map<string, string>
}

export async function startReporter(core: PluginStart<typeof metricsExportSettings>): Promise<void> {
  const { context, settings, lifetimes, onDuty, onListening, tuning } = core
  const { db, logger, clock } = context
  const ending = new AbortController()
  const trackers = await Promise.all(settings.report.map((text) => openTracker(text, ending.signal)))
  const places = trackers.map((tracker) => ({ tracker, sent: new Map<string, Sent>(), untilMs: 0, pauseMs: 0 }))
  let lookMs = FIRST_LOOK_MS
  let running: Promise<unknown> | null = null

  async function lookAll(): Promise<void> {
    const models = await listActiveModels(db, lookMs)
    let isComplete = true
    for (const place of places) {
      if (clock.monotonicMs() < place.untilMs) isComplete = false
      else if (!(await fill(place, models))) isComplete = false
    }
    // what a tracker missed while it was away is looked at again
    lookMs = isComplete ? LATER_LOOK_MS : FIRST_LOOK_MS
  }

  async function fill(place: (typeof places)[number], models: readonly ActiveModel[]): Promise<boolean> {
    const { tracker, sent } = place
    for (const id of sent.keys()) if (!models.some((model) => model.id === id)) sent.delete(id)
    try {
      for (const model of models) {
        if (ending.signal.aborted) return false
        await send(sent, tracker, model)
      }
      if (place.pauseMs > 0) logger.info({ tracker: tracker.name }, 'report.resumed')
      place.pauseMs = 0
      return true
    } catch (error) {
      if (ending.signal.aborted) return false
      place.pauseMs = Math.min(MOST_PAUSE_MS, 2 * place.pauseMs || POLL_MS)
      place.untilMs = clock.monotonicMs() + place.pauseMs
      logger.warn({ err: error, tracker: tracker.name, retry_ms: place.pauseMs }, 'report.failed')
      return false
    }
  }

  async function send(all: Map<string, Sent>, tracker: Tracker, model: ActiveModel): Promise<void> {
    const sent = all.get(model.id) ?? { run: await tracker.open(model), gradientSteps: 0, steps: new Map() }
    all.set(model.id, sent)
    for (;;) {
      const steps = await listSteps(db, model.id, { after: sent.gradientSteps, limit: STEPS })
      await sent.run.add(
        steps.flatMap(({ number: step, atMs, numbers }) => toPoints('gradient_step/', { step, atMs }, numbers)),
      )
      sent.gradientSteps += steps.length
      if (steps.length < STEPS) break
    }
    for (const { step, source, metrics, createdAtMs } of await listMetrics(db, model.id)) {
      const place = `${step} ${source}`
      const text = JSON.stringify(metrics)
      const before = sent.steps.get(place)
      if (before === text) continue
      const known: Readonly<Record<string, number>> = before === undefined ? {} : JSON.parse(before)
      const changed = Object.entries(metrics).filter(([key, value]) => known[key] !== value)
      await sent.run.add(toPoints('', { step, atMs: createdAtMs }, Object.fromEntries(changed)))
      sent.steps.set(place, text)
    }
    await sent.run.setRunning(model.isRunning)
  }

  /** One at a time; a server that finds another at it forgets what it sent, for the other's runs are newer. */
  const look = (): void => {
    running ??= onDuty('report', async () => {
      await lookAll()
      return true
    })
      .then(
        (did) => {
          if (did === null) for (const { sent } of places) sent.clear()
        },
        (error: unknown) => logger.error({ err: error }, 'report.look_failed'),
      )
      .finally(() => {
        running = null
      })
  }
  let timer: NodeJS.Timeout | null = null
  lifetimes.add('reporter', async () => {
    if (timer !== null) clearInterval(timer)
    ending.abort()
    await running
  })
  onListening(() => {
    timer = setInterval(look, (tuning as { readonly pollMs?: number } | undefined)?.pollMs ?? POLL_MS).unref()
  })
}

function toPoints(
  prefix: string,
  place: Pick<Point, 'step' | 'atMs'>,
  numbers: Readonly<Record<string, number>>,
): readonly Point[] {
  return Object.entries(numbers).map(([key, value]) => ({ key: prefix + key, value, ...place }))
}
