/**
 * `trainyard serve`: runs the service until Ctrl-C. Service code is imported only when the command runs, so that help
 * stays fast.
 */

import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { jobsAtOnce, usableCores } from '#base/machine/cores.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { pluginSettings, serviceFlags, serviceSettings } from '#cli/command/service-flags.js'
import { findServerRecord, readServerRecord, writeServerRecord } from '#cli/config/server-record.js'
import { messageOf } from '#cli/input/input-file.js'
import { assertOpenFiles } from '#cli/local/open-files.js'
import { UsageError } from '#cli/terminal/errors.js'
import { plural } from '#cli/terminal/format.js'
import { DEFAULT_SERVER_URL, type ServiceSettingValues } from '#contract/settings/service.js'
import { command } from '#contract/wire/command-words.js'
import type { Service, ServiceOptions } from '#service/create-service.js'

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
    ...serviceFlags(),
    check: flag.switch('--check', 'load everything, start once in an empty folder, say what is wrong, and end'),
    adoptEmpty: flag.switch(
      '--adopt-empty',
      'begin anew although data lies beside an empty or missing database; it stays',
    ),
    adoptDatabase: flag.switch(
      '--adopt-database',
      'go on with a database that is older than the data beside it, or of another directory',
    ),
  },
  environment: [
    ['HF_ENDPOINT', 'hub that base-models add downloads from'],
    ['HF_TOKEN', 'token for private and gated models of the hub'],
  ],
  next: ['trainyard base-models list', 'trainyard models create <name> --base-model <name>'],
  async run({ config, output, io, signal, version, environment, flags }) {
    const settings = serviceSettings(config)
    const dataDir = settings.dataDir ?? resolve(config.paths.dataDir)
    assertOpenFiles()
    if (flags.check) return await checkStart(settings, { config, output })
    const { createService } = await import('#plugins/service.js')
    const { isBuiltInModel, startIdleCollection } = await import('#service/create-service.js')
    const baseModels: NonNullable<ServiceOptions['baseModels']>[number][] = []
    for (const text of settings.baseModels) {
      baseModels.push(isBuiltInModel(text) ? text : await parseBaseModel(text))
    }
    const service = await createService({
      ...settings,
      pluginSettings: pluginSettings(config),
      dataDir,
      baseModels,
      adoptsEmptyDatabase: flags.adoptEmpty,
      adoptsOtherDatabase: flags.adoptDatabase,
      hub: { endpoint: environment['HF_ENDPOINT'] || undefined, token: environment['HF_TOKEN'] || undefined },
    }).catch(async (error: unknown) => {
      throw await sayWhereItRuns(error, { config, settings, dataDir })
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
        output.hint(command`trainyard keys create --data-dir ${dataDir}`)
      }
      const { modelCount, baseModelCount } = inventory
      const page = await pageAddress(service, settings.publicUrl)
      output.status(
        [
          `trainyard ${version} listening on ${service.url}`,
          `  API     ${service.url}/v1`,
          ...(page === null ? [] : [`  UI      ${page}`]),
          `  Data    ${dataDir}`,
          `          ${plural(modelCount, 'model')}, ${plural(baseModelCount, 'base model')}`,
          `  Device  ${describeDevice(service.device, settings.threads)}, precision ${settings.precision}`,
          `  Jobs    ${settings.trainWorkers ?? jobsAtOnce()} at once, as memory allows (--train-workers)`,
          `  Key     ${apiKeyFile}`,
          `  Docs    ${service.url}/docs`,
          'Press Ctrl-C to stop.',
        ].join('\n'),
      )
      if (!isLoopbackUrl(service.url)) {
        output.warning(`${service.url} can be reached from other machines; keys and data travel unencrypted`)
      }
      const crowd = describeCrowd(settings.threads)
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
      const stopped = new Promise<null>((done) => {
        if (signal.aborted) done(null)
        signal.addEventListener('abort', () => done(null), { once: true })
      })
      const failure = await Promise.race([stopped, service.failed])
      if (failure !== null) throw failure
      output.status('Stopping: no new work is taken, answers that run end; press Ctrl-C again to stop at once.')
    } finally {
      idleCollection.stop()
      // also of a service that could not end: nobody is to look for it
      await service.close().finally(forget)
    }
  },
})

/** Starts as it would, with nobody's data: what is found is thrown. */
async function checkStart(
  settings: ServiceSettingValues,
  { config, output }: Pick<CommandContext, 'config' | 'output'>,
): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-check-'))
  try {
    const { createService } = await import('#plugins/service.js')
    const plugins = await (await import('#plugins/check.js')).checkPlugins()
    const elsewhere = {
      dataDir,
      port: 0,
      database: null,
      blobStore: null,
      baseModels: ['trainyard/tiny-random'] as const,
    }
    const service = await createService({
      ...settings,
      ...elsewhere,
      pluginSettings: pluginSettings(config),
      logLevel: 'error',
    })
    await service.close(0)
    output.result({ ok: true, plugins }, `the service starts, with ${plural(plugins.length, 'plugin')}`, [...plugins])
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** What computes: of the processor, by how many threads; the runtime takes every core unless it is told otherwise. */
function describeDevice(device: string, threads: number | null): string {
  if (device !== 'cpu') return device
  return `CPU, ${threads === null ? `all ${plural(usableCores(), 'core')}` : plural(threads, 'thread')}`
}

/** The page, with a code that signs in once; null where there is none, or no key is known to sign in with. */
async function pageAddress(service: Pick<Service, 'url' | 'signInCode' | 'home'>, publicUrl: string | null) {
  const { home } = service
  if (home === null || !(await home.isBuilt())) return null
  const code = await service.signInCode()
  return code === null ? null : `${(publicUrl ?? service.url).replace(/\/+$/, '')}${home.path}#code=${code}`
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

/** Of a server that stands in the way: where it is, for whoever only wanted one to run. */
async function sayWhereItRuns(
  error: unknown,
  {
    config,
    settings,
    dataDir,
  }: Pick<CommandContext, 'config'> & { readonly settings: ServiceSettingValues; readonly dataDir: string },
): Promise<unknown> {
  if (!(error instanceof AppError)) return error
  const { category, code, message, hint, cause } = error
  const found =
    code === 'data_dir_locked'
      ? await findServerRecord(config.paths, dataDir)
      : code === 'port_in_use'
        ? await readServerRecord(config.paths, `http://127.0.0.1:${settings.port}`)
        : null
  if (found === null) return error
  const where = `it runs already, on ${found.url} (process ${found.pid}): trainyard ui shows it`
  return new AppError(category, code, message, { hint: `${where}; ${hint ?? ''}`, cause })
}
