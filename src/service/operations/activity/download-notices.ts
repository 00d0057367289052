/**
 * Tells the activity feed how far downloads of base models are: about once a second, and at once when one ends. Every
 * key sees these notices, because base models belong to everybody.
 */
import type { Clock } from '#base/util/clock.js'
import type { ActivityFeed } from './feed.js'

export interface DownloadState {
  readonly status: 'downloading' | 'interrupted' | 'failed' | 'ready'
  readonly downloadedBytes: number | null
  readonly totalBytes: number | null
  readonly error: string | null
}

const PAUSE_MS = 1000

export function createDownloadNotices(options: {
  readonly activity: Pick<ActivityFeed, 'publish'>
  readonly clock: Pick<Clock, 'monotonicMs'>
}): (name: string, state: DownloadState) => void {
  const toldAtMs = new Map<string, number>()
  return (name, { status, downloadedBytes, totalBytes, error }) => {
    const nowMs = options.clock.monotonicMs()
    if (status === 'downloading') {
      if (nowMs - (toldAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < PAUSE_MS) return
      toldAtMs.set(name, nowMs)
    } else toldAtMs.delete(name)
    const data = { name, status, downloaded_bytes: downloadedBytes, total_bytes: totalBytes, error }
    options.activity.publish({ type: 'base_model.progress', owner: null, modelId: null, data })
  }
}
