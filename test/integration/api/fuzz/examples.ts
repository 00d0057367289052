/**
 * Bodies as clients send them, of routes whose schemas leave much open: what is mutated of them comes further than what a schema alone makes.
 * Null stands for the name of something that exists.
 */
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { Key } from '#contract/endpoints/endpoint.js'
import { sampleGroup } from '../../../support/service/create-test-service.js'

const MODEL = 'trainyard/tiny-random'
const user = (content: JsonValue) => ({ role: 'user', content })
const said = { role: 'assistant', content: 'yes' }
const parameters = { type: 'object', properties: { city: { enum: ['Rome', 'Paris'] } }, required: ['city'] }
const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } }

const BLOCKS: readonly JsonObject[] = [
  { model: MODEL, max_tokens: 4, messages: [user('hello')], system: [{ type: 'text', text: 'Be brief.' }] },
  {
    ...{ model: MODEL, max_tokens: 6, stream: true, temperature: 1, top_k: 3, stop_sequences: ['e'] },
    messages: [
      user([{ type: 'text', text: 'hello', cache_control: { type: 'ephemeral' } }]),
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'well', signature: '' },
          { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Rome' } },
        ],
      },
      user([
        { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'sun' }], is_error: false },
      ]),
    ],
    tools: [{ name: 'weather', description: 'Tells it.', input_schema: parameters }],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 1024 },
  },
]
const CHAT: readonly JsonObject[] = [
  { model: MODEL, messages: [user('hello')], max_tokens: 4, logprobs: true, top_logprobs: 2, n: 2, seed: 1 },
  {
    ...{ model: MODEL, max_tokens: 6, stream: true, stream_options: { include_usage: true } },
    messages: [user('a'), { ...said, tool_calls: [call] }, { role: 'tool', tool_call_id: 'call_1', content: 'sun' }],
    tools: [{ type: 'function', function: { name: 'weather', parameters } }],
    tool_choice: 'required',
  },
  {
    ...{ model: MODEL, messages: [user('a')], max_tokens: 5 },
    response_format: { type: 'json_schema', json_schema: { name: 'w', schema: parameters } },
  },
]
const MARK = { mark: 'bad', edited: 'no', note: 'a note' }
const row = { tokens: [1, 20, 30] }
const sampling = { max_tokens: 2, temperature: 1, top_k: -1, top_p: 1, seed: 3, stop: ['x'] }

export const EXAMPLES: Partial<Readonly<Record<Key, readonly JsonObject[]>>> = {
  'POST /v1/messages': BLOCKS,
  'POST /v1/messages/count_tokens': BLOCKS.map(({ max_tokens: _, stream: __, temperature: ___, ...more }) => more),
  'POST /v1/chat/completions': CHAT,
  'POST /v1/completions': [{ model: MODEL, prompt: ['a', 'b'], max_tokens: 3, logprobs: 2, echo: true }],
  'POST /v1/responses': [
    { model: MODEL, input: [{ role: 'user', content: [{ type: 'input_text', text: 'a' }] }], max_output_tokens: 16 },
  ],
  'POST /tokenize': [{ model: MODEL, messages: [user('a')], return_token_strs: true }],
  'POST /v1/preview/models/{model_id}/probes': [
    { messages: [{ role: 'system', content: 'Be brief.' }, user('Say yes.')], max_tokens: 3 },
  ],
  'POST /v1/preview/models/{model_id}/probes/{probe_id}/answers': [{ steps: [0, 1] }],
  'POST /v1/preview/models/{model_id}/marks': [
    { ...MARK, messages: [user('a')], answer: said, other: said, tools: [{ type: 'function' }], step: 1 },
    {
      mark: 'good',
      messages: [user([{ type: 'text', text: 'a' }])],
      answer: { role: 'assistant', content: null, tool_calls: [call], reasoning: 'well' },
    },
  ],
  'PUT /v1/preview/training-jobs/{training_job_id}/groups/{group}/trajectories/{trajectory}/mark': [
    MARK,
    { mark: 'good', pair_with: 1 },
  ],
  'PUT /v1/preview/models/{model_id}/log/{log_id}/groups/{group}/trajectories/{trajectory}/mark': [
    MARK,
    { mark: 'good', pair_with: 1 },
  ],
  'PUT /v1/preview/models/{model_id}/keep-rule': ['all', 'last 5, best val/reward, every 10', null].map((rule) => ({
    rule,
  })),
  'PUT /v1/preview/models/{model_id}/note': [{ description: 'asks back', tags: ['best', 'v2'] }],
  'POST /v1/preview/models/{model_id}/log': [
    { split: 'val', trajectory_groups: [{ trajectories: [{ messages_and_choices: [user('a'), said], reward: 1 }] }] },
  ],
  'POST /v1/preview/training-jobs': [
    { model_id: null, trajectory_groups: [sampleGroup() as JsonObject], config: { learning_rate: 1e-3 } },
  ],
  'POST /v1/preview/sft-training-jobs': [{ model_id: null, training_data_url: null, config: { batch_size: 1 } }],
  'POST /v1/fine_tuning/jobs': [{ model: MODEL, training_file: null, hyperparameters: { n_epochs: 1 } }],
  'POST /api/v1/create_model': [{ session_id: null, model_seq_id: null, base_model: MODEL, lora_config: null }],
  'POST /api/v1/load_weights': [
    { model_id: null, seq_id: null, path: null, optimizer: false },
    { session_id: null, model_seq_id: null, path: null, optimizer: true },
  ],
  'POST /internal/worker/jobs/{job_id}/events': [
    {
      offset: null,
      events: [
        { type: 'training_started', data: { num_sequences: 2 } },
        { type: 'gradient_step', data: { 'loss/train': 0.5, step: 1 } },
      ],
      computing: null,
    },
  ],
  'POST /internal/worker/jobs/{job_id}/complete': [{ files: null, metrics: { 'loss/train': 0.5 } }],
  'POST /internal/worker/claims': [{ worker: null, wait_seconds: null, left: { reason: 'it ends', is_orderly: true } }],
  'POST /internal/engine/nodes': [
    {
      ...{ id: null, name: 'far', url: null, token: null, engine: null, versions: null, device: 'cpu' },
      ...{ base_model: null, context_length: 96, slots: 4, running: 0, waiting: 0, adapters: [] },
    },
  ],
  'POST /api/v1/asample': [
    {
      ...{ num_samples: 2, prompt: { chunks: [{ type: 'encoded_text', ...row }] }, sampling_params: sampling },
      ...{ base_model: MODEL, prompt_logprobs: true, topk_prompt_logprobs: 2, topk_sample_logprobs: 1 },
    },
  ],
}
