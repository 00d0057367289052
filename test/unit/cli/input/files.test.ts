/** Trajectory and conversation files: the three accepted forms, and problems with file, line and path. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, test } from 'vitest'
import { checkConversations, checkPreferences } from '../../../../src/cli/input/conversation-file.js'
import { openInput } from '../../../../src/cli/input/input-file.js'
import { readTrajectoryFile } from '../../../../src/cli/input/trajectory-file.js'
import { createIo } from '../../../../src/cli/terminal/io.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
const sink = { isTTY: false, write: () => true }

function ioWith(text: string) {
  return createIo({ stdin: Readable.from([Buffer.from(text)]), stdout: sink, stderr: sink }, false, {})
}
function group(...rewards: number[]) {
  const messages_and_choices = [
    { role: 'user', content: 'q' },
    { finish_reason: 'stop', index: 0, message: { role: 'assistant', content: 'a' } },
  ]
  return { trajectories: rewards.map((reward) => ({ messages_and_choices, reward })) }
}

describe('trajectory files', () => {
  const groups = [group(0, 1), group(1, 1)]
  test.each([
    ['JSON Lines', groups.map((each) => JSON.stringify(each)).join('\r\n')],
    ['an array', JSON.stringify(groups, null, 2)],
    ['an object', JSON.stringify({ trajectory_groups: groups })],
    ['a byte order mark and blank lines', `\ufeff\n${groups.map((each) => JSON.stringify(each)).join('\n\n')}\n`],
  ])('%s', async (_name, text) => {
    const file = await readTrajectoryFile('-', ioWith(text))
    expect(file).toMatchObject({ trajectoryCount: 4, meanReward: 0.75 })
    expect(file.groups).toHaveLength(2)
  })
  test('problems are named as file:line: path, each kind once, with how many rows have it', async () => {
    const path = join(folder, 'groups.jsonl')
    const bad = { trajectories: [{ messages_and_choices: [{ role: 'user', content: 'q' }], reward: 'high' }] }
    writeFileSync(path, [JSON.stringify(group(1, 2)), ...Array(12).fill(JSON.stringify(bad))].join('\n'))
    const error = await readTrajectoryFile(path, ioWith('')).catch((thrown: Error) => thrown)
    const lines = (error as Error).message.split('\n')
    expect(lines[0]).toBe(
      `${path}:2: trajectories[0].reward: must be a finite number, got "high" (12 rows, this is the first)`,
    )
    expect(lines).toHaveLength(1)
  })
  test.each([
    ['', 'holds no trajectory group'],
    ['{"trajectories":[]}', 'trajectories: must hold at least one trajectory'],
    ['{"trajectories":[{"messages_and_choices":[],"reward":1}]}', 'messages_and_choices: must not be empty'],
    ['{"trajectories":[{"messages_and_choices":[{}],"reward":1}]}', 'messages_and_choices[0]: must be a message'],
    ['{"trajectories":{}}', 'trajectories: must be an array, got {}'],
    ['[1]', '[0]: must be a group object, got 1'],
    ['{"trajectories":[', 'standard input:1: not valid JSON'],
    ['{"prompt":"2+2?","answer":"4"}', 'standard input:1: is a prompt, expected trajectory groups'],
    ['{"messages":[{"role":"user","content":"q"}]}', 'is a prompt'],
    ['{"prompt":"q","chosen":"a","rejected":"b"}', 'is a preference'],
  ])('%j is refused', async (text, message) => {
    await expect(readTrajectoryFile('-', ioWith(text))).rejects.toThrow(message)
  })
  test('a missing file and a folder are named', async () => {
    await expect(readTrajectoryFile(join(folder, 'none'), ioWith(''))).rejects.toThrow('does not exist')
    await expect(readTrajectoryFile(folder, ioWith(''))).rejects.toThrow('is a folder')
  })
})

describe('conversation files', () => {
  const row = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}'
  test('rows and assistant turns are counted; blank lines, CRLF and a byte order mark are fine', async () => {
    expect(await checkConversations(new Blob([`\ufeff${row}\r\n\r\n${row}`]), 'f')).toEqual({
      rowCount: 2,
      assistantTurnCount: 2,
    })
  })
  test('rows of prompt and completion count what trains: the completion', async () => {
    const [user, assistant] = ['{"role":"user","content":"q"}', '{"role":"assistant","content":"a"}']
    const turns = `{"prompt":[${user},${assistant},${user}],"completion":[${assistant}]}`
    expect(await checkConversations(new Blob([`{"prompt":"a","completion":"b"}\n${turns}\n${row}`]), 'f')).toEqual({
      rowCount: 3,
      assistantTurnCount: 3,
    })
  })
  test.each([
    [`${row}\n{"messages":[`, 'f:2: not valid JSON'],
    ['{"messages":[]}', 'f:1: messages: must be an array that is not empty'],
    ['{}', 'f:1: has nothing, expected messages, or prompt and completion'],
    ['{"body":"a","by":null}', 'f:1: has "body", expected messages, or prompt and completion'],
    ['{"prompt":"a"}', 'f:1: completion: must be there beside prompt'],
    ['{"completion":"a"}', 'f:1: prompt: must be there beside completion'],
    ['{"prompt":"a","completion":[{"role":"assistant"}]}', 'f:1: completion: must be text as prompt is'],
    ['{"prompt":[],"completion":[]}', 'f:1: prompt: must be an array that is not empty'],
    ['{"prompt":[{"role":"user"}],"completion":[{}]}', 'f:1: completion[0].role'],
    ['{"prompt":[{"role":"user"}],"completion":[{"role":"user"}]}', 'completion: must hold an assistant message'],
    ['{"prompt":"a","completion":"b","messages":[]}', 'f:1: messages: must not be there beside'],
    ['[{"role":"user"}]', 'f:1: must be a JSON object, got an array; JSON Lines have one object a line'],
    ['{"messages":[{"content":"x"}]}', 'f:1: messages[0].role'],
    ['{"messages":[{"role":"user","content":"x"}]}', 'assistant message to learn from'],
    ['\n\n', 'f holds no conversation'],
  ])('%j is refused', async (text, message) => {
    await expect(checkConversations(new Blob([text]), 'f')).rejects.toThrow(message)
  })
  test('compressed rows are read from a file and, byte by byte, from standard input', async () => {
    const bytes = gzipSync(`${row}\n${row}\n`)
    const input = { stdin: Readable.from([bytes.subarray(0, 7), bytes.subarray(7)]), stdout: sink, stderr: sink }
    const data = await openInput('-', createIo(input, false, {}))
    expect(Buffer.from(await data.arrayBuffer())).toEqual(bytes)
    expect(await checkConversations(data, 'f')).toMatchObject({ rowCount: 2 })
  })
  test('a damaged gzip file is said to be one', async () => {
    const bytes = gzipSync(`${row}\n`.repeat(50))
    const damaged = Buffer.from(bytes)
    damaged.fill(0xff, 12, 30)
    for (const data of [bytes.subarray(0, 40), damaged]) {
      const refused = expect.objectContaining({
        code: 'input_invalid',
        message: expect.stringContaining('f begins like a gzip file but cannot be decompressed'),
      })
      await expect(checkConversations(new Blob([data]), 'f')).rejects.toEqual(refused)
      await expect(checkPreferences(new Blob([data]), 'f')).rejects.toEqual(refused)
    }
  })
})
