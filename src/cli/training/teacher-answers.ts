/**
 * The answers of a teacher, kept in a file as they come: a run that was stopped, or that failed on a bad connection, goes on from it, and
 * nothing is asked or paid for twice. Knows no way of asking.
 *
 * A line is an example (`messages`), with whom it is from (`teacher`), the digest of what was asked of whom in which way (`asked`), and
 * which of several answers it is (`sample`).
 */
import { createHash } from 'node:crypto'
import { appendFile, readFile } from 'node:fs/promises'
import { toWriteError } from '#base/errors/file-errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { Lesson } from '#sdk/rl/teacher.js'
import type { Message } from '#sdk/rl/trajectory.js'
import { writeWhole } from '../local/output-file.js'
import { UsageError } from '../terminal/errors.js'

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
  const keys = prompts.map((messages) => digest([manner.teacher, manner.options, messages]))
  const at = new Map(keys.map((key, prompt) => [key, prompt]))
  const lessons: Lesson[] = []
  const there = new Set<string>()
  let others = 0
  for (const row of await readRows(path)) {
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
  return {
    lessons,
    others,
    has: (prompt, sample) => there.has(`${at.get(keys[prompt] ?? '') ?? prompt} ${sample}`),
    async add({ prompt, sample, text, isCut }) {
      const messages = [...(prompts[prompt] ?? []), { role: 'assistant', content: text }]
      const facts = { teacher: manner.teacher, asked: keys[prompt], sample, ...(isCut ? { is_cut: true } : {}) }
      const line = `${JSON.stringify({ messages, ...facts })}\n`
      turns = turns.then(() => append(path, line))
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

/** The rows; a last line that was cut off in the middle is removed from the file, so that the next begins on its own. */
async function readRows(path: string): Promise<readonly JsonObject[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new UsageError('input_unreadable', `${path} cannot be read: ${error.message}`, { cause: error })
  })
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  const rows = whole.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return []
    const row = parse(line)
    if (row !== null) return [row]
    throw new UsageError('input_invalid', `${path}:${i + 1}: is no answer of a teacher`, {
      hint: 'name another file with --answers: this one holds something else',
    })
  })
  if (whole !== text) await writeWhole(path, whole)
  return rows
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

function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 24)
}
