/**
 * `trainyard worker`: takes training jobs of a service and runs them here, until Ctrl-C. Holds no data of its own but base models that it
 * fetched.
 */
import { join, resolve } from 'node:path'
import type { JsonObject } from '#base/util/json.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { plural } from '#cli/terminal/format.js'
import { trainerVariables } from '#contract/processes/trainers.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { RemoteWorkerEvent } from './remote-worker.js'

const MINUTE_MS = 60_000
/** Longest wait for a job in one request: proxies cut connections that are silent for a minute. */
const MAX_WAIT_SECONDS = 30
/** Below what service managers wait before they kill. */
const DRAIN_MS = 20_000

export const worker = defineCommand({
  path: ['worker'],
  summary: 'Train jobs of a service on another machine',
  details:
    'Asks the service of --server for jobs and runs each in a process of its own. The key needs scope worker (trainyard keys create --scope worker), which opens nothing else. Base models are fetched once. Stopped, it takes no more jobs, gives what runs --drain to end, and hands the rest back: another worker goes on at the last resume point.',
  examples: [
    ['trainyard worker --server https://train.example --api-key-file worker.key', 'on the machine with the cores'],
    ['trainyard worker --jobs 4 --threads 8 --name box', 'four jobs at once; address and key from the environment'],
  ],
  args: {},
  flags: {
    name: flag.text('--name <name>', "what jobs call it; default the machine's name"),
    jobs: flag.integer(1, 64)('--jobs <n>', 'jobs that train side by side; default 1', { default: 1 }),
    threads: flag.setting('threads'),
    cacheDir: flag.text('--cache-dir <path>', 'where fetched base models are kept; default $XDG_CACHE_HOME/trainyard'),
    trainer: flag.setting('trainer'),
    python: flag.setting('python'),
    keepWorker: flag.setting('keep-worker'),
    retry: flag.duration('--retry <duration>', 'how long a server that is away is tried; default 1m', {
      default: MINUTE_MS,
    }),
    drain: flag.duration('--drain <duration>', 'when stopped, how long a running job may go on; default 20s', {
      default: DRAIN_MS,
    }),
    idleExit: flag.duration('--idle-exit <duration>', 'end after so long without a job; default never'),
  },
  exits: [],
  next: ['trainyard jobs get'],
  async run({ connect, config, output, environment, signal, flags }) {
    const client = await connect()
    const { startRemoteWorker, workerFacts } = await import('./remote-worker.js')
    const { installed } = await import('#plugins/others.js')
    const { PLUGINS_VARIABLE } = await import('#contract/jobs/plugin-options.js')
    const facts = workerFacts(flags.name)
    const threads = config.get('threads')
    const trainer = config.get('trainer') ?? SERVICE_DEFAULTS.trainer
    const python = config.get('python') ?? SERVICE_DEFAULTS.python
    const remote = startRemoteWorker({
      serverUrl: client.baseUrl.replace(/\/+$/, ''),
      claim: (request, ended) => client.workers.claim(request, { signal: ended }),
      facts,
      hasTrainers: trainer !== 'onnx',
      waitSeconds: Math.min(MAX_WAIT_SECONDS, (config.get('timeout') ?? Number.POSITIVE_INFINITY) / 2000),
      directory: resolve(flags.cacheDir ?? join(config.paths.cacheDir, 'worker')),
      jobs: flags.jobs,
      keepMs: config.get('keep-worker') ?? SERVICE_DEFAULTS.keepWorkerMs,
      patienceMs: flags.retry,
      idleExitMs: flags.idleExit ?? null,
      environment,
      given: {
        ...(threads === null ? {} : { TRAINYARD_THREADS: String(threads) }),
        TRAINYARD_TRAINER: trainer,
        TRAINYARD_PYTHON: python,
        [PLUGINS_VARIABLE]: JSON.stringify(installed().files ?? []),
        ...trainerVariables(installed().plugins.flatMap(({ trainers = [] }) => trainers)),
      },
      onEvent: (event) => {
        if (output.mode === 'json') output.event(toJson(event), null)
        else if (event.type === 'ready') {
          output.status(
            `${facts.name} takes jobs of ${client.baseUrl}, ${plural(flags.jobs, 'job')} at once. Press Ctrl-C to stop.`,
          )
        } else if (event.type === 'job_started') output.status(`Job ${event.jobId} began, attempt ${event.attempt}`)
        else if (event.type === 'job_left') output.status(`Job ${event.jobId} is over here`)
        else if (event.type === 'server_away') output.warning(`${event.reason}; tried again`)
        else output.status('The server is back')
      },
    })
    signal.addEventListener(
      'abort',
      () => {
        output.status('Stopping: no new job is taken; press Ctrl-C again to stop at once.')
        remote.stop(flags.drain)
      },
      { once: true },
    )
    await remote.ended
  },
})

/** The event in the words of the API. */
function toJson(event: RemoteWorkerEvent): JsonObject {
  if (!('jobId' in event)) return { ...event }
  const { jobId, ...rest } = event
  return { ...rest, job_id: jobId }
}
