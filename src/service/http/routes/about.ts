/**
 * `GET /`, which says what this server is, and the error for an unknown path, which suggests the path that was probably
 * meant.
 */
import { NotFoundError } from '#base/errors/errors.js'
import type { AppOptions } from '../environment.js'
import { handlers, patternOf } from '../handlers.js'

export function aboutHandlers(options: Pick<AppOptions, 'version' | 'publicAddress' | 'home' | 'table'>) {
  return handlers({
    'GET /': ({ c }) => {
      const address = options.publicAddress.of(c)
      c.header('vary', 'Accept', { append: true })
      if (options.home !== null && prefersHtml(c.req.header('accept'))) return c.redirect(address + options.home)
      return {
        name: 'trainyard',
        version: options.version,
        description: 'a self-hosted post-training service: create, chat with and train language models by RL and SFT',
        api: `${address}/v1`,
        endpoints: options.table.apiRoutes.map((route) => `${route.method} ${patternOf(route)}`),
        docs: `${address}/docs`,
        ...(options.home === null ? {} : { ui: address + options.home }),
        start: 'trainyard --help, or GET /v1/models with your API key',
      }
    },
  })
}

/** Whether a client asks for a page more than for JSON, as a browser's address line does; `*` says nothing. */
function prefersHtml(accept = ''): boolean {
  const weights = new Map(
    accept.split(',').map((part) => {
      const [type = '', ...parameters] = part
        .toLowerCase()
        .split(';')
        .map((text) => text.trim())
      const weight = Number(parameters.find((text) => text.startsWith('q='))?.slice(2) ?? 1)
      return [type, Number.isNaN(weight) ? 0 : weight] as const
    }),
  )
  return (weights.get('text/html') ?? 0) > (weights.get('application/json') ?? 0)
}

/** Paths of other services of this kind, and what is here instead. */
const ELSEWHERE: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/^\/completions\/?$/, 'POST /v1/completions'],
  [/^\/responses\b/, 'POST /v1/responses'],
  [/^\/messages\b/, 'POST /v1/messages'],
  [/^\/(?:chat\/completions|api\/(?:chat|generate))\/?$/, 'POST /v1/chat/completions'],
  [/^\/load\/?$/, 'GET /metrics, where vllm:num_requests_running and vllm:num_requests_waiting are its parts'],
  [
    /^\/v1\/(?:un)?load_lora_adapter\/?$/,
    'models, which have adapters of their own: POST /v1/preview/models, DELETE /v1/preview/models/{id}',
  ],
  [/^\/fine_tuning\b|^(?:\/v1)?\/fine[-_]tunes\b/, '/v1/fine_tuning/jobs'],
  [/^\/(?:v1\/)?preview\/(?:jobs|training_jobs|rl-training-jobs)\b/, '/v1/preview/training-jobs'],
  [/^\/(?:models|api\/tags)\b/, 'GET /v1/models, or /v1/preview/models for models that train'],
  [/^\/(?:preview|files|system-check|whoami)\b/, 'the same path below /v1'],
  [/^\/v1\/v1\//, 'the path with one /v1: the base URL has another'],
  [/^\/v1\/(?:assistants|threads|conversations)\b/, 'POST /v1/responses, with previous_response_id for what was said'],
  [/^\/v1\/messages\/batches\b/, 'POST /v1/messages, many at once: they are computed together'],
  [/^\/v1\/models\/./, '/v1/preview/models/{id} for models that train'],
  [/^\/v1\/organization\b/, 'GET /v1/usage, or /v1/preview/keys for keys'],
  [/^\/v1\/responses\/[^/]+\/cancel$/, 'a closed connection: that ends an answer'],
]

/** What other services of this kind have and this one has nothing like. */
const ABSENT: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [
    /^(?:\/v1)?\/(?:embeddings|api\/embed|rerank|score|pooling|classify)\b/,
    'models here write text and make no embeddings',
  ],
  [/^\/v1\/(?:images|audio|videos|realtime|moderations)\b/, 'models here read and write text'],
  [/^\/v1\/(?:vector_stores|containers|skills|chatkit)\b/, 'tools run in your own program'],
  [/^\/v1\/fine_tuning\/(?:checkpoints|alpha)\b/, 'checkpoints are not shared, and graders run in your own program'],
  [/^\/v1\/chat\/completions\/./, 'chat completions are not stored'],
  [
    /^\/api\/v1\/training_runs\/.*\/publish\/?$/,
    'nothing that is saved is public; `tinker checkpoint download` fetches it for others, and a key of the same project lets them use it here',
  ],
  [
    /^\/api\/v1\/sessions\/[^/]+\/trace_export\/?$/,
    'requests of a session are not kept as a trace; `tinker run info` and `trainyard sessions list` say what a run did',
  ],
  [/^\/api\/v1\/billing\b/, 'nothing is billed; `trainyard usage` counts what was used'],
  [/^\/api\/v1\/auth\b/, 'there is nobody to sign in; TINKER_API_KEY is a key of this server with tml- before it'],
]

/** The error for a path that is not here. */
export function unknownPath(method: string, path: string): NotFoundError {
  const instead = ELSEWHERE.find(([pattern]) => pattern.test(path))?.[1]
  const absent = ABSENT.find(([pattern]) => pattern.test(path))?.[1]
  if (absent !== undefined) {
    return new NotFoundError('not_found', `${method} ${path.slice(0, 200)} does not exist here: ${absent}`)
  }
  // FastAPI's words, which is what clients of the hosted service compare.
  if (instead === undefined) return new NotFoundError('not_found', 'Not Found', { hint: 'GET / lists what is here' })
  return new NotFoundError('not_found', `${method} ${path.slice(0, 200)} is not served here; use ${instead}`)
}
