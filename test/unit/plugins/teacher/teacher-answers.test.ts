/** The file of a teacher's answers: what a second run finds in it, and what it does with lines that are not its own. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTeacherAnswers } from '#plugins/teacher/teacher-answers.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-teacher-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const PROMPTS = [[{ role: 'user', content: 'q0' }], [{ role: 'user', content: 'q1' }]]
const MANNER = { teacher: 'big', options: { temperature: 0 } }

test('a second run finds what came, cut answers as well, and asks for the rest', async () => {
  const path = join(folder, 'answers.jsonl')
  const first = await openTeacherAnswers(path, PROMPTS, MANNER)
  expect({ lessons: first.lessons, has: first.has(1, 0) }).toEqual({ lessons: [], has: false })
  await Promise.all([
    first.add({ prompt: 1, sample: 0, text: 'a1', isCut: false }),
    first.add({ prompt: 0, sample: 1, text: 'a0', isCut: true }),
  ])
  const second = await openTeacherAnswers(path, PROMPTS, MANNER)
  expect(second.lessons).toEqual([
    { prompt: 1, sample: 0, text: 'a1', isCut: false },
    { prompt: 0, sample: 1, text: 'a0', isCut: true },
  ])
  expect([second.has(1, 0), second.has(0, 1), second.has(0, 0), second.others]).toEqual([true, true, false, 0])
})

test.each([
  ['another teacher', { ...MANNER, teacher: 'other' }],
  ['another temperature', { ...MANNER, options: { temperature: 1 } }],
])('answers of %s are left alone and counted', async (_, manner) => {
  const path = join(folder, 'answers.jsonl')
  await (await openTeacherAnswers(path, PROMPTS, MANNER)).add({ prompt: 0, sample: 0, text: 'a', isCut: false })
  const again = await openTeacherAnswers(path, PROMPTS, manner)
  expect({ has: again.has(0, 0), others: again.others }).toEqual({ has: false, others: 1 })
})

test('a line that was cut off in the middle is asked for again, on a line of its own', async () => {
  const path = join(folder, 'answers.jsonl')
  await (await openTeacherAnswers(path, PROMPTS, MANNER)).add({ prompt: 0, sample: 0, text: 'a', isCut: false })
  writeFileSync(path, `${readFileSync(path, 'utf8')}{"messages":[{"ro`)
  const again = await openTeacherAnswers(path, PROMPTS, MANNER)
  await again.add({ prompt: 1, sample: 0, text: 'b', isCut: false })
  expect((await openTeacherAnswers(path, PROMPTS, MANNER)).lessons.map(({ text }) => text)).toEqual(['a', 'b'])
})

test('a file of something else is refused by its line, and left as it is', async () => {
  const path = join(folder, 'mine.jsonl')
  writeFileSync(path, '{"prompt":"q","answer":"a"}\n')
  await expect(openTeacherAnswers(path, PROMPTS, MANNER)).rejects.toMatchObject({
    code: 'input_invalid',
    message: `${path}:1: is no answer of a teacher`,
  })
  expect(readFileSync(path, 'utf8')).toBe('{"prompt":"q","answer":"a"}\n')
})

test.each(['{"my":"only copy"}', '{"messages":[],"mine":1}', '{"messages":[{"ro'])(
  'a file of nothing but %s, without a line feed, is refused and left as it is',
  async (mine) => {
    const path = join(folder, 'mine.json')
    writeFileSync(path, mine)
    await expect(openTeacherAnswers(path, PROMPTS, MANNER)).rejects.toMatchObject({
      code: 'input_invalid',
      message: `${path}:1: is no answer of a teacher`,
    })
    expect(readFileSync(path, 'utf8')).toBe(mine)
  },
)

test.each(['{"my":"note"}', 'my note', '{"messages":[],"mine":1}'])(
  'behind answers, %s without a line feed is refused and left as it is',
  async (mine) => {
    const path = join(folder, 'answers.jsonl')
    await (await openTeacherAnswers(path, PROMPTS, MANNER)).add({ prompt: 0, sample: 0, text: 'a', isCut: false })
    const all = `${readFileSync(path, 'utf8')}${mine}`
    writeFileSync(path, all)
    await expect(openTeacherAnswers(path, PROMPTS, MANNER)).rejects.toMatchObject({
      message: `${path}:2: is no answer of a teacher`,
    })
    expect(readFileSync(path, 'utf8')).toBe(all)
  },
)

test('a whole answer without its line feed counts, and the next begins on a line of its own', async () => {
  const path = join(folder, 'answers.jsonl')
  await (await openTeacherAnswers(path, PROMPTS, MANNER)).add({ prompt: 0, sample: 0, text: 'a', isCut: false })
  const bare = readFileSync(path, 'utf8').trimEnd()
  writeFileSync(path, bare)
  const again = await openTeacherAnswers(path, PROMPTS, MANNER)
  expect({ has: again.has(0, 0), file: readFileSync(path, 'utf8') }).toEqual({ has: true, file: bare })
  await again.add({ prompt: 1, sample: 0, text: 'b', isCut: false })
  expect((await openTeacherAnswers(path, PROMPTS, MANNER)).lessons.map(({ text }) => text)).toEqual(['a', 'b'])
})

test('a prompt that stands there twice has an answer for each time', async () => {
  const path = join(folder, 'answers.jsonl')
  const [a = [], b = []] = PROMPTS
  const first = await openTeacherAnswers(path, [a, a, b], MANNER)
  for (const prompt of [0, 1, 2]) await first.add({ prompt, sample: 0, text: `a${prompt}`, isCut: false })
  const second = await openTeacherAnswers(path, [a, a, b], MANNER)
  expect({ lessons: second.lessons.map(({ prompt, text }) => [prompt, text]), others: second.others }).toEqual({
    lessons: [
      [0, 'a0'],
      [1, 'a1'],
      [2, 'a2'],
    ],
    others: 0,
  })
  expect([0, 1, 2].map((prompt) => second.has(prompt, 0))).toEqual([true, true, true])
})
