/**
 * What engines do, under the names of vLLM's metrics (v0.17): requests, tokens, times.
 *
 * Seen from the server, by the messages that go to an engine host and come back: a message is one step. Prompt tokens count in
 * the step that makes the first token. `model_name` is the base model's, also for requests of its adapters.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Clock } from '#base/util/clock.js'
import type { DeltaEvent, HostEvent, PongEvent } from '#inference/host/protocol.js'
import type { EngineObserver, GenerateRequest } from '#service/processes/engine-process.js'

const FIRST_TOKEN_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
]
const NEXT_TOKEN_BUCKETS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
]
const REQUEST_BUCKETS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
const TOKEN_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
const SMALL_COUNT_BUCKETS = [1, 2, 5, 10, 20, 50, 100]

/** Of numbers below, at and above 0. */
const PRIORITIES: readonly Priority[] = ['first', 'normal', 'last']

type Labels = 'model_name' | 'engine'

/** A request's number is anything: of its waits there are three kinds. */
type Priority = 'first' | 'normal' | 'last'

interface OpenRequest {
  readonly sentMs: number
  readonly n: number
  readonly maxTokens: number | null
  readonly adapter: string | null
  readonly priority: Priority
  startedMs: number | null
  firstMs: number | null
  lastMs: number
  promptTokens: number
  outputTokens: number
  /** When each choice had its last token. */
  readonly lastOfChoice: Map<number, number>
  finishReason: DeltaEvent['finishReason']
}

/** What an engine says of itself. */
export interface EngineState {
  readonly baseModel: string
  readonly pong: Pick<PongEvent, 'kvCacheUsage' | 'preemptions'>
}

export interface EngineMetrics {
  /** Hears of the engine of one base model. */
  observer(baseModel: string): EngineObserver
}

/** Registers the metrics; they cost nothing until a request comes. */
export function createEngineMetrics(
  registry: Registry,
  { clock, askEngines }: { readonly clock: Clock; readonly askEngines: () => Promise<readonly EngineState[]> },
): EngineMetrics {
  const metrics = register(registry)
  registerStates(registry, askEngines)

  function observer(baseModel: string): EngineObserver {
    const labels = { model_name: baseModel, engine: '0' }
    const open = new Map<string, OpenRequest>()
    metrics.cacheConfig.set({ ...labels, block_size: '16', enable_prefix_caching: 'True' }, 1)
    const running = (): OpenRequest[] => [...open.values()].filter(({ startedMs }) => startedMs !== null)
    metrics.onScrape(() => {
      const started = running()
      const waiting = [...open.values()].filter(({ startedMs }) => startedMs === null)
      metrics.running.set(labels, started.length)
      metrics.waiting.set(labels, waiting.length)
      const names = (requests: readonly OpenRequest[]): string =>
        [...new Set(requests.flatMap(({ adapter }) => adapter ?? []))].sort().join(',')
      metrics.adapters.remove(labels)
      metrics.adapters.set(
        { ...labels, max_lora: '0', running_lora_adapters: names(started), waiting_lora_adapters: names(waiting) },
        clock.nowMs() / 1000,
      )
    })

    function end(id: string, request: OpenRequest, reason: string | null): void {
      open.delete(id)
      if (reason === null) return
      metrics.success.inc({ ...labels, finished_reason: reason })
      const { sentMs, startedMs, firstMs, lastMs, outputTokens } = request
      if (startedMs === null) return
      const nowMs = clock.monotonicMs()
      metrics.total.observe(labels, (nowMs - sentMs) / 1000)
      metrics.queued.observe(labels, (startedMs - sentMs) / 1000)
      metrics.inference.observe(labels, (nowMs - startedMs) / 1000)
      metrics.promptTokensOf.observe(labels, request.promptTokens)
      metrics.outputTokensOf.observe(labels, outputTokens)
      metrics.choicesOf.observe(labels, request.n)
      if (request.maxTokens !== null) metrics.maxTokensOf.observe(labels, request.maxTokens)
      if (firstMs === null) return
      metrics.prefill.observe(labels, (firstMs - startedMs) / 1000)
      metrics.decode.observe(labels, (lastMs - firstMs) / 1000)
      if (outputTokens > 1) metrics.perToken.observe(labels, (lastMs - firstMs) / 1000 / (outputTokens - 1))
    }

    /** @returns tokens that this event adds to its step */
    function addDelta(request: OpenRequest, event: DeltaEvent, nowMs: number): number {
      const count = event.tokenIds.length
      if (event.finishReason !== null) request.finishReason = event.finishReason
      let stepTokens = count
      if (request.firstMs === null && event.finishReason !== 'abort') {
        request.firstMs = nowMs
        stepTokens += request.promptTokens
        metrics.firstToken.observe(labels, (nowMs - request.sentMs) / 1000)
      }
      if (count === 0) return stepTokens
      const before = request.lastOfChoice.get(event.choice)
      if (before !== undefined) metrics.nextToken.observe(labels, (nowMs - before) / 1000)
      request.lastOfChoice.set(event.choice, nowMs)
      request.lastMs = nowMs
      request.outputTokens += count
      metrics.outputTokens.inc(labels, count)
      return stepTokens
    }

    /** @returns tokens that this event adds to its step */
    function hear(event: HostEvent, nowMs: number): number {
      const request = 'id' in event && event.id !== null ? open.get(event.id) : undefined
      if (request === undefined || !('id' in event) || event.id === null) return 0
      switch (event.type) {
        case 'started':
          request.startedMs = nowMs
          request.promptTokens = event.promptTokenIds.length
          metrics.waits.observe({ model_name: baseModel, priority: request.priority }, (nowMs - request.sentMs) / 1000)
          metrics.promptTokens.inc(labels, request.promptTokens)
          metrics.prefixQueries.inc(labels, request.promptTokens)
          metrics.prefixHits.inc(labels, event.cachedTokens)
          return 0
        case 'delta':
          return addDelta(request, event, nowMs)
        case 'finished':
          end(event.id, request, request.finishReason)
          return 0
        case 'failed':
          // a refusal is the caller's, and never was in the engine
          end(event.id, request, event.error.category === 'internal' ? 'error' : null)
          return 0
        default:
          return 0
      }
    }

    return {
      requested: (request: GenerateRequest) => {
        const nowMs = clock.monotonicMs()
        const { n, maxTokens } = request.sampling
        open.set(request.id, {
          sentMs: nowMs,
          n,
          maxTokens,
          adapter: request.adapter?.digest.slice(0, 12) ?? null,
          priority: PRIORITIES[Math.sign(request.priority ?? 0) + 1] ?? 'normal',
          ...{ startedMs: null, firstMs: null, lastMs: nowMs },
          ...{ promptTokens: 0, outputTokens: 0 },
          lastOfChoice: new Map(),
          finishReason: null,
        })
      },
      received: (events) => {
        const nowMs = clock.monotonicMs()
        const tokens = events.reduce((sum, event) => sum + hear(event, nowMs), 0)
        if (tokens > 0) metrics.stepTokens.observe(labels, tokens)
      },
      lost: () => {
        for (const [id, request] of open) end(id, request, 'error')
      },
    }
  }

  return { observer }
}

/** What is asked at a scrape. */
function registerStates(registry: Registry, askEngines: () => Promise<readonly EngineState[]>): void {
  const labelNames = ['model_name', 'engine'] as const
  const registers = [registry]
  const labelsOf = ({ baseModel }: EngineState) => ({ model_name: baseModel, engine: '0' })
  new Gauge({
    name: 'vllm:kv_cache_usage_perc',
    help: 'Memory for keys and values in use, 1 is all of it',
    labelNames,
    registers,
    async collect() {
      for (const state of await askEngines()) this.set(labelsOf(state), state.pong.kvCacheUsage)
    },
  })
  new Counter({
    name: 'vllm:num_preemptions_total',
    help: 'Running choices that gave way to another request',
    labelNames,
    registers,
    async collect() {
      const states = await askEngines()
      this.reset()
      for (const state of states) this.inc(labelsOf(state), state.pong.preemptions)
    },
  })
}

function register(registry: Registry) {
  const labelNames = ['model_name', 'engine'] as const
  const registers = [registry]
  const atScrape: (() => void)[] = []
  const counter = (name: string, help: string): Counter<Labels> =>
    new Counter({ name: `vllm:${name}`, help, labelNames, registers })
  const histogram = (name: string, help: string, buckets: number[]): Histogram<Labels> =>
    new Histogram({ name: `vllm:${name}`, help, labelNames, buckets, registers })
  const seconds = (name: string, help: string): Histogram<Labels> => histogram(name, help, REQUEST_BUCKETS)
  return {
    /** Called before values are read. */
    onScrape: (update: () => void) => void atScrape.push(update),
    running: new Gauge({
      name: 'vllm:num_requests_running',
      help: 'Requests being computed',
      labelNames,
      registers,
      collect: () => {
        for (const update of atScrape) update()
      },
    }),
    waiting: new Gauge({
      name: 'vllm:num_requests_waiting',
      help: 'Requests not begun',
      labelNames,
      registers,
    }),
    adapters: new Gauge({
      name: 'vllm:lora_requests_info',
      help: 'Digests of adapters in use; the value is the time of the scrape',
      labelNames: [...labelNames, 'max_lora', 'running_lora_adapters', 'waiting_lora_adapters'],
      registers,
    }),
    cacheConfig: new Gauge({
      name: 'vllm:cache_config_info',
      help: 'How prompts are kept',
      labelNames: [...labelNames, 'block_size', 'enable_prefix_caching'],
      registers,
    }),
    success: new Counter({
      name: 'vllm:request_success_total',
      help: 'Requests that ended, by how',
      labelNames: [...labelNames, 'finished_reason'],
      registers,
    }),
    prefixQueries: counter('prefix_cache_queries_total', 'Prompt tokens looked up in the prefix cache'),
    prefixHits: counter('prefix_cache_hits_total', 'Prompt tokens found in the prefix cache'),
    promptTokens: counter('prompt_tokens_total', 'Prompt tokens'),
    outputTokens: counter('generation_tokens_total', 'Tokens generated'),
    stepTokens: histogram('iteration_tokens_total', 'Tokens of one step', TOKEN_BUCKETS),
    promptTokensOf: histogram('request_prompt_tokens', 'Prompt tokens of a request', TOKEN_BUCKETS),
    outputTokensOf: histogram('request_generation_tokens', 'Tokens generated for a request', TOKEN_BUCKETS),
    choicesOf: histogram('request_params_n', 'n of a request', SMALL_COUNT_BUCKETS),
    maxTokensOf: histogram('request_params_max_tokens', 'max_tokens of a request', TOKEN_BUCKETS),
    firstToken: histogram('time_to_first_token_seconds', 'Request to first token', FIRST_TOKEN_BUCKETS),
    nextToken: histogram('inter_token_latency_seconds', 'Token to token of one choice', NEXT_TOKEN_BUCKETS),
    perToken: histogram('request_time_per_output_token_seconds', 'Mean time of a token', NEXT_TOKEN_BUCKETS),
    total: seconds('e2e_request_latency_seconds', 'Request to end'),
    queued: seconds('request_queue_time_seconds', 'Request to start'),
    waits: new Histogram({
      name: 'trainyard_request_wait_seconds',
      help: 'Request to start, by priority: first is below 0, normal 0, last above',
      labelNames: ['model_name', 'priority'] as const,
      buckets: FIRST_TOKEN_BUCKETS,
      registers,
    }),
    inference: seconds('request_inference_time_seconds', 'Start to end'),
    prefill: seconds('request_prefill_time_seconds', 'Start to first token'),
    decode: seconds('request_decode_time_seconds', 'First to last token'),
  }
}
