/**
 * Endpoints of Anthropic's Messages API.
 */
import { z } from 'zod'
import { CONVERSATION } from '#contract/endpoints/bodies.js'
import { endpoints, type JsonBody } from '#contract/endpoints/endpoint.js'
import { type Fields, fieldsOf, itemsOf, saidNames } from '#contract/wire/inference/unread-fields.js'
import type { PluginEndpoints } from '#service/plugin.js'
import { messageErrors } from './errors.js'
import { countMessageTokensRequestSchema, messageRequestSchema, messageSchema, messageTokensSchema } from './wire.js'

const anthropic = { tag: 'Chat and text', origin: 'Anthropic', scope: 'read' } as const

/** A conversation in Anthropic's blocks. */
function blocks<S extends z.ZodType>(schema: S): JsonBody<S> {
  return { schema, size: 'chatBytes', reader: CONVERSATION, idle: unreadBlockFieldsOf }
}

/** What of a request says what no template is told, as `unreadFieldsOf`. */
function unreadBlockFieldsOf({
  messages,
  thinking,
  metadata,
  output_config: output,
  ...request
}: Fields): readonly string[] {
  const isFailed = itemsOf(messages).some(({ content }) => itemsOf(content).some((block) => block['is_error'] === true))
  const mustCallTools =
    itemsOf(request['tools']).length > 0 && ['any', 'tool'].includes(String(fieldsOf(request['tool_choice'])['type']))
  const format = fieldsOf(output)['format'] ?? null
  return [
    ...saidNames(fieldsOf(thinking), ['type']).map((name) => `thinking.${name}`),
    ...saidNames(fieldsOf(metadata), []).map((name) => `metadata.${name}`),
    ...(fieldsOf(request['thread'])['type'] === 'create' ? ['thread'] : []),
    ...(mustCallTools && format !== null ? ['output_config.format'] : []),
    ...(isFailed ? ['messages[].content[].is_error'] : []),
  ]
}

const MESSAGES = endpoints({
  'POST /v1/messages': {
    ...anthropic,
    summary: "Answer a conversation in Anthropic's format",
    body: blocks(messageRequestSchema),
    answer: messageSchema,
    stream: z.looseObject({ type: z.string() }),
    isAdmitted: true,
  },
  'POST /v1/messages/count_tokens': {
    ...anthropic,
    summary: 'Count the tokens of its prompt',
    body: blocks(countMessageTokensRequestSchema),
    answer: messageTokensSchema,
  },
})

export const messageEndpoints = {
  runs: [{ after: 'POST /v1/completions', rows: MESSAGES }],
  errors: messageErrors,
} as const satisfies PluginEndpoints
