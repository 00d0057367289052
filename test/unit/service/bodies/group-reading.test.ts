/** Metrics of a job's trajectories: what is taken when it is created is taken from its worker at its end, and anything more is refused at once. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { workerCompletionSchema, workerEventsSchema } from '#contract/processes/worker.js'
import { METRICS_OF_CLIENTS } from '#contract/wire/maxima.js'
import { logMetrics } from '#formats/rows/metrics.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { createGroupReading } from '#service/bodies/group-reading.js'
import { checkMetricNames } from '#service/operations/training/trajectory-groups.js'
import { bodyOf } from '../../../support/service/with-plugins.js'

const { names: MOST, nameLength: LONGEST } = METRICS_OF_CLIENTS
const METRICS_OF_A_WORKER = 100

let folder = ''
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metric-names-'))
})
afterEach(async () => await rm(folder, { recursive: true, force: true }))

const numbered = (count: number, from = 0): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${from + i}`.padEnd(LONGEST, 'x'), 1]))
/** A group for each list of the metrics of its trajectories, the first one with metrics of its own. */
const groupsWith = (lists: readonly (readonly JsonObject[])[], own: JsonObject = {}) =>
  lists.map((metrics, g) => ({
    trajectories: metrics.map((each) => ({
      messages_and_choices: [{ role: 'user', content: 'q' }],
      reward: 0,
      metrics: each,
    })),
    metrics: g === 0 ? own : {},
  }))

/** What the service reads of a job's body. */
function read(groups: JsonObject[]) {
  const bytes = Buffer.from(
    JSON.stringify({ model_id: '00000000-0000-4000-8000-000000000000', trajectory_groups: groups }),
  )
  const name = 'POST /v1/preview/training-jobs'
  const task = { name, source: { bytes }, targetPath: join(folder, 'groups.jsonl'), maxGroupBytes: 2 ** 26 } as const
  const reading = createGroupReading(task, bodyOf(name))
  for (;;) {
    const result = reading.step()
    if (result !== null) return result
  }
}

it('as many and as long names as are taken fit into the checkpoint, with all that a worker adds', () => {
  const groups = groupsWith([[numbered(MOST - 500)], [numbered(10), { left: 1, out: 1 }]], numbered(498))
  expect(() => checkMetricNames(read(groups))).not.toThrow()
  const own = Object.fromEntries(Array.from({ length: METRICS_OF_A_WORKER }, (_, i) => [`train/own_${i}`, 1]))
  const metrics = { ...logMetrics(parseTrajectoryGroups(groups), 'train'), ...own }
  expect(Object.keys(metrics).length).toBeGreaterThan(MOST + METRICS_OF_A_WORKER)
  expect(() => workerCompletionSchema.parse({ files: {}, metrics })).not.toThrow()
  expect(() =>
    workerEventsSchema.parse({ offset: 0, events: [{ type: 'gradient_step', data: metrics }] }),
  ).not.toThrow()
})

it.each<[string, JsonObject[], string]>([
  [
    'one name too many, over several groups',
    groupsWith([[numbered(MOST - 1)], [{}, numbered(1, MOST), numbered(1, MOST + 1)]]),
    'trajectory_groups[1].trajectories[2].metrics brings',
  ],
  ['one name too many of a group', groupsWith([[{ a: 1 }]], numbered(MOST + 1)), 'trajectory_groups[0].metrics brings'],
  [
    'a name that is too long',
    groupsWith([[{ ok: 1, ['n'.repeat(LONGEST + 1)]: 1 }]]),
    `trajectory_groups[0].trajectories[0].metrics has the name "${'n'.repeat(40)}…" of ${LONGEST + 1} characters`,
  ],
])('%s is refused when the job is created', (_, groups, message) => {
  expect(() => checkMetricNames(read(groups))).toThrow(
    expect.objectContaining({ code: 'invalid_metric', message: expect.stringContaining(message) }),
  )
})
