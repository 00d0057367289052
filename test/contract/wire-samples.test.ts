/**
 * Wire samples both ways: bodies as upstream's clients send them must fit our schemas, and our answers must hold every
 * field the published schemas require. Changing a sample needs a decision: it is a promise to callers.
 *
 * Source of the samples: what the client library openpipe-art sends and reads, restated.
 */

import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { chatRequestSchema, chatResponseSchema } from '#contract/wire/chat-completions.js'
import { checkpointListSchema, deleteCheckpointsRequestSchema } from '#contract/wire/checkpoints.js'
import { errorBodySchema } from '#contract/wire/errors.js'
import { EVENT_TYPES } from '#contract/wire/job-words.js'
import { createModelRequestSchema, modelSchema } from '#contract/wire/models.js'
import {
  createRlJobRequestSchema,
  createSftJobRequestSchema,
  trainingEventListSchema,
  trainingJobSchema,
} from '#contract/wire/training-jobs.js'
import { logTrajectoriesRequestSchema, trajectoryGroupSchema } from '#contract/wire/trajectories.js'
/** Every key of `experimental_config` as `backend.train()` sends it when the user changes nothing. */
import defaultConfig from '../fixtures/trajectories/client-default-config.json' with { type: 'json' }

const ID = '01a1fd9c-2998-714d-8b5f-9a608c2e50ba'

const GROUP = {
  trajectories: [
    {
      messages_and_choices: [
        { role: 'system', content: 'You are terse.' },
        { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
        {
          finish_reason: 'stop',
          index: 0,
          logprobs: {
            content: [{ token: 'token_id:9707', bytes: [72, 105], logprob: -0.1, top_logprobs: [] }],
            refusal: null,
          },
          message: {
            content: 'Hi',
            refusal: null,
            role: 'assistant',
            annotations: null,
            audio: null,
            function_call: null,
            tool_calls: null,
          },
          stop_reason: null,
          token_ids: [9707],
          prompt_token_ids: [1, 2, 3],
        },
      ],
      tools: null,
      additional_histories: [],
      reward: 1.0,
      initial_policy_version: null,
      final_policy_version: null,
      metrics: { correct: true, turns: 2 },
      metadata: { scenario_id: 'a', difficulty: 3, hard: false, note: null },
      logs: ['started'],
      start_time: '2026-11-20T09:12:44.123456',
    },
  ],
  exceptions: [{ type: 'builtins.ValueError', message: 'x', traceback: 'Traceback' }],
  metadata: {},
  metrics: {},
  logs: [],
}

const REQUESTS: readonly (readonly [name: string, schema: z.ZodType, body: unknown])[] = [
  [
    'register a model',
    createModelRequestSchema,
    { entity: null, project: 'p', name: 'n', base_model: 'Qwen/Qwen3-14B', return_existing: true },
  ],
  ['delete checkpoints', deleteCheckpointsRequestSchema, { steps: [0, 1, 2] }],
  ['log', logTrajectoriesRequestSchema, { model_id: ID, split: 'val', trajectory_groups: [GROUP] }],
  [
    'train by RL',
    createRlJobRequestSchema,
    { model_id: ID, trajectory_groups: [GROUP], experimental_config: defaultConfig },
  ],
  [
    'train by RL without a config',
    createRlJobRequestSchema,
    { model_id: ID, trajectory_groups: [], experimental_config: null },
  ],
  ['a trajectory group', trajectoryGroupSchema, GROUP],
  [
    'a group of the newest clients',
    trajectoryGroupSchema,
    { trajectories: [{ reward: 0.5, exchanges: { chat_completions: [] } }] },
  ],
  [
    'train by SFT',
    createSftJobRequestSchema,
    {
      model_id: ID,
      training_data_url: 'wandb-artifact:///e/p/n-sft-data-0123456789ab:v0',
      config: {
        learning_rate: [5e-5, 4e-5],
        assistant_turns: 'all',
        metric_logging: { enabled: true, target_training_step: 3 },
      },
      experimental_config: null,
    },
  ],
  [
    'chat as ART calls it',
    chatRequestSchema,
    {
      messages: [{ role: 'user', content: 'hi' }],
      model: 'wandb-artifact:///e/p/n:step3',
      return_token_ids: true,
      return_tokens_as_token_ids: true,
      logprobs: true,
      chat_template_kwargs: { preserve_thinking: true, enable_thinking: false },
    },
  ],
  [
    'chat with every published field at its default',
    chatRequestSchema,
    {
      messages: [
        { role: 'developer', content: 'd' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c', content: 'r' },
        { role: 'critic', content: 'custom role' },
      ],
      model: null,
      frequency_penalty: 0,
      presence_penalty: 0,
      logit_bias: null,
      logprobs: false,
      top_logprobs: 0,
      max_tokens: null,
      max_completion_tokens: null,
      n: 1,
      response_format: null,
      seed: null,
      stop: [],
      stream: false,
      stream_options: null,
      temperature: null,
      top_p: null,
      tools: null,
      tool_choice: 'none',
      reasoning_effort: null,
      include_reasoning: true,
      parallel_tool_calls: true,
      user: null,
      use_beam_search: false,
      top_k: null,
      min_p: null,
      repetition_penalty: null,
      length_penalty: 1,
      stop_token_ids: [],
      include_stop_str_in_output: false,
      ignore_eos: false,
      min_tokens: 0,
      skip_special_tokens: true,
      spaces_between_special_tokens: true,
      truncate_prompt_tokens: null,
      prompt_logprobs: null,
      allowed_token_ids: null,
      bad_words: [],
      echo: false,
      add_generation_prompt: true,
      continue_final_message: false,
      add_special_tokens: false,
      documents: null,
      chat_template: null,
      chat_template_kwargs: null,
      mm_processor_kwargs: null,
      structured_outputs: null,
      priority: 0,
      request_id: 'r',
      return_tokens_as_token_ids: null,
      return_token_ids: null,
      cache_salt: null,
      kv_transfer_params: null,
      engine_xargs: null,
      repetition_detection: null,
    },
  ],
]

const REQUIRED: readonly (readonly [name: string, schema: z.ZodObject, fields: readonly string[]])[] = [
  ['model', modelSchema, ['id', 'entity', 'project', 'name', 'base_model', 'run_id']],
  ['checkpoint list', checkpointListSchema, ['object', 'data', 'first_id', 'last_id', 'has_more']],
  ['event list', trainingEventListSchema, ['object', 'data', 'first_id', 'last_id', 'has_more']],
  [
    'training job',
    trainingJobSchema,
    ['id', 'model_id', 'status', 'created_at', 'training_start', 'training_end', 'error_message'],
  ],
  ['error', errorBodySchema, ['error', 'detail', 'request_id']],
  [
    'chat completion',
    chatResponseSchema,
    [
      'id',
      'object',
      'created',
      'model',
      'choices',
      'usage',
      'service_tier',
      'system_fingerprint',
      'prompt_logprobs',
      'prompt_token_ids',
      'kv_transfer_params',
    ],
  ],
]

describe('requests as clients send them', () => {
  it.each(REQUESTS)('%s', (_, schema, body) => {
    const result = schema.safeParse(body)
    expect(result.success ? null : result.error.issues).toBeNull()
  })

  it('may carry fields nobody knows', () => {
    for (const [name, schema, body] of REQUESTS) {
      expect(schema.safeParse({ ...(body as object), not_published_yet: { x: [1] } }).success, name).toBe(true)
    }
  })
})

describe('answers', () => {
  it.each(REQUIRED)('%s has the published fields', (_, schema, fields) => {
    expect(Object.keys(schema.shape)).toEqual(expect.arrayContaining([...fields]))
  })

  it('know exactly the published event types', () => {
    expect([...EVENT_TYPES]).toEqual(['training_started', 'gradient_step', 'training_ended', 'training_failed'])
  })
})
