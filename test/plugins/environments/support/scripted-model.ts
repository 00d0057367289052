/** Who answers what a test says, in place of a model: nothing else of an episode is not real. */

import type { ChatResponse } from '#contract/wire/chat-completions.js'
import type { AskedModel } from '#plugins/environments/source.js'
import { createClient } from '#sdk/client/client.js'
import { Trajectory } from '#sdk/rl/trajectory.js'

/** A text, or calls of tools. */
export type Said = string | readonly { readonly name: string; readonly arguments: object }[]

/** @param say what it answers, told what it was asked last */
export function scriptedModel(say: (asked: string, turn: number) => Said | Promise<Said>): AskedModel {
  return {
    client: createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: null }),
    name: 'scripted',
    sampling: {},
    trajectory: (messages, options = {}) => {
      let turn = 0
      return new Trajectory(messages, {
        ...options,
        ask: async ({ messages: asked }, { signal }) => {
          signal?.throwIfAborted()
          const said = await say(String(asked.at(-1)?.content ?? ''), turn)
          turn += 1
          return answerOf(said)
        },
      })
    },
  }
}

function answerOf(said: Said): ChatResponse {
  const calls = typeof said === 'string' ? [] : said
  const message = {
    role: 'assistant',
    content: typeof said === 'string' ? said : '',
    tool_calls: calls.map((call, i) => ({
      id: `call_${i}`,
      type: 'function',
      function: { name: call.name, arguments: JSON.stringify(call.arguments) },
    })),
  }
  const choice = { index: 0, finish_reason: 'stop', message, token_ids: [1], logprobs: null }
  const response: unknown = {
    id: 'x',
    object: 'chat.completion',
    created: 0,
    model: 'scripted',
    choices: [choice],
    prompt_token_ids: [0],
  }
  return response as ChatResponse
}
