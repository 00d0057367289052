/**
 * The client's calls about what a job trained on.
 */
import type { GivenQuery } from '#contract/endpoints/table.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import type { Http } from './http.js'
import * as answers from './rollout-answers.js'

const JOB = '/v1/preview/training-jobs/{training_job_id}'
const DATA = `GET ${JOB}/data` as const
const GROUP = `GET ${JOB}/groups/{group}` as const
const TRAJECTORY = `${GROUP}/trajectories/{trajectory}` as const
const TOKENS = `${TRAJECTORY}/tokens` as const
const SCORES = `${TRAJECTORY}/scores` as const

/** Which trajectory of which job, both counted from 0. */
export interface TrajectoryPlace {
  readonly jobId: string
  readonly group: number
  readonly trajectory: number
}

export function createRolloutCalls(http: Http) {
  const { ask, listOf, one } = createCalls(http)
  const idsOf = ({ jobId, group, trajectory }: TrajectoryPlace) => [jobId, group, trajectory]
  return {
    /** The open body of the rows as they were sent, JSON Lines. */
    data: (jobId: string, { signal }: CallOptions = {}) =>
      http.open(requestOf(DATA, { ids: [jobId] }, { isLong: true, signal })),
    deleteData: one(`DELETE ${JOB}/data`, answers.deletedTrainingData),
    groups: listOf(`GET ${JOB}/groups`, answers.rolloutGroups),
    group: (jobId: string, group: number, call: CallOptions = {}) =>
      ask(GROUP, answers.rolloutGroup, { ids: [jobId, group] }, call),
    trajectory: (place: TrajectoryPlace, call: CallOptions = {}) =>
      ask(TRAJECTORY, answers.rolloutTrajectory, { ids: idsOf(place) }, call),
    tokens: (place: TrajectoryPlace, query: GivenQuery<typeof TOKENS> = {}, call: CallOptions = {}) =>
      ask(TOKENS, answers.rolloutTokens, { ids: idsOf(place), query }, call),
    /** Runs the tokens through a checkpoint of the job's model. */
    scores: (place: TrajectoryPlace, query: GivenQuery<typeof SCORES> = {}, call: CallOptions = {}) =>
      ask(SCORES, answers.rolloutScores, { ids: idsOf(place), query }, { isLong: true, ...call }),
  }
}
