/**
 * Endpoints of base models, models, their checkpoints, runs and logs.
 */
import {
  checkpointFilesQuerySchema,
  checkpointFilesSchema,
  checkpointListSchema,
  deleteCheckpointsRequestSchema,
  deleteCheckpointsResponseSchema,
  keepRuleSchema,
  setKeepRuleSchema,
} from '../wire/checkpoints.js'
import { orderedPageQuerySchema } from '../wire/list.js'
import { compareLogsQuerySchema, logComparisonSchema } from '../wire/log-comparison.js'
import { modelMetricsQuerySchema, modelMetricsSchema } from '../wire/model-metrics.js'
import {
  addBaseModelRequestSchema,
  baseModelListSchema,
  baseModelSchema,
  baseModelsResponseSchema,
  createModelRequestSchema,
  deleteBaseModelResponseSchema,
  deleteModelResponseSchema,
  listModelsQuerySchema,
  modelListSchema,
  modelNoteSchema,
  modelSchema,
  setModelNoteSchema,
} from '../wire/models.js'
import {
  listTrajectoryLogsQuerySchema,
  logTrajectoriesRequestSchema,
  logTrajectoriesResponseSchema,
  trajectoryLogListSchema,
} from '../wire/trajectories.js'
import { groups, small } from './bodies.js'
import { endpoints } from './endpoint.js'

const tag = 'Models'

export const MODELS = endpoints({
  'GET /v1/preview/base-models': {
    tag,
    summary: 'List names that models are created from',
    origin: 'hosted',
    scope: 'open',
    answer: baseModelsResponseSchema,
  },
  'POST /v1/preview/base-models': {
    tag,
    summary: 'Add a base model, from a hub or from the data directory',
    origin: 'ours',
    // everybody shares base models, and the server's disk
    scope: 'admin',
    body: small(addBaseModelRequestSchema),
    answer: baseModelSchema,
    alsoWith: [202],
  },
  'GET /v1/preview/base-models/details': {
    tag,
    summary: 'List base models with what is known of them',
    origin: 'ours',
    scope: 'read',
    answer: baseModelListSchema,
  },
  'GET /v1/preview/base-models/{+name}': {
    tag,
    summary: 'Get a base model',
    origin: 'ours',
    scope: 'read',
    answer: baseModelSchema,
  },
  'DELETE /v1/preview/base-models/{+name}': {
    tag,
    summary: 'Remove a base model that was added',
    origin: 'ours',
    scope: 'admin',
    answer: deleteBaseModelResponseSchema,
  },
  'POST /v1/preview/models': {
    tag,
    summary: 'Create a model',
    origin: 'hosted',
    scope: 'write',
    body: small(createModelRequestSchema),
    answer: modelSchema,
  },
  'GET /v1/preview/models': {
    tag,
    summary: 'List models',
    origin: 'ours',
    scope: 'read',
    query: listModelsQuerySchema,
    answer: modelListSchema,
  },
  'GET /v1/preview/models/{model_id}': {
    tag,
    summary: 'Get a model',
    origin: 'ours',
    scope: 'read',
    answer: modelSchema,
  },
  'DELETE /v1/preview/models/{model_id}': {
    tag,
    summary: 'Delete a model with all its checkpoints',
    origin: 'hosted',
    scope: 'write',
    answer: deleteModelResponseSchema,
  },
  'GET /v1/preview/models/{model_id}/metrics': {
    tag,
    summary: 'Get the curves of a model, also of steps whose checkpoints were deleted',
    origin: 'ours',
    scope: 'read',
    query: modelMetricsQuerySchema,
    answer: modelMetricsSchema,
  },
  'GET /v1/preview/models/{model_id}/checkpoints': {
    tag,
    summary: 'List checkpoints by step',
    origin: 'hosted',
    scope: 'read',
    query: orderedPageQuerySchema,
    answer: checkpointListSchema,
    parameters: { order: '`asc`: lowest step first, `desc`: highest step first; default `asc`' },
  },
  'GET /v1/preview/models/{model_id}/note': {
    tag,
    summary: 'Get what was written about a model',
    origin: 'ours',
    scope: 'read',
    answer: modelNoteSchema,
  },
  'PUT /v1/preview/models/{model_id}/note': {
    tag,
    summary: 'Write a description and tags of a model',
    origin: 'ours',
    scope: 'write',
    body: small(setModelNoteSchema),
    answer: modelNoteSchema,
  },
  'GET /v1/preview/models/{model_id}/keep-rule': {
    tag,
    summary: 'Get which checkpoints of a model stay, and what the rule deletes',
    origin: 'ours',
    scope: 'read',
    answer: keepRuleSchema,
  },
  'PUT /v1/preview/models/{model_id}/keep-rule': {
    tag,
    summary: 'Set which checkpoints of a model stay',
    origin: 'ours',
    scope: 'write',
    body: small(setKeepRuleSchema),
    answer: keepRuleSchema,
  },
  'DELETE /v1/preview/models/{model_id}/checkpoints': {
    tag,
    summary: 'Delete checkpoints by step',
    origin: 'hosted',
    scope: 'write',
    body: small(deleteCheckpointsRequestSchema),
    answer: deleteCheckpointsResponseSchema,
  },
  'GET /v1/preview/models/{model_id}/checkpoints/{step}/files': {
    tag,
    summary: 'List the files of a checkpoint',
    origin: 'ours',
    scope: 'read',
    query: checkpointFilesQuerySchema,
    answer: checkpointFilesSchema,
  },
  'GET /v1/preview/models/{model_id}/checkpoints/{step}/files/{name}': {
    tag,
    summary: 'Download a file of a checkpoint',
    origin: 'ours',
    scope: 'read',
    query: checkpointFilesQuerySchema,
    answer: 'application/octet-stream',
    parameters: { name: 'Name of the file, as the list of the same format has it' },
  },
  'POST /v1/preview/models/{model_id}/log': {
    tag,
    summary: 'Store trajectory groups as an evaluation',
    origin: 'hosted',
    scope: 'write',
    body: groups(logTrajectoriesRequestSchema),
    answer: logTrajectoriesResponseSchema,
  },
  'GET /v1/preview/models/{model_id}/log': {
    tag,
    summary: 'List what was logged, newest first',
    origin: 'ours',
    scope: 'read',
    query: listTrajectoryLogsQuerySchema,
    answer: trajectoryLogListSchema,
  },
  'GET /v1/preview/models/{model_id}/log/compare': {
    tag,
    summary: 'Compare what was logged at two steps, prompt by prompt',
    origin: 'ours',
    scope: 'read',
    query: compareLogsQuerySchema,
    answer: logComparisonSchema,
    parameters: { split: 'Split that was logged' },
  },
  'GET /v1/preview/models/{model_id}/log/{log_id}/groups': {
    tag,
    summary: 'Read the trajectory groups of a log, one a line',
    origin: 'ours',
    scope: 'read',
    answer: 'application/jsonl',
  },
})
