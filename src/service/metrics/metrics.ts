/**
 * Everything `GET /metrics` reports, as Prometheus text: engines, HTTP, training jobs, the process. One registry per service.
 *
 * Counting is an addition per event; whatever needs a query or a look at the system is read when somebody scrapes.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Clock } from '#base/util/clock.js'
import type { RemoteEngine } from '../processes/remote-engines.js'
import { createEngineMetrics, type EngineMetrics, type EngineState } from './engine-metrics.js'

/** One answered request. */
export interface HttpObservation {
  readonly method: string
  /** The pattern of the route, never the path: paths have no end. */
  readonly route: string
  readonly status: number
  readonly durationMs: number
}

/** What is read when somebody scrapes. */
interface ReadGauge {
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
  /** Samples with equal labels are added up. */
  read(): Awaitable<Iterable<{ readonly labels: Readonly<Record<string, string>>; readonly value: number }>>
}

type Awaitable<T> = T | Promise<T>

export interface Metrics {
  readonly engines: EngineMetrics
  observeHttp(observation: HttpObservation): void
  /** One more, whose samples are read at each scrape. */
  addGauge(gauge: ReadGauge): void
  readonly contentType: string
  /** The text of a scrape. */
  text(): Promise<string>
}

export interface WorkerCount {
  /** `local`: of the server's machine; `remote`: of another. */
  readonly place: 'local' | 'remote'
  readonly state: 'busy' | 'idle'
  readonly count: number
}

export interface MetricsSources {
  readonly clock: Clock
  readonly version: string
  /** Training jobs by status. */
  readonly countJobs: () => Promise<ReadonlyMap<string, number>>
  /** Workers by where they are and what they do. */
  readonly countWorkers: () => readonly WorkerCount[]
  /** Engine nodes that live. */
  readonly listEngineNodes: () => readonly Pick<RemoteEngine, 'engine' | 'is_leaving' | 'running' | 'waiting'>[]
  /** Room on the disk of the data directory; null where the system does not say. */
  readonly readFreeBytes?: () => Promise<number | null>
  /** Transactions that were done again because another ran beside them; null where none does. */
  readonly countRetries?: () => number | null
  /** Engines that run, as far as they answer soon. */
  readonly askEngines: () => Promise<readonly EngineState[]>
}

const HTTP_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

export function createMetrics(sources: MetricsSources): Metrics {
  const { clock, version, countJobs, countWorkers, countRetries = () => null, askEngines } = sources
  const registry = new Registry()
  const registers = [registry]
  const requests = new Counter({
    name: 'http_requests_total',
    help: 'Requests answered, by route and status',
    labelNames: ['method', 'handler', 'status'] as const,
    registers,
  })
  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time to the answer; of a stream, to its start',
    labelNames: ['method', 'handler'] as const,
    buckets: HTTP_BUCKETS,
    registers,
  })
  const addGauge = ({ name, help, labels, read }: ReadGauge): void => {
    new Gauge({
      ...{ name, help, labelNames: labels, registers },
      async collect() {
        const samples = await read()
        this.reset()
        for (const each of samples) this.inc(each.labels, each.value)
      },
    })
  }
  addGauge({
    name: 'trainyard_training_jobs',
    help: 'Training jobs, by status',
    labels: ['status'],
    read: async () => Array.from(await countJobs(), ([status, value]) => ({ labels: { status }, value })),
  })
  addGauge({
    name: 'trainyard_training_workers',
    help: 'Training workers, by place and state',
    labels: ['place', 'state'],
    read: () => countWorkers().map(({ place, state, count: value }) => ({ labels: { place, state }, value })),
  })
  addEngineNodes(addGauge, sources.listEngineNodes)
  const { readFreeBytes } = sources
  if (readFreeBytes !== undefined) {
    new Gauge({
      name: 'trainyard_data_directory_free_bytes',
      help: 'Room on the disk of the data directory',
      registers,
      async collect() {
        const free = await readFreeBytes()
        if (free === null) this.remove()
        else this.set(free)
      },
    })
  }
  if (countRetries() !== null) {
    new Counter({
      name: 'trainyard_database_retries_total',
      help: 'Transactions that were done again because another ran beside them',
      registers,
      collect() {
        this.reset()
        this.inc(countRetries() ?? 0)
      },
    })
  }
  new Gauge({ name: 'trainyard_info', help: 'The version', labelNames: ['version'] as const, registers }).set(
    { version },
    1,
  )
  let isProcessWatched = false
  return {
    engines: createEngineMetrics(registry, { clock, askEngines }),
    observeHttp: ({ method, route, status, durationMs }) => {
      requests.inc({ method, handler: route, status: String(status) })
      durations.observe({ method, handler: route }, durationMs / 1000)
    },
    addGauge,
    contentType: registry.contentType,
    text: () => {
      // watching the garbage collector and the event loop has a cost: it begins when somebody looks
      if (!isProcessWatched) watchProcess(registry)
      isProcessWatched = true
      return registry.metrics()
    },
  }
}

/** Gauges of prom-client whose names are a counter's (`promtool check metrics`); those by kind beside them say the same. */
const MISNAMED = ['nodejs_active_resources_total', 'nodejs_active_handles_total', 'nodejs_active_requests_total']

function watchProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
}

function addEngineNodes(addGauge: Metrics['addGauge'], list: MetricsSources['listEngineNodes']): void {
  addGauge({
    name: 'trainyard_engine_nodes',
    help: 'Engine nodes, by engine and state',
    labels: ['engine', 'state'],
    read: () =>
      list().map(({ engine, is_leaving: isLeaving }) => ({
        labels: { engine, state: isLeaving ? 'leaving' : 'ready' },
        value: 1,
      })),
  })
  addGauge({
    name: 'trainyard_engine_node_requests',
    help: 'Requests at engine nodes as they said last, by engine and state',
    labels: ['engine', 'state'],
    read: () =>
      list().flatMap(({ engine, running, waiting }) => [
        { labels: { engine, state: 'running' }, value: running },
        { labels: { engine, state: 'waiting' }, value: waiting },
      ]),
  })
}
