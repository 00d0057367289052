/**
 * Runs: made and resumed by `wandb.init`, fed by the stream of their files, read by `wandb.Api().run`.
 */

import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { ServiceContext } from '#service/operations/context.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  inputOf,
  jsonObjectText,
  optionalText,
  ownEntity,
  ownProject,
  projectInfo,
  textOf,
  toConnection,
  toIso,
  type WandbCall,
} from './context.js'
import type { Arguments, Fields } from './execute-query.js'
import {
  findRun,
  type HistoryLine,
  lastHistoryLine,
  listHistory,
  listRunFiles,
  listRuns,
  putHistory,
  type RunAddress,
  type RunRecord,
  upsertRun,
} from './storage/runs.js'
import type { FileStreamRequest } from './wire.js'

/** Words a client gives a run; they are kept and given back. */
const ATTRIBUTES = [
  'groupName',
  'jobType',
  'notes',
  'description',
  'commit',
  'jobProgram',
  'jobRepo',
  'host',
  'sweep',
] as const
const MAX_LINE_LENGTH = 1 << 20
const MAX_SAMPLES = 10_000

/** The mutations and queries of runs. */
export function runFields(call: WandbCall): { readonly mutation: Fields } {
  return {
    mutation: {
      upsertBucket: async (args) => {
        const { run, isNew } = await upsert(call, inputOf(args))
        return { bucket: await toRunFields(call, run), inserted: isNew }
      },
      createRunFiles: async (args) => {
        const input = inputOf(args)
        const run = await requireRun(call, input, 'runName')
        const names = Array.isArray(input['files']) ? (input['files'] as readonly JsonValue[]) : []
        return {
          runID: run.id,
          uploadHeaders: [],
          files: names.map((name) => ({
            name,
            uploadUrl: call.addressOf({ kind: 'put_run_file', runId: run.id, name: String(name).slice(0, 1024) }),
          })),
        }
      },
      markRunFilesUploaded: async () => ({ success: true }),
    },
  }
}

async function upsert(call: WandbCall, input: Arguments) {
  const { db, ids } = call.context
  const address = {
    entity: ownEntity(call, input['entityName']),
    project: ownProject(call, optionalText(input, 'modelName') ?? 'uncategorized'),
    name: textOf(input, 'name', 128),
  }
  const attributes: Record<string, JsonValue> = {}
  for (const name of ATTRIBUTES) if (input[name] !== undefined && input[name] !== null) attributes[name] = input[name]
  if (Array.isArray(input['tags'])) attributes['tags'] = input['tags'] as JsonValue
  const parse = (name: string): JsonObject | undefined => {
    const text = jsonObjectText(input, name)
    return text === null ? undefined : (JSON.parse(text) as JsonObject)
  }
  return inTransaction(db, (transaction) =>
    upsertRun(transaction, ids.uuid(), address, {
      displayName: optionalText(input, 'displayName') ?? undefined,
      state: optionalText(input, 'state')?.slice(0, 40) ?? 'running',
      attributes,
      config: parse('config'),
      summary: parse('summaryMetrics'),
    }),
  )
}

async function requireRun(call: WandbCall, args: Arguments, nameOfName: string): Promise<RunRecord> {
  const address = {
    entity: ownEntity(call, args['entityName']),
    project: ownProject(call, textOf(args, 'projectName')),
    name: textOf(args, nameOfName),
  }
  return requireRunAt(call.context, address)
}

/** @throws {NotFoundError} `run_not_found` */
export async function requireRunAt(context: Pick<ServiceContext, 'db'>, address: RunAddress): Promise<RunRecord> {
  const run = await findRun(context.db, address)
  if (run !== null) return run
  throw new NotFoundError('run_not_found', `run "${address.project}/${address.name}" was not found`)
}

/** `run(name)`, `bucket(name)` and `runs(...)` of a project. */
export function projectRunFields(call: WandbCall, entity: string, project: string): Fields {
  const one = async (args: Arguments) => {
    const run = await findRun(call.context.db, { entity, project, name: textOf(args, 'name') })
    return run === null ? null : toRunFields(call, run)
  }
  const all = async () => (await listRuns(call.context.db, { entity, project, limit: 10_000 })).items
  return {
    run: one,
    bucket: one,
    runCount: async (args) => (await all()).filter(runFilter(args)).length,
    runs: async (args) => {
      const runs = (await all()).filter(runFilter(args))
      const nodes = new Map<string, Fields>()
      for (const run of runs) nodes.set(run.id, await toRunFields(call, run))
      return toConnection(runs, args, (run) => nodes.get(run.id) ?? null)
    },
  }
}

/** @throws {InvalidRequestError} `unsupported_filter` for anything but equality of names and states */
function runFilter(args: Arguments): (run: RunRecord) => boolean {
  const text = jsonObjectText(args, 'filters')
  const filters = text === null ? {} : (JSON.parse(text) as JsonObject)
  const fields = { name: 'name', display_name: 'displayName', displayName: 'displayName', state: 'state' } as const
  const tests = Object.entries(filters).map(([key, wanted]) => {
    const field = Object.hasOwn(fields, key) ? fields[key as keyof typeof fields] : undefined
    if (field === undefined || typeof wanted !== 'string') {
      throw new InvalidRequestError(
        'unsupported_filter',
        `runs are filtered by ${Object.keys(fields).join(', ')}, got "${key.slice(0, 100)}"`,
      )
    }
    return (run: RunRecord) => run[field] === wanted
  })
  return (run) => tests.every((test) => test(run))
}

async function toRunFields(call: WandbCall, run: RunRecord): Promise<Fields> {
  const { db } = call.context
  const last = await lastHistoryLine(db, run.id)
  const text = (name: string) => run.attributes[name] ?? null
  const own = run.config['_wandb']
  return {
    __typename: 'Run',
    id: run.id,
    name: run.name,
    displayName: run.displayName,
    state: run.state,
    config: JSON.stringify(run.config),
    // what the client itself noted; without it a run counts as never begun and is not resumed
    wandbConfig: JSON.stringify(isJsonObject(own) && isJsonObject(own['value']) ? own['value'] : {}),
    summaryMetrics: JSON.stringify(run.summary),
    systemMetrics: '{}',
    tags: run.attributes['tags'] ?? [],
    notes: text('notes'),
    description: text('description'),
    group: text('groupName'),
    jobType: text('jobType'),
    commit: text('commit'),
    host: text('host'),
    sweepName: null,
    readOnly: false,
    projectId: '1',
    createdAt: toIso(run.createdAtMs),
    heartbeatAt: toIso(run.updatedAtMs),
    updatedAt: toIso(run.updatedAtMs),
    stopped: false,
    user: { id: run.entity, name: run.entity, username: run.entity },
    project: projectInfo(run.entity, run.project),
    historyLineCount: last === null ? 0 : last.line + 1,
    eventsLineCount: 0,
    logLineCount: 0,
    historyTail: JSON.stringify(last === null ? [] : [last.body]),
    eventsTail: '[]',
    historyKeys: async () => historyKeys(last),
    history: async (args) => (await sample(call.context, run.id, args['samples'])).map((line) => line.body),
    sampledHistory: async (args) => sampledHistory(call.context, run.id, args['specs']),
    files: async (args) => {
      const wanted = Array.isArray(args['names']) ? (args['names'] as readonly JsonValue[]) : []
      const files = (await listRunFiles(db, run.id)).filter(({ name }) => wanted.length === 0 || wanted.includes(name))
      return toConnection(files, args, (file) => {
        const url = call.addressOf({ kind: 'get_blob', sha256: file.sha256, sizeBytes: file.sizeBytes })
        return {
          __typename: 'File',
          id: `${run.id}/${file.name}`,
          name: file.name,
          displayName: file.name,
          sizeBytes: file.sizeBytes,
          url,
          directUrl: url,
          storagePath: null,
          mimetype: null,
          updatedAt: null,
          digest: null,
          md5: null,
        }
      })
    },
  }
}

function historyKeys(last: HistoryLine | null): Fields | null {
  if (last === null) return null
  const keys: Record<string, JsonValue> = {}
  for (const name of Object.keys(parseLine(last.body)))
    keys[name] = { typeCounts: [{ type: 'number', count: last.line + 1 }] }
  return { keys, lastStep: last.line, sets: [] }
}

async function sampledHistory(context: Pick<ServiceContext, 'db'>, runId: string, specs: JsonValue | undefined) {
  const lists: JsonValue[] = []
  for (const spec of Array.isArray(specs) ? (specs as readonly JsonValue[]) : []) {
    const text = jsonObjectText({ spec }, 'spec')
    const { keys, samples } = (text === null ? {} : JSON.parse(text)) as { keys?: string[]; samples?: number }
    const wanted = Array.isArray(keys) ? keys : []
    const lines = (await sample(context, runId, samples)).map((line) => parseLine(line.body))
    lists.push(
      lines
        .filter((line) => wanted.every((key) => line[key] !== undefined))
        .map((line) => Object.fromEntries(wanted.map((key) => [key, line[key] ?? null]))),
    )
  }
  return lists
}

/** At most `count` lines, evenly spread, always with the last one. */
async function sample(
  context: Pick<ServiceContext, 'db'>,
  runId: string,
  count: JsonValue | undefined,
): Promise<readonly HistoryLine[]> {
  const limit = typeof count === 'number' ? Math.min(Math.max(Math.trunc(count), 1), MAX_SAMPLES) : 500
  const last = await lastHistoryLine(context.db, runId)
  if (last === null) return []
  const lines: HistoryLine[] = []
  const stride = Math.max(1, Math.ceil((last.line + 1) / limit))
  let after = -1
  for (;;) {
    const page = await listHistory(context.db, runId, { afterLine: after, limit: 1000 })
    append(
      lines,
      page.filter((line) => line.line % stride === 0 || line.line === last.line),
    )
    after = page.at(-1)?.line ?? after
    if (page.length < 1000) return lines
  }
}

/** The metrics of a line; one that is no object has none. */
export function parseLine(body: string): JsonObject {
  try {
    const value: unknown = JSON.parse(body)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}

/**
 * Stores what a run's process sends while it runs: history and summary. Console output and the machine's own metrics arrive in
 * the same stream; they are read and not kept.
 *
 * @throws {NotFoundError} `run_not_found`; {InvalidRequestError} `invalid_history` for a line that is no JSON object
 */
export async function storeStream(
  context: Pick<ServiceContext, 'db'>,
  address: RunAddress,
  request: FileStreamRequest,
): Promise<void> {
  const run = await requireRunAt(context, address)
  const history = request.files?.['wandb-history.jsonl']
  const lines = (history?.content ?? []).map((body, index) => ({
    line: (history?.offset ?? 0) + index,
    body: checkLine(body),
  }))
  const summary = request.files?.['wandb-summary.json']?.content.at(-1)
  const isComplete = request.complete === true
  await inTransaction(context.db, async (transaction) => {
    await putHistory(transaction, run.id, lines)
    if (lines.length === 0 && summary === undefined && !isComplete) return
    await upsertRun(transaction, run.id, address, {
      ...(summary === undefined ? {} : { summary: JSON.parse(checkLine(summary)) as JsonObject }),
      ...(isComplete ? { state: (request.exitcode ?? 0) === 0 ? 'finished' : 'failed' } : {}),
    })
  })
}

function checkLine(body: string): string {
  if (body.length > MAX_LINE_LENGTH)
    throw invalidLine(`has ${body.length} characters, at most ${MAX_LINE_LENGTH} are kept`)
  try {
    if (isJsonObject(JSON.parse(body))) return body
  } catch {
    // told below
  }
  throw invalidLine('must be a JSON object')
}

function invalidLine(reason: string): InvalidRequestError {
  return new InvalidRequestError('invalid_history', `a line of history ${reason}`)
}
