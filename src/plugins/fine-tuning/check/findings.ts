/**
 * What of files for OpenAI's API runs here, differs, or is refused: one sentence a kind, with the lines that it is of. The
 * same readers say it that read requests. A file is JSON (a job, a request for a grader, a grader) or JSON Lines (rows,
 * requests of a batch, or any of those).
 */
import { AppError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { readPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { readSftExamples } from '#formats/rows/examples/sft-example.js'
import { readLines } from '#formats/rows/json-lines.js'
import { checkGrader, modelsOf } from '#plugins/graders/grading/check.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { ignoredFieldsOf } from '#service/bodies/parse-body.js'
import { assertSupported } from '../create-parts.js'
import { checkRow } from '../reinforcement/rows.js'
import { createFineTuningJobRequestSchema } from '../wire.js'

export type Verdict = 'runs' | 'differs' | 'refused'

export interface Finding {
  readonly verdict: Verdict
  readonly sentence: string
  /** The first of them. */
  readonly lines: readonly number[]
  readonly count: number
}

const MOST_LINES = 100_000
const MOST_LINE_BYTES = 4 * 1024 ** 2
const MOST_FILE_BYTES = 200 * 1024 ** 2
/** Lines that are named of a finding. */
const LINES_SAID = 5
/** Findings of one file; the rest is one more. */
const MOST_FINDINGS = 100
/** Endpoints that batches may ask. */
const ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/responses']

type Say = (verdict: Verdict, sentence: string) => void

/** @param source bytes of a file */
export async function findInFile(source: AsyncIterable<Uint8Array>): Promise<readonly Finding[]> {
  const findings = createFindings()
  let whole: string[] | null = []
  let size = 0
  try {
    for await (const { number, text } of readLines(bounded(source), { maxLineBytes: MOST_LINE_BYTES })) {
      if (text.trim() === '') continue
      if (number > MOST_LINES) {
        findings.add(number, 'differs', `lines behind the first ${MOST_LINES} were not looked at`)
        break
      }
      size += text.length
      const value = parse(text)
      // a line that is no JSON by itself may be one of a value over many lines
      if (value === undefined && whole !== null && size <= MOST_LINE_BYTES) whole.push(text)
      else if (value === undefined) findings.add(number, 'refused', 'a line is not JSON')
      else if (whole !== null && whole.length > 0) whole.push(text)
      else {
        whole = null
        await findInValue(value, number, (verdict, sentence) => findings.add(number, verdict, sentence))
      }
    }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const { line } = error.details ?? {}
    findings.add(typeof line === 'number' ? line : 1, 'refused', plain(error.message))
  }
  if (whole !== null && whole.length > 0) {
    const value = parse(whole.join('\n'))
    const values = Array.isArray(value) ? value.slice(0, MOST_LINES) : [value]
    for (const each of values) {
      if (each === undefined) findings.add(1, 'refused', 'the file is neither JSON nor JSON Lines')
      else await findInValue(each, 1, (verdict, sentence) => findings.add(1, verdict, sentence))
    }
  }
  return findings.all()
}

async function* bounded(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of source) {
    bytes += chunk.length
    if (bytes > MOST_FILE_BYTES) {
      throw new AppError('too_large', 'file_too_large', `the file has more than ${MOST_FILE_BYTES} bytes`)
    }
    yield chunk
  }
}

function createFindings() {
  const found = new Map<string, { verdict: Verdict; sentence: string; lines: number[]; count: number }>()
  return {
    add: (line: number, verdict: Verdict, said: string): void => {
      const isNew = !found.has(`${verdict} ${said}`)
      const sentence = isNew && found.size >= MOST_FINDINGS ? 'more is said of other lines' : said
      const key = `${verdict} ${sentence}`
      const finding = found.get(key) ?? { verdict, sentence, lines: [], count: 0 }
      found.set(key, finding)
      finding.count += 1
      if (finding.lines.length < LINES_SAID) finding.lines.push(line)
    },
    all: (): readonly Finding[] => {
      const order: readonly Verdict[] = ['refused', 'differs', 'runs']
      return [...found.values()].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict))
    },
  }
}

/** Undefined: it is none. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

async function findInValue(value: unknown, number: number, say: Say): Promise<void> {
  if (!isJsonObject(value)) {
    say('refused', 'a line holds no JSON object')
    return
  }
  const problem = await findInKind(value, number, say)
  if (problem !== null) say('refused', problem)
}

/** @returns why it is refused, where that is one sentence */
async function findInKind(value: JsonObject, number: number, say: Say): Promise<string | null> {
  if ('custom_id' in value) return findInBatchLine(value, say)
  if ('training_file' in value || 'method' in value) return findInJob(value, say)
  if ('grader' in value) return findInGrading(value, say)
  if ('messages' in value) return await findInRow(value, number, say)
  if ('input' in value && 'preferred_output' in value) return await findInPreference(value, number, say)
  if (typeof value['type'] !== 'string') {
    return 'a line is no job, row, grader or request of a batch: it has none of their fields'
  }
  findInGrader(value, '', say)
  return null
}

function findInBatchLine({ url, method, body }: JsonObject, say: Say): string | null {
  if (method !== 'POST') return `method is ${shown(method)}, batches take "POST"`
  if (!ENDPOINTS.some((endpoint) => endpoint === url)) {
    return `url is ${shown(url)}, batches take ${ENDPOINTS.join(', ')}`
  }
  if (!isJsonObject(body)) return 'body is no JSON object'
  if (body['stream'] === true) return 'body.stream is true: nobody listens while a batch is answered'
  noteModel(body['model'], say)
  say('runs', `a request of a batch for ${String(url)}`)
  return null
}

function findInJob(value: JsonObject, say: Say): string | null {
  const { success, data, error } = createFineTuningJobRequestSchema.safeParse(value)
  if (!success) {
    for (const { path, message } of error.issues.slice(0, 20)) say('refused', `${path.join('.')}: ${message}`)
    return null
  }
  for (const name of ignoredFieldsOf(createFineTuningJobRequestSchema, value)) say('differs', `${name} is ignored`)
  noteModel(data.model, say)
  const isRefused = attempt(say, () => assertSupported(data))
  const { method } = data
  if (method?.type !== 'reinforcement') {
    if (!isRefused) say('runs', `a job that learns by ${method?.type ?? 'supervised'} rows`)
    return null
  }
  const grader = method.reinforcement?.grader
  if (grader === undefined) return 'method.reinforcement.grader is missing'
  if (data.validation_file == null) say('differs', 'validation_file is not needed: some of the rows are held out')
  if (findInGrader(grader as JsonObject, 'method.reinforcement.', say) && !isRefused) say('runs', 'a reinforcement job')
  return null
}

function findInGrading({ grader, model_sample: sample }: JsonObject, say: Say): string | null {
  if (!isJsonObject(grader)) return 'grader is no JSON object'
  if (sample !== undefined && typeof sample !== 'string' && !isJsonObject(sample)) {
    return 'model_sample is neither a text nor an answer with choices'
  }
  if (findInGrader(grader, '', say)) say('runs', sample === undefined ? 'graders/validate' : 'graders/run')
  return null
}

/** @returns whether it can be read */
function findInGrader(grader: JsonObject, at: string, say: Say): boolean {
  let models: readonly string[] = []
  const isRefused = attempt(say, () => {
    const read = readGrader(grader, `${at}grader`)
    checkGrader(read, `${at}grader`)
    models = modelsOf(read)
  })
  for (const model of models) {
    say('differs', `${at}grader asks ${shown(model)}: name a model of yours, or serve --teacher ${model}=URL,VARIABLE`)
  }
  if (at === '' && !isRefused) say('runs', `a grader of the kind ${shown(grader['type'])}`)
  return !isRefused
}

/** A row of answers to learn from, or of a conversation that waits for one. */
async function findInRow(value: JsonObject, number: number, say: Say): Promise<string | null> {
  const { messages } = value
  const last = Array.isArray(messages) ? (messages.at(-1) as { readonly role?: unknown } | undefined) : undefined
  if (last?.role !== 'assistant') {
    if (!attempt(say, () => checkRow(value, number))) say('runs', 'a row of reinforcement jobs')
    return null
  }
  const problem = await problemOf(readSftExamples(oneLine(value, number)))
  if (problem === null) say('runs', 'a row of supervised jobs')
  return problem
}

async function findInPreference(value: JsonObject, number: number, say: Say): Promise<string | null> {
  const problem = await problemOf(readPreferenceExamples(oneLine(value, number)))
  if (problem === null) say('runs', 'a row of preference jobs')
  return problem
}

const oneLine = (value: JsonObject, number: number) => ({
  lines: (async function* () {
    yield { number, text: JSON.stringify(value), isTerminated: true }
  })(),
})

async function problemOf(rows: AsyncIterable<unknown>): Promise<string | null> {
  try {
    for await (const _ of rows);
    return null
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return plain(error.message)
  }
}

/** @returns whether it was refused */
function attempt(say: Say, read: () => unknown): boolean {
  try {
    read()
    return false
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    say('refused', plain(error.message))
    return true
  }
}

/** Lines are said by themselves, so that one sentence is of many. */
const plain = (message: string): string => message.replace(/^line \d+:? /i, 'a row ')

function noteModel(model: unknown, say: Say): void {
  if (typeof model !== 'string' || !/^(?:gpt|o\d|ft:|chatgpt|davinci|babbage)/.test(model)) return
  say('differs', `model ${shown(model)} is not here: name a base model (trainyard/spark) or one of yours`)
}

const shown = (value: unknown): string =>
  value === undefined ? 'nothing' : (JSON.stringify(value) ?? '').slice(0, 100)
