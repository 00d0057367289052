/**
 * MLflow's tracking server, by its REST API 2.0: an experiment for each project (`entity/project`), a run for each model,
 * known by its tag.
 *
 * MLflow keeps a number once however often it is logged with the same step and time, so a restart begins anew. Names of
 * metrics may hold letters, digits and `_-. :/` there; what else a name has becomes `_`.
 */

import { z } from 'zod'
import { type Environment, readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import type { ActiveModel } from '../storage/measured.js'
import type { Point, Run, Tracker } from './tracker.js'

/** Metrics of one `log-batch`. */
const BATCH = 1000
const ANSWER_MS = 30_000
const TAG = 'trainyard.model_id'
const UNNAMEABLE = /[^\w\-. :/]/g
const MOST_NAME = 250

type Json = Readonly<Record<string, unknown>>

const foundExperiment = z.object({ experiment: z.object({ experiment_id: z.string() }) })
const madeExperiment = z.object({ experiment_id: z.string() })
const run = z.object({ info: z.object({ run_id: z.string() }) })
const foundRuns = z.object({ runs: z.array(run).default([]) })
const madeRun = z.object({ run })

export function createMlflow(place: string, ending: AbortSignal): Tracker {
  const { base, headers } = readPlace(place, readEnvironment())

  /** @returns null: there is none */
  async function ask(method: 'GET' | 'POST', path: string, what: Json): Promise<Json | null> {
    const url = new URL(`${base}/api/2.0/mlflow/${path}`)
    if (method === 'GET') for (const [name, value] of Object.entries(what)) url.searchParams.set(name, String(value))
    const body = method === 'GET' ? {} : { body: JSON.stringify(what) }
    const signal = AbortSignal.any([ending, AbortSignal.timeout(ANSWER_MS)])
    const response = await fetch(url, { method, headers, ...body, signal })
    const text = await response.text()
    if (response.ok) return JSON.parse(text) as Json
    if (response.status === 404 && text.includes('RESOURCE_DOES_NOT_EXIST')) return null
    throw new AppError(
      'unavailable',
      'tracker_refused',
      `MLflow at ${base} answers ${response.status} to ${path}: ${text.slice(0, 300)}`,
    )
  }

  async function experimentOf({ entity, project }: ActiveModel): Promise<string> {
    const name = `${entity}/${project}`
    const found = await ask('GET', 'experiments/get-by-name', { experiment_name: name })
    if (found !== null) return foundExperiment.parse(found).experiment.experiment_id
    return madeExperiment.parse(await ask('POST', 'experiments/create', { name })).experiment_id
  }

  async function runOf(model: ActiveModel): Promise<string> {
    const experimentId = await experimentOf(model)
    const filter = `tags.\`${TAG}\` = '${model.id}'`
    const found = await ask('POST', 'runs/search', { experiment_ids: [experimentId], filter, max_results: 1 })
    const [first] = foundRuns.parse(found).runs
    if (first !== undefined) return first.info.run_id
    const made = await ask('POST', 'runs/create', {
      experiment_id: experimentId,
      run_name: model.name,
      start_time: model.createdAtMs,
      tags: [
        { key: TAG, value: model.id },
        { key: 'trainyard.base_model', value: model.baseModel },
        { key: 'trainyard.kind', value: model.kind },
      ],
    })
    return madeRun.parse(made).run.info.run_id
  }

  return { name: `mlflow=${base}`, open: async (model) => toRun(await runOf(model), ask) }
}

function toRun(runId: string, ask: (method: 'POST', path: string, what: Json) => Promise<Json | null>): Run {
  let wasRunning: boolean | null = null
  return {
    add: async (points) => {
      const named = points.map(toMetric)
      for (let start = 0; start < named.length; start += BATCH) {
        await ask('POST', 'runs/log-batch', { run_id: runId, metrics: named.slice(start, start + BATCH) })
      }
    },
    setRunning: async (isRunning) => {
      if (isRunning === wasRunning) return
      const state = isRunning ? { status: 'RUNNING' } : { status: 'FINISHED', end_time: systemClock.nowMs() }
      await ask('POST', 'runs/update', { run_id: runId, ...state })
      wasRunning = isRunning
    },
  }
}

const toMetric = ({ key, value, step, atMs }: Point) => ({
  ...{ key: key.replace(UNNAMEABLE, '_').slice(0, MOST_NAME), value, step },
  timestamp: Math.floor(atMs),
})

/** What is said of a place, and its address without what is secret: a name and password in it, or MLflow's own variables. */
function readPlace(
  place: string,
  environment: Environment,
): { readonly base: string; readonly headers: Readonly<Record<string, string>> } {
  const url = new URL(place)
  const user = decodeURIComponent(url.username) || environment['MLFLOW_TRACKING_USERNAME']
  const password = decodeURIComponent(url.password) || environment['MLFLOW_TRACKING_PASSWORD']
  const token = environment['MLFLOW_TRACKING_TOKEN']
  url.username = ''
  url.password = ''
  const basic = user === undefined ? null : `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}`
  const authorization = basic ?? (token === undefined ? null : `Bearer ${token}`)
  return {
    base: url.href.replace(/\/+$/, ''),
    headers: { 'content-type': 'application/json', ...(authorization === null ? {} : { authorization }) },
  }
}
