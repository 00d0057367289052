/**
 * What windows and the stream of their browser say to each other.
 */
import type { Activity } from '#contract/wire/activity.js'

/** What a window says. */
export type FromWindow =
  /** Listens, or still does: said again and again, as nobody tells a worker of a window that is gone. */
  | { readonly type: 'listen'; readonly url: string; readonly bearer: string; readonly who: string }
  | { readonly type: 'leave' }

/** What it is told. */
export type ToWindow =
  | { readonly type: 'event'; readonly event: Activity }
  /** Anything may have changed. */
  | { readonly type: 'missed' }
  /** True while the stream is open; since when it is not, ISO 8601. */
  | { readonly type: 'live'; readonly live: true | string }

/** Between two words of a window that listens. */
export const ALIVE_MS = 20_000
