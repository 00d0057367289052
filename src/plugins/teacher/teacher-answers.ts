/**
 * The answers of a teacher, kept in a file as they come: a run that was stopped, or that failed on a bad connection, goes on from
 * it, and nothing is asked or paid for twice. Knows no way of asking.
 *
 * A line is an example (`messages`), with whom it is from (`teacher`), the digest of what was asked of whom in which way
 * (`asked`), and which of several answers it is (`sample`).
 */
import { createHash } from 'node:crypto'
import { appendFile, readFile } from 'node:fs/promises'
import { toWriteError } from '#base/errors/file-errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { writeWhole } from '#base/write-whole.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Lesson } from '#plugins/rl-library/teacher.js'
import type { Message } from '#sdk/rl/trajectory.js'

export interface TeacherAnswers {
  /** Answers that are there, of this teacher in this manner. */
  readonly lessons: readonly Lesson[]
  /** Lines of other teachers, manners or prompts, which are left alone. */
  readonly others: number
  has(prompt: number, sample: number): boolean
  /** On the disk when it is done; one after the other. */
  add(lesson: Lesson): Promise<void>
}

/**
 * Opens a file of answers; one that is not there begins empty.
 *
 * @param manner.teacher name as messages call it
 * @param manner.options whatever else makes answers differ: system message, temperature, limit
 * @throws {UsageError} `input_invalid` for a file that holds something else
 */
export async function openTeacherAnswers(
  path: string,
  prompts: readonly (readonly Message[])[],
  manner: { readonly teacher: string; readonly options: JsonObject },
): Promise<TeacherAnswers> {
  const keys = keysOf(prompts, manner)
  const at = new Map(keys.map((key, prompt) => [key, prompt]))
  const lessons: Lesson[] = []
  const there = new Set<string>()
  let others = 0
  const { rows, mended } = await readRows(path)
  for (const row of rows) {
    const prompt = at.get(String(row['asked']))
    const sample = Number(row['sample'])
    const text = textOf(row)
    if (prompt === undefined || text === null || there.has(`${prompt} ${sample}`)) {
      others += 1
      continue
    }
    there.add(`${prompt} ${sample}`)
    lessons.push({ prompt, sample, text, isCut: row['is_cut'] === true })
  }
  let turns: Promise<void> = Promise.resolve()
  let isMended = mended === null
  return {
    lessons,
    others,
    has: (prompt, sample) => there.has(`${prompt} ${sample}`),
    async add({ prompt, sample, text, isCut }) {
      const messages = [...(prompts[prompt] ?? []), { role: 'assistant', content: text }]
      const facts = { teacher: manner.teacher, asked: keys[prompt], sample, ...(isCut ? { is_cut: true } : {}) }
      const line = `${JSON.stringify({ messages, ...facts })}\n`
      turns = turns.then(async () => {
        // not before there is something to keep: who only looks changes nothing
        if (!isMended && mended !== null) await writeWhole(path, mended)
        isMended = true
        await append(path, line)
      })
      await turns
    },
  }
}

async function append(path: string, line: string): Promise<void> {
  try {
    await appendFile(path, line)
  } catch (error) {
    throw toWriteError(error, path) ?? error
  }
}

/** How a line of this file begins. */
const BEGINNING = '{"messages":'

/**
 * The rows, and what the file must be before another can be added; null: as it is. A last line that was cut off in the middle is
 * left out, a whole one gets its line feed. What may be somebody's own is refused and never shortened: a single line without a
 * line feed is the whole of such a file.
 */
async function readRows(
  path: string,
): Promise<{ readonly rows: readonly JsonObject[]; readonly mended: string | null }> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new UsageError('input_unreadable', `${path} cannot be read: ${error.message}`, { cause: error })
  })
  const lines = text.split('\n')
  const tail = lines.pop() ?? ''
  const rows = lines.flatMap((line, i) => {
    if (line.trim() === '') return []
    const row = parse(line)
    if (row !== null) return [row]
    throw foreign(i + 1)
  })
  if (tail.trim() === '') return { rows, mended: null }
  const last = parse(tail)
  if (last !== null) return { rows: [...rows, last], mended: `${text}\n` }
  const isCut = !isJson(tail) && (tail.startsWith(BEGINNING) || BEGINNING.startsWith(tail))
  if (rows.length === 0 || !isCut) throw foreign(lines.length + 1)
  return { rows, mended: text.slice(0, text.length - tail.length) }

  function foreign(line: number): UsageError {
    return new UsageError('input_invalid', `${path}:${line}: is no answer of a teacher`, {
      hint: 'name another file with --answers: this one holds something else',
    })
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function parse(line: string): JsonObject | null {
  try {
    const row: unknown = JSON.parse(line)
    return isJsonObject(row) && Array.isArray(row['messages']) && typeof row['asked'] === 'string' ? row : null
  } catch {
    return null
  }
}

function textOf(row: JsonObject): string | null {
  const messages = row['messages']
  const last = Array.isArray(messages) ? messages.at(-1) : undefined
  const content = last !== undefined && isJsonObject(last) ? last['content'] : null
  return typeof content === 'string' ? content : null
}

/**
 * Of what is asked; a prompt that stands there several times is asked as often, and its answers are told apart by which time it
 * is.
 */
function keysOf(
  prompts: readonly (readonly Message[])[],
  manner: { readonly teacher: string; readonly options: JsonObject },
): readonly string[] {
  const times = new Map<string, number>()
  return prompts.map((messages) => {
    const asked = [manner.teacher, manner.options, messages]
    const key = digest(asked)
    const time = times.get(key) ?? 0
    times.set(key, time + 1)
    return time === 0 ? key : digest([...asked, time])
  })
}

function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 24)
}
