/**
 * `trainyard serve`: runs the service until Ctrl-C. The only command, with system-check, that loads service code.
 */
import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { usableCores } from '#base/machine/cores.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { flag } from '#cli/command/flags.js'
import { isLoopbackUrl, writeServerRecord } from '#cli/config/server-record.js'
import { messageOf } from '#cli/input/input-file.js'
import { assertOpenFiles } from '#cli/local/open-files.js'
import { plural } from '#cli/terminal/format.js'
import { DEFAULT_SERVER_URL } from '#contract/settings/service.js'
import type { ServiceOptions } from '#service/create-service.js'

/** Time to let streams end and a gradient step finish, milliseconds. */
const DRAIN_MS = 10_000

export const serve = defineCommand({
  path: ['serve'],
  summary: 'Run the service',
  details:
    'The first start creates an API key, prints it once and stores it in the data directory, where the command line on this machine finds it.',
  examples: [
    ['trainyard serve', `on ${DEFAULT_SERVER_URL}, data in the default place`],
    ['trainyard serve --base-model my/model=./models/my-model.gguf --data-dir ./data', 'own weights under a name'],
    [
      'trainyard serve --port 0 --json',
      'any free port; one JSON line on stdout when ready, with the first key as api_key',
    ],
  ],
  args: {},
  flags: {
    host: flag.setting('host'),
    port: flag.setting('port'),
    dataDir: flag.setting('data-dir'),
    baseModel: flag.setting('base-models'),
    threads: flag.setting('threads', { isAdvanced: true }),
    precision: flag.setting('precision', { isAdvanced: true }),
    trainWorkers: flag.setting('train-workers', { isAdvanced: true }),
    jobLease: flag.setting('job-lease', { isAdvanced: true }),
    workerStartTimeout: flag.setting('worker-start-timeout', { isAdvanced: true }),
    workerStallTimeout: flag.setting('worker-stall-timeout', { isAdvanced: true }),
    keepWorker: flag.setting('keep-worker', { isAdvanced: true }),
    resumeInterval: flag.setting('resume-interval', { isAdvanced: true }),
    maxContextLength: flag.setting('max-context-length', { isAdvanced: true }),
    maxSequences: flag.setting('max-sequences', { isAdvanced: true }),
    maxPendingRequests: flag.setting('max-pending-requests', { isAdvanced: true }),
    maxConcurrentRequests: flag.setting('max-concurrent-requests', { isAdvanced: true }),
    requestsPerMinute: flag.setting('requests-per-minute', { isAdvanced: true }),
    maxConnections: flag.setting('max-connections', { isAdvanced: true }),
    maxPipelined: flag.setting('max-pipelined-requests', { isAdvanced: true }),
    maxUnread: flag.setting('max-unread-answers', { isAdvanced: true }),
    maxQueuedJobs: flag.setting('max-queued-jobs', { isAdvanced: true }),
    maxRequestBody: flag.setting('max-request-body', { isAdvanced: true }),
    maxChatBody: flag.setting('max-chat-body', { isAdvanced: true }),
    maxTrajectories: flag.setting('max-trajectories-body', { isAdvanced: true }),
    maxGroup: flag.setting('max-trajectory-group', { isAdvanced: true }),
    maxUpload: flag.setting('max-upload', { isAdvanced: true }),
    maxUnfinished: flag.setting('max-unfinished-bodies', { isAdvanced: true }),
    kvCacheMemory: flag.setting('kv-cache-memory', { isAdvanced: true }),
    speculation: flag.setting('speculation', { isAdvanced: true }),
    schedulingPolicy: flag.setting('scheduling-policy', { isAdvanced: true }),
    trustRequestChatTemplate: flag.setting('trust-request-chat-template', { isAdvanced: true }),
    trainingDataRoot: flag.setting('training-data-root', { isAdvanced: true }),
    allowedHost: flag.setting('allowed-hosts', { isAdvanced: true }),
    webhookHost: flag.setting('webhook-hosts', { isAdvanced: true }),
    trainingDataHost: flag.setting('training-data-hosts', { isAdvanced: true }),
    sweepGrace: flag.setting('sweep-grace', { isAdvanced: true }),
    adoptEmpty: flag.switch(
      '--adopt-empty',
      'begin anew although data lies beside an empty or missing database; it stays',
    ),
    adoptDatabase: flag.switch(
      '--adopt-database',
      'go on with a database that is older than the data beside it, or of another directory',
    ),
    logLevel: flag.setting('log-level', { isAdvanced: true }),
    logFormat: flag.setting('log-format', { isAdvanced: true }),
  },
  environment: [
    ['HF_ENDPOINT', 'hub that base-models add downloads from'],
    ['HF_TOKEN', 'token for private and gated models of the hub'],
  ],
  next: ['trainyard base-models list', 'trainyard models create <name> --base-model <name>'],
  async run({ config, output, io, signal, version, environment, flags }) {
    const dataDir = resolve(config.get('data-dir') ?? config.paths.dataDir)
    const trainingDataRoot = config.get('training-data-root')
    assertOpenFiles()
    const { createService, isBuiltInModel, startIdleCollection } = await import('#service/create-service.js')
    const { createLogger } = await import('#base/logging/logger.js')
    const baseModels: NonNullable<ServiceOptions['baseModels']>[number][] = []
    for (const text of config.get('base-models')) {
      baseModels.push(isBuiltInModel(text) ? text : await parseBaseModel(text))
    }
    const service = await createService({
      dataDir,
      host: config.get('host'),
      port: config.get('port'),
      baseModels,
      threads: config.get('threads'),
      precision: config.get('precision'),
      trainWorkers: config.get('train-workers'),
      resumeIntervalMs: config.get('resume-interval'),
      sweepGraceMs: config.get('sweep-grace'),
      adoptsEmptyDatabase: flags.adoptEmpty,
      adoptsOtherDatabase: flags.adoptDatabase,
      maxContextLength: config.get('max-context-length'),
      maxConcurrentSequences: config.get('max-sequences'),
      maxPendingRequests: config.get('max-pending-requests'),
      maxConcurrentRequests: config.get('max-concurrent-requests'),
      requestsPerMinute: config.get('requests-per-minute'),
      maxConnections: config.get('max-connections'),
      maxPipelinedRequests: config.get('max-pipelined-requests'),
      maxUnreadBytes: config.get('max-unread-answers'),
      maxQueuedJobs: config.get('max-queued-jobs'),
      maxRequestBodyBytes: config.get('max-request-body'),
      maxChatBodyBytes: config.get('max-chat-body'),
      maxTrajectoriesBytes: config.get('max-trajectories-body'),
      maxGroupBytes: config.get('max-trajectory-group'),
      maxUploadBytes: config.get('max-upload'),
      maxUnfinishedBytes: config.get('max-unfinished-bodies'),
      kvCacheBytes: config.get('kv-cache-memory'),
      speculation: config.get('speculation'),
      schedulingPolicy: config.get('scheduling-policy'),
      trustsRequestChatTemplate: config.get('trust-request-chat-template'),
      trainingDataRoot: trainingDataRoot === null ? null : resolve(trainingDataRoot),
      allowedHosts: config.get('allowed-hosts'),
      webhookHosts: config.get('webhook-hosts'),
      trainingDataHosts: config.get('training-data-hosts'),
      hub: { endpoint: environment['HF_ENDPOINT'] || undefined, token: environment['HF_TOKEN'] || undefined },
      tuning: {
        jobs: {
          leaseMs: config.get('job-lease'),
          startMs: config.get('worker-start-timeout'),
          stallMs: config.get('worker-stall-timeout'),
        },
        keptWorkers: { keepMs: config.get('keep-worker') },
      },
      logger: createLogger({ level: config.get('log-level'), format: config.get('log-format') }),
    })
    const idleCollection = startIdleCollection()
    const { apiKeyFile, inventory } = service
    const record = { url: service.url, apiKeyFile, pid: process.pid }
    const forget = await writeServerRecord(config.paths, record).catch((error: unknown) => {
      output.warning(`the command line will not find this server's key by itself: ${messageOf(error)}`)
      return () => Promise.resolve()
    })
    try {
      // a program reads it from the line that says where we listen
      if (service.createdApiKey !== null && output.mode !== 'json') {
        io.stderr.write(`API key, shown once and stored in\n  ${apiKeyFile}:\n  ${service.createdApiKey}\n`)
      }
      if (service.keptApiKeyFile !== null) {
        output.warning(`the key file of before is kept as ${service.keptApiKeyFile}; its key is not valid any more`)
      }
      if (service.isApiKeyLost) {
        output.warning(`${apiKeyFile} is gone or holds no key of this data directory`)
        output.hint(`trainyard keys create --data-dir ${dataDir}`)
      }
      const { modelCount, baseModelCount } = inventory
      output.status(
        [
          `trainyard ${version} listening on ${service.url}`,
          `  API     ${service.url}/v1`,
          `  Data    ${dataDir}`,
          `          ${plural(modelCount, 'model')}, ${plural(baseModelCount, 'base model')}`,
          `  Device  CPU, ${describeThreads(config.get('threads'))}, precision ${config.get('precision')}`,
          `  Key     ${apiKeyFile}`,
          `  Docs    ${service.url}/docs`,
          'Press Ctrl-C to stop.',
        ].join('\n'),
      )
      if (!isLoopbackUrl(service.url)) {
        output.warning(`${service.url} can be reached from other machines; keys and data travel unencrypted`)
      }
      const crowd = describeCrowd(config.get('threads'))
      if (crowd !== null) output.warning(crowd)
      if (output.mode === 'json') {
        const ready = {
          event: 'listening',
          url: service.url,
          api_key_file: apiKeyFile,
          // once, as it is printed once; null at every later start
          api_key: service.createdApiKey,
          pid: process.pid,
          version,
        }
        output.event(ready, null)
      }
      await new Promise<void>((done) => {
        if (signal.aborted) done()
        signal.addEventListener('abort', () => done(), { once: true })
      })
      output.status('Stopping: no new work is taken; press Ctrl-C again to stop at once.')
    } finally {
      idleCollection.stop()
      await service.close(DRAIN_MS)
      await forget()
    }
  },
})

/** The runtime takes every core unless it is told otherwise. */
function describeThreads(threads: number | null): string {
  return threads === null ? `all ${plural(usableCores(), 'core')}` : plural(threads, 'thread')
}

/** A job's numbers follow its threads, so more than there are cores are taken as asked for; what they cost must be said. */
function describeCrowd(threads: number | null): string | null {
  const cores = usableCores()
  if (threads === null || threads <= cores) return null
  return `${threads} threads are more than the ${plural(cores, 'core')} this process may use: they wait for each other, and loading a model takes longer; leave --threads out, or set at most ${cores}`
}

/** `name=path`, or a path whose last part is the name. */
async function parseBaseModel(text: string): Promise<{ readonly name: string; readonly sourcePath: string }> {
  const at = text.indexOf('=')
  const sourcePath = resolve(at < 0 ? text : text.slice(at + 1))
  const name = at < 0 ? basename(sourcePath).replace(/\.gguf$/i, '') : text.slice(0, at).trim()
  const facts = await stat(sourcePath).catch(() => null)
  const isModel = facts !== null && (facts.isDirectory() || /\.gguf$/i.test(sourcePath))
  if (name === '' || !isModel) {
    throw new UsageError(
      'invalid_base_model',
      `--base-model ${text}: expected a folder or a .gguf file, name=path, or a built-in model`,
      {
        param: '--base-model',
        hint: facts === null ? `${sourcePath} does not exist` : undefined,
      },
    )
  }
  return { name, sourcePath }
}
