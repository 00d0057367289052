/**
 * Endpoints of recorded rollouts: what makes, ends and reads them; and what a program finds below the address of one, which
 * is what the server's own paths are. The token stands in the address, so no key is asked for there.
 */
import { z } from 'zod'
import { CONVERSATION, small } from '#contract/endpoints/bodies.js'
import { type Endpoint, endpoints, type JsonBody } from '#contract/endpoints/endpoint.js'
import { byBody, MAX_TOKEN_IDS } from '#contract/wire/maxima.js'
import type { ErrorForm } from '#service/http/environment.js'
import { shownError } from '#service/http/middleware/errors.js'
import type { PluginEndpoints } from '#service/plugin.js'
import {
  createdRolloutSchema,
  createRolloutRequestSchema,
  deletedRolloutSchema,
  finishRolloutRequestSchema,
  listRolloutsQuerySchema,
  recordedRolloutSchema,
  rolloutGroupsQuerySchema,
  rolloutListSchema,
  rolloutWithTrajectorySchema,
} from './wire.js'

const SECTION = 'Rollouts'
const ours = { tag: SECTION, origin: 'ours' } as const
const parameters = { rollout_id: 'Id of a rollout' }

const ROLLOUTS = endpoints({
  'POST /v1/preview/rollouts': {
    ...ours,
    summary: 'Open an address below which a program is recorded',
    scope: 'write',
    body: small(createRolloutRequestSchema),
    answer: createdRolloutSchema,
  },
  'GET /v1/preview/rollouts': {
    ...ours,
    summary: 'List rollouts, newest first',
    scope: 'read',
    query: listRolloutsQuerySchema,
    answer: rolloutListSchema,
    parameters: { run: 'Those of one run', session: 'Those of one `X-Session-ID`' },
  },
  'GET /v1/preview/rollout-groups': {
    ...ours,
    summary: 'Read a run as rows of `train rl`: a group for each task and group of it',
    scope: 'read',
    query: rolloutGroupsQuerySchema,
    answer: 'application/jsonl',
    parameters: { run: 'Which run', task: 'Of it one task', group: 'Of it one group of each task' },
  },
  'GET /v1/preview/rollouts/{rollout_id}': {
    ...ours,
    summary: 'Get a rollout with its trajectory',
    scope: 'read',
    answer: rolloutWithTrajectorySchema,
    parameters,
  },
  'POST /v1/preview/rollouts/{rollout_id}/finish': {
    ...ours,
    summary: 'End a rollout with its rewards, or with what went wrong',
    scope: 'write',
    body: small(finishRolloutRequestSchema),
    answer: recordedRolloutSchema,
    parameters,
  },
  'DELETE /v1/preview/rollouts/{rollout_id}': {
    ...ours,
    summary: 'Forget a rollout',
    scope: 'write',
    answer: deletedRolloutSchema,
    parameters,
  },
})

/** Any request: the path that it is passed on to checks it. */
function anything<S extends z.ZodType>(schema: S): JsonBody<S> {
  const reader = { ...CONVERSATION, maxValues: MAX_TOKEN_IDS, maxNestedValues: MAX_TOKEN_IDS }
  return { schema, size: 'chatBytes', reader }
}

const below = {
  ...{ tag: SECTION, origin: 'ours', scope: 'open', refusals: [401, 403, 429] },
  parameters: { token: 'The token of a rollout', model: 'Any name: it is the rollout’s model that is meant' },
} as const satisfies Partial<Endpoint>
const request = byBody(z.looseObject({}))
const asked = { ...below, body: anything(request), answer: byBody(z.looseObject({})) } as const
const answered = { ...asked, stream: byBody(z.looseObject({})), isAdmitted: true } as const

const DOORS = endpoints({
  'POST /r/{token}/v1/chat/completions': { ...answered, summary: 'Chat, recorded' },
  'POST /r/{token}/v1/completions': { ...answered, summary: 'Complete prompts, recorded' },
  'POST /r/{token}/v1/responses': { ...answered, summary: "OpenAI's responses, recorded; none is stored" },
  'POST /r/{token}/v1/messages': { ...answered, summary: "Anthropic's messages, recorded" },
  'POST /r/{token}/inference/v1/generate': { ...answered, summary: 'Tokens in, tokens out, recorded' },
  'POST /r/{token}/v1/messages/count_tokens': { ...asked, summary: 'Count the tokens of a prompt of messages' },
  'POST /r/{token}/v1/responses/input_tokens': { ...asked, summary: 'Count the tokens of a prompt of responses' },
  'POST /r/{token}/tokenize': { ...asked, summary: 'Text or a conversation to token ids' },
  'GET /r/{token}/v1/models': { ...below, summary: 'List the model of the rollout', answer: asked.answer },
  'GET /r/{token}/v1/models/{+model}': {
    ...below,
    summary: 'Describe the model of the rollout',
    answer: asked.answer,
  },
})
export type DoorKey = keyof typeof DOORS

/** What is refused at the door, in words that clients of every format read. What is passed on is answered in its own. */
const doorErrors: ErrorForm = {
  paths: /^\/r\//,
  requestIdHeader: 'request-id',
  toBody: (raw, requestId) => {
    const { error, type, message } = shownError(raw)
    const hint = error.hint === undefined ? {} : { hint: error.hint }
    const shown = { type, message, param: error.param ?? null, code: error.code, ...hint, ...error.details }
    return { type: 'error', error: shown, request_id: requestId }
  },
}

export const recordingEndpoints = {
  runs: [
    { after: 'DELETE /v1/preview/training-jobs/{training_job_id}/data', rows: ROLLOUTS },
    { after: 'POST /v1/completions', rows: DOORS },
  ],
  sections: [{ name: SECTION, after: 'Training' }],
  errors: doorErrors,
} as const satisfies PluginEndpoints
