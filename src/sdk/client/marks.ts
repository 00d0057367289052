/**
 * The client's calls about marks on answers, and what it needs of their answers.
 */
import type { GivenBody } from '#contract/endpoints/table.js'
import type { DeletedFile } from '#contract/wire/files.js'
import type { DeletedMark, FileFromMarks, Mark } from '#contract/wire/training/marks.js'
import { pageOf } from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import type { Http } from './http.js'
import type { TrajectoryPlace } from './rollouts.js'
import { anything, type Check, listOf, mapOf, maybe, number, objectOf, text, truth } from './shape.js'

const PUT = 'PUT /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/mark'
const PUT_LOGGED = 'PUT /v1/preview/models/{model_id}/log/{log_id}/groups/{group}/trajectories/{trajectory}/mark'
const MARKS = '/v1/preview/models/{model_id}/marks'

const messages = listOf(mapOf(anything))
const mark = objectOf<Mark>({
  id: text,
  object: anything,
  model_id: maybe(text),
  mark: text,
  source: text,
  training_job_id: maybe(text),
  log_id: maybe(text),
  group: maybe(number),
  trajectory: maybe(number),
  pair_with: maybe(number),
  step: maybe(number),
  prompt: messages,
  answer: messages,
  edited: maybe(text),
  other: maybe(messages),
  tools: maybe(messages),
  note: maybe(text),
  created_at: maybe(text),
  updated_at: maybe(text),
})
const fileFromMarks: Check<FileFromMarks> = objectOf<Pick<FileFromMarks, 'id' | 'rows' | 'marks' | 'left_out'>>({
  id: text,
  rows: number,
  marks: number,
  left_out: listOf(objectOf<FileFromMarks['left_out'][number]>({ reason: text, count: number })),
})
const deletedMark = objectOf<DeletedMark>({ id: text, object: anything, deleted: truth })
const deletedFile = objectOf<DeletedFile>({ id: text, object: anything, deleted: truth })

/** Which trajectory of which log of a model, counted from 0. */
export interface LoggedTrajectoryPlace {
  readonly modelId: string
  readonly logId: string
  readonly group: number
  readonly trajectory: number
}

export function createMarkCalls(http: Http) {
  const { ask, listOf: listOfOne } = createCalls(http)
  return {
    /** Of a trajectory a job trained on; replaces the mark that is there. */
    put: ({ jobId, group, trajectory }: TrajectoryPlace, json: GivenBody<typeof PUT>, call: CallOptions = {}) =>
      ask(PUT, mark, { ids: [jobId, group, trajectory], json }, call),
    /** Of a logged trajectory; replaces the mark that is there. */
    putLogged: (
      { modelId, logId, group, trajectory }: LoggedTrajectoryPlace,
      json: GivenBody<typeof PUT_LOGGED>,
      call: CallOptions = {},
    ) => ask(PUT_LOGGED, mark, { ids: [modelId, logId, group, trajectory], json }, call),
    /** Of an answer of a chat. */
    create: (modelId: string, json: GivenBody<`POST ${typeof MARKS}`>, call: CallOptions = {}) =>
      ask(`POST ${MARKS}`, mark, { ids: [modelId], json }, call),
    list: listOfOne(`GET ${MARKS}`, pageOf(mark)),
    delete: (modelId: string, id: string, call: CallOptions = {}) =>
      ask(`DELETE ${MARKS}/{mark_id}`, deletedMark, { ids: [modelId, id] }, call),
    /** A training file of the marks of a model; `id` is then a `training_data_url`. */
    toFile: (json: GivenBody<'POST /v1/files/from-marks'>, call: CallOptions = {}) =>
      ask('POST /v1/files/from-marks', fileFromMarks, { json }, { isLong: true, ...call }),
    /** The open body of a file. */
    openFile: (id: string, call: CallOptions = {}) =>
      http.open(requestOf('GET /v1/files/{file_id}/content', { ids: [id] }, { isLong: true, ...call })),
    deleteFile: (id: string, call: CallOptions = {}) =>
      ask('DELETE /v1/files/{file_id}', deletedFile, { ids: [id] }, call),
  }
}
