/**
 * The demo of a fresh server: a button that runs it, and how far it is.
 */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { hrefOf } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { formatNumber } from '../data/format.js'
import { type Loaded, useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { missingScope } from '../data/session.js'
import { Command, Failure } from './block.js'

const PATH = '/v1/preview/demo'
const EVERY_MS = 1500

/** What the page reads of the answer. */
interface Demo {
  readonly status: 'idle' | 'running' | 'completed' | 'failed' | 'stopped'
  readonly teaches: string | null
  readonly model: string | null
  readonly project: string | null
  readonly step: number
  readonly held_out: readonly { readonly reward: number }[]
  readonly error_message: string | null
}

function useDemo(): Loaded<Demo> {
  const [isRunning, setIsRunning] = useState(false)
  const demo = useLoad(PATH, (signal) => ask<Demo>(PATH, { signal }), { everyMs: isRunning ? EVERY_MS : null })
  const runs = demo.data?.status === 'running'
  useEffect(() => setIsRunning(runs), [runs])
  return demo
}

/** Starts it when it is asked to, and never else. */
export function DemoCard(): JSX.Element {
  const demo = useDemo()
  const [error, setError] = useState<ApiError | null>(null)
  const [isAsked, setIsAsked] = useState(false)
  const missing = missingScope('write')
  const isRunning = isAsked || demo.data?.status === 'running'
  const start = (): void => {
    setError(null)
    setIsAsked(true)
    ask<Demo>(PATH, { json: {} })
      .catch((raw: unknown) => setError(toApiError(raw)))
      .finally(() => {
        setIsAsked(false)
        demo.reload()
      })
  }
  return (
    <>
      <h2>Run the demo</h2>
      <p>A small model learns something in a minute, and its curve appears here.</p>
      <p>
        <button
          type="button"
          class="primary"
          disabled={missing !== null || isRunning}
          title={missing ?? undefined}
          onClick={start}
        >
          {isRunning ? 'The demo runs…' : 'Run the demo'}
        </button>
      </p>
      {error !== null && <Failure error={error} />}
      <Command text="trainyard demo" />
    </>
  )
}

/** One line while it runs, and how it ended where that was seen. */
export function DemoLine(): JSX.Element | null {
  const demo = useDemo()
  const [wasSeen, setWasSeen] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const isRunning = demo.data?.status === 'running'
  useEffect(() => {
    if (isRunning) setWasSeen(true)
  }, [isRunning])
  if (demo.data === null || (!isRunning && !wasSeen)) return null
  const { model, project } = demo.data
  const missing = missingScope('write')
  return (
    <section class="card row demo" aria-label="Demo">
      <span>{said(demo.data)}</span>
      <span class="push" />
      {model !== null && project !== null && (
        <a class="button" href={hrefOf(modelPath({ project, name: model }))}>
          Watch its curve
        </a>
      )}
      {isRunning && (
        <button
          type="button"
          disabled={missing !== null}
          title={missing ?? undefined}
          onClick={() => {
            setError(null)
            ask<Demo>(PATH, { method: 'DELETE' })
              .catch((raw: unknown) => setError(toApiError(raw)))
              .finally(demo.reload)
          }}
        >
          Stop the demo
        </button>
      )}
      {error !== null && <Failure error={error} />}
    </section>
  )
}

function said({ status, model, teaches, step, held_out: heldOut, error_message: why }: Demo): string {
  const [first, last] = [heldOut[0], heldOut.at(-1)]
  const learned =
    first === undefined || last === undefined || step === 0
      ? ''
      : ` Reward on held-out prompts ${formatNumber(first.reward)} → ${formatNumber(last.reward)} at step ${step}.`
  if (status === 'failed') return `The demo failed: ${why ?? 'no reason given'}`
  if (status === 'stopped') return `The demo was stopped; ${model ?? 'its model'} stays.${learned}`
  if (status === 'completed')
    return `The demo is done: ${model ?? 'its model'} learned to ${teaches ?? 'do it'}.${learned}`
  if (model === null) return 'The demo begins…'
  return `The demo teaches ${model} to ${teaches ?? 'do it'}.${learned}`
}
