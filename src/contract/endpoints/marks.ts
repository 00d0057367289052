/**
 * Endpoints of marks: what a reader thinks of answers, and training files of that.
 */
import {
  createMarkRequestSchema,
  deletedMarkSchema,
  fileFromMarksRequestSchema,
  fileFromMarksSchema,
  listMarksQuerySchema,
  markListSchema,
  markSchema,
  putMarkRequestSchema,
} from '../wire/training/marks.js'
import { marked, small } from './bodies.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Training', origin: 'ours' } as const

export const MARKS_OF_ANSWERS = endpoints({
  'PUT /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/mark': {
    ...ours,
    summary: 'Mark a trajectory a job trained on as good or bad',
    scope: 'write',
    body: small(putMarkRequestSchema),
    answer: markSchema,
  },
  'PUT /v1/preview/models/{model_id}/log/{log_id}/groups/{group}/trajectories/{trajectory}/mark': {
    ...ours,
    summary: 'Mark a logged trajectory as good or bad',
    scope: 'write',
    body: small(putMarkRequestSchema),
    answer: markSchema,
  },
  'POST /v1/preview/models/{model_id}/marks': {
    ...ours,
    summary: 'Mark an answer of a chat as good or bad',
    scope: 'write',
    body: marked(createMarkRequestSchema),
    answer: markSchema,
  },
  'GET /v1/preview/models/{model_id}/marks': {
    ...ours,
    summary: 'List the marks of a model, newest first',
    scope: 'read',
    query: listMarksQuerySchema,
    answer: markListSchema,
    parameters: {
      group: 'Only marks on trajectories of the group with this index',
      trajectory: 'Only marks on trajectories with this index in their group',
      log_id: 'Only marks on trajectories of this log',
      mark: 'Only `good` or only `bad` ones',
      training_job_id: 'Only marks on trajectories of this training job',
    },
  },
  'DELETE /v1/preview/models/{model_id}/marks/{mark_id}': {
    ...ours,
    summary: 'Delete a mark',
    scope: 'write',
    answer: deletedMarkSchema,
  },
})

export const FILE_FROM_MARKS = endpoints({
  'POST /v1/files/from-marks': {
    tag: 'Files',
    origin: 'ours',
    summary: 'Make a training file of the marks of a model',
    scope: 'write',
    body: small(fileFromMarksRequestSchema),
    answer: fileFromMarksSchema,
  },
})
