/**
 * Events of one job, for a page: all from the first, then new ones as they come. What is stored is read as one stream, which is
 * closed when it has told it; news says when there is more. So a window that watches a job holds no connection.
 */
import { isTerminalEvent } from '#contract/wire/job-words.js'
import type { List } from '#contract/wire/list.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { ask, open } from './client.js'
import { live } from './live.js'
import { type Loaded, store, useLoad } from './load.js'
import { readEvents } from './streams.js'

/** A stream that says nothing for so long has told what there is. */
const QUIET_MS = 500
/** Without news. */
const POLL_MS = 1500
const PAGE = 100

/** @param job null: not yet */
export function useJobEvents(job: TrainingJob | null): Loaded<readonly TrainingEvent[]> {
  const path = `/v1/preview/training-jobs/${encodeURIComponent(job?.id ?? '')}/events`
  const key = job === null ? null : path
  const isEnded = key !== null && isOver(store.read<readonly TrainingEvent[]>(key).data ?? [])
  return useLoad<readonly TrainingEvent[]>(
    key,
    async (signal) => {
      const known = store.read<readonly TrainingEvent[]>(path).data
      const events = known === null ? await readStored(path, job?.num_gradient_steps ?? 0, signal) : [...known]
      while (!isOver(events)) {
        const last = events.at(-1)
        const after = last === undefined ? '' : `&after=${encodeURIComponent(last.id)}`
        const page = await ask<List<TrainingEvent>>(`${path}?limit=${PAGE}${after}`, { signal })
        for (const event of page.data) events.push(event)
        if (!page.has_more) break
      }
      return events
    },
    {
      topics: ['job'],
      take: (events, { data }) => (data['job_id'] === job?.id && !isOver(events) ? undefined : events),
      everyMs: live.value === true || isEnded ? null : POLL_MS,
    },
  )
}

function isOver(events: readonly TrainingEvent[]): boolean {
  const last = events.at(-1)
  return last !== undefined && isTerminalEvent(last.type)
}

/** What is stored now. @param steps gradient steps that there are at least */
async function readStored(path: string, steps: number, signal: AbortSignal): Promise<TrainingEvent[]> {
  const events: TrainingEvent[] = []
  const told = new AbortController()
  let quiet: ReturnType<typeof setTimeout> | undefined
  const wait = (): void => {
    clearTimeout(quiet)
    quiet = setTimeout(() => told.abort(), QUIET_MS)
  }
  let left = steps
  try {
    const headers = { accept: 'text/event-stream' }
    const response = await open(path, { headers, signal: AbortSignal.any([signal, told.signal]) })
    wait()
    await readEvents(response, (text) => {
      const event = JSON.parse(text) as TrainingEvent
      events.push(event)
      if (event.type === 'gradient_step') left -= 1
      if (left === 0) told.abort()
      else wait()
    })
  } catch (error) {
    if (signal.aborted || !told.signal.aborted) throw error
  } finally {
    clearTimeout(quiet)
  }
  return events
}
