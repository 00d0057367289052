/**
 * The client's calls about what a job trained on.
 */
import type { GivenQuery } from '#contract/endpoints/table.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { ProtocolError } from './errors.js'
import { type Http, type HttpRequest, sourceOf } from './http.js'
import * as answers from './rollout-answers.js'

const JOB = '/v1/preview/training-jobs/{training_job_id}'
const DATA = `GET ${JOB}/data` as const
const GROUP = `GET ${JOB}/groups/{group}` as const
const TRAJECTORY = `${GROUP}/trajectories/{trajectory}` as const
const TOKENS = `${TRAJECTORY}/tokens` as const
const SCORES = `${TRAJECTORY}/scores` as const

/** Longest row, in UTF-16 units: V8 has no longer text, and a service may be set to take groups of about as much. */
const MAX_ROW_LENGTH = 0x1fffffe8

/** Which trajectory of which job, both counted from 0. */
export interface TrajectoryPlace {
  readonly jobId: string
  readonly group: number
  readonly trajectory: number
}

/** @param baseUrl for sentences about answers */
export function createRolloutCalls(http: Http, baseUrl: string) {
  const { ask, listOf, one } = createCalls(http)
  const idsOf = ({ jobId, group, trajectory }: TrajectoryPlace) => [jobId, group, trajectory]
  return {
    /** The rows as they were sent, each the text of a JSON object. */
    rows: (jobId: string, { signal }: CallOptions = {}) =>
      readRows({ http, baseUrl }, requestOf(DATA, { ids: [jobId] }, { isLong: true, signal })),
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

/**
 * Rows of an endpoint that answers JSON Lines, each the text of an object.
 *
 * @throws {ProtocolError} for what no Trainyard server sends
 */
export async function* readRows(
  { http, baseUrl }: { readonly http: Pick<Http, 'open'>; readonly baseUrl: string },
  request: HttpRequest,
): AsyncGenerator<string> {
  const { body, headers } = await http.open(request)
  let count = 0
  for await (const line of body === null ? [] : linesOf(body, noEnd)) {
    if (!isRow(line)) throw noRows(line)
    count += 1
    yield line
  }
  // there may be none
  if (count === 0 && headers.get('content-type') !== 'application/jsonl') throw noRows('')

  function noEnd(): ProtocolError {
    const source = sourceOf(baseUrl, request)
    return new ProtocolError(
      `${source} answered a line of more than ${MAX_ROW_LENGTH} characters, expected rows as a Trainyard server sends them`,
    )
  }
  function noRows(line: string): ProtocolError {
    const given = line === '' ? 'nothing' : JSON.stringify(line.slice(0, 60))
    const source = sourceOf(baseUrl, request)
    return new ProtocolError(`${source} answered ${given}, expected rows as a Trainyard server sends them`)
  }
}

/** A line is put together once, when it is whole. @throws what `noEnd` makes, for one beyond the limit */
async function* linesOf(body: AsyncIterable<Uint8Array>, noEnd: () => ProtocolError): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let parts: string[] = []
  let length = 0
  for await (const part of body) {
    const [first = '', ...others] = decoder.decode(part, { stream: true }).split('\n')
    parts.push(first)
    length += first.length
    if (length > MAX_ROW_LENGTH) throw noEnd()
    for (const next of others) {
      const line = parts.join('')
      if (line.trim() !== '') yield line
      parts = [next]
      length = next.length
    }
  }
  const rest = parts.join('') + decoder.decode()
  if (rest.trim() !== '') yield rest
}

function isRow(line: string): boolean {
  try {
    const row: unknown = JSON.parse(line)
    return typeof row === 'object' && row !== null && !Array.isArray(row)
  } catch {
    return false
  }
}
